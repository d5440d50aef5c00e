"""Pods, services and TF_CONFIG: RULES §10 and §12, with the peers' exact strings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.act.manifests import pod_manifest, service_manifest
from controller.model.replicas import ReplicaType, SlotId
from controller.model.settings import GangScheduler, PolicySettings

Json = dict[str, Any]
WORKER_0 = SlotId(ReplicaType.WORKER, 0)
PS_0 = SlotId(ReplicaType.PS, 0)
CHIEF_0 = SlotId(ReplicaType.CHIEF, 0)
EVALUATOR_0 = SlotId(ReplicaType.EVALUATOR, 0)


def tfjob(replicas: dict[str, int], *, rules: str = "v1", namespace: str = "ns3", **spec: Any) -> Json:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j", "namespace": namespace, "uid": "u"},
        "spec": {
            "rules": rules,
            "tfReplicaSpecs": {kind: {"replicas": count, "template": template()} for kind, count in replicas.items()},
            **spec,
        },
    }


def template(**container: Any) -> Json:
    return {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1", **container}]}}


def text_of(job: Json, slot: SlotId, domain: str = "") -> str | None:
    """The TF_CONFIG of a slot's pod, None when it has none."""
    main = pod_manifest(job, slot, PolicySettings(cluster_domain=domain))["spec"]["containers"][0]
    return next((entry["value"] for entry in main.get("env", ()) if entry["name"] == "TF_CONFIG"), None)


def cluster(*parts: str) -> str:
    return '{"cluster":{' + ",".join(parts) + "}"


EVALUATOR = '"evaluator":["j-evaluator-0.ns3.svc:2222"]'
PS = '"ps":["j-ps-0.ns3.svc:2222"]'
WORKER = '"worker":["j-worker-0.ns3.svc:2222"]'
TASK = ',"task":{"type":"worker","index":0},"environment":"cloud"}'


@pytest.mark.parametrize(
    ("replicas", "rules", "domain", "expected"),
    [
        ({"Worker": 1, "PS": 1}, "v1", "", cluster(PS, WORKER) + TASK),
        ({"Worker": 1, "PS": 1, "Evaluator": 1}, "v1", "", cluster(EVALUATOR, PS, WORKER) + TASK),
        ({"WORKER": 1, "PS": 1, "EVALUATOR": 1}, "v1alpha2", "", cluster(PS, WORKER) + TASK),
        ({"Worker": 1, "PS": 1}, "v1", "tf.training.io",
         cluster(PS, WORKER).replace(".svc:", ".svc.tf.training.io:") + TASK),
        ({"Worker": 1}, "v1", "", None),
        ({"Worker": 1, "PS": 0}, "v1", "", None),
        ({"Worker": 2, "PS": 0}, "v1", "",
         '{"cluster":{"worker":["j-worker-0.ns3.svc:2222","j-worker-1.ns3.svc:2222"]}' + TASK),
    ],
)  # fmt: skip
def test_tf_config(replicas: dict[str, int], rules: str, domain: str, expected: str | None) -> None:
    assert text_of(tfjob(replicas, rules=rules), WORKER_0, domain) == expected


def test_tf_config_with_dynamic_workers_is_sparse_for_workers_and_ps() -> None:
    job = tfjob({"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}, enableDynamicWorker=True)
    ps = ["j-ps-0.ns3.svc:2222", "j-ps-1.ns3.svc:2222"]
    worker_1 = json.loads(text_of(job, SlotId(ReplicaType.WORKER, 1)) or "")
    assert worker_1["cluster"] == {"ps": ps, "worker": {"1": "j-worker-1.ns3.svc:2222"}}
    assert json.loads(text_of(job, SlotId(ReplicaType.PS, 1)) or "")["cluster"] == {"ps": [ps[1]]}
    chief = json.loads(text_of(job, CHIEF_0) or "")["cluster"]
    assert chief.keys() == {"chief", "evaluator", "ps", "worker"} and chief["ps"] == ps
    assert json.loads(text_of(job, EVALUATOR_0) or "")["cluster"] == chief


def test_tf_config_uses_each_type_s_own_port_and_leaves_a_user_s_alone() -> None:
    job = tfjob({"Worker": 1, "PS": 1})
    job["spec"]["tfReplicaSpecs"]["PS"]["template"] = template(ports=[{"name": "tfjob-port", "containerPort": 7000}])
    assert json.loads(text_of(job, WORKER_0) or "")["cluster"]["ps"] == ["j-ps-0.ns3.svc:7000"]
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"] = template(env=[{"name": "TF_CONFIG", "value": "mine"}])
    assert text_of(job, WORKER_0) == "mine"


def test_tf_config_is_appended_last_and_only_to_the_main_container() -> None:
    job = tfjob({"Worker": 2})
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"] = {
        "spec": {
            "containers": [{"name": "side", "image": "x"}, {"name": "tensorflow", "image": "x", "env": [{"name": "A"}]}]
        }
    }
    side, main = pod_manifest(job, WORKER_0, PolicySettings())["spec"]["containers"]
    assert "env" not in side and [entry["name"] for entry in main["env"]] == ["A", "TF_CONFIG"]


def test_the_pod_of_a_slot() -> None:
    job = tfjob({"Worker": 1, "PS": 1})
    job["spec"]["tfReplicaSpecs"]["Worker"] |= {"restartPolicy": "ExitCode"}
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"] = {
        "metadata": {
            "labels": {"team": "a", "training.kubeflow.org/replica-type": "mine"},
            "annotations": {"sidecar.istio.io/inject": "true"},
        },
        "spec": {
            "restartPolicy": "Always",
            "initContainers": [{"name": "init", "image": "x"}],
            "containers": [{"name": "tensorflow", "image": "x", "terminationMessagePolicy": "File"}],
        },
    }
    before = json.dumps(job)
    pod = pod_manifest(job, WORKER_0, PolicySettings())
    assert json.dumps(job) == before, "the live job was written to"
    assert pod["metadata"] == {
        "name": "j-worker-0",
        "namespace": "ns3",
        "annotations": {"sidecar.istio.io/inject": "true"},
        "labels": {
            "team": "a",
            "training.kubeflow.org/job-name": "j",
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "0",
            "training.kubeflow.org/job-role": "master",
            "tfjob.kubeflow.org/job-uid": "u",
        },
        "ownerReferences": [
            {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u", "controller": True,
             "blockOwnerDeletion": True}
        ],
    }  # fmt: skip
    spec = pod["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["initContainers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert spec["containers"][0]["terminationMessagePolicy"] == "File"
    assert spec["containers"][0]["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


@pytest.mark.parametrize(
    ("policy", "in_pod"),
    [(None, "Never"), ("Never", "Never"), ("OnFailure", "OnFailure"), ("Always", "Always"), ("ExitCode", "Never")],
)
def test_the_pod_s_own_restart_policy(policy: str | None, in_pod: str) -> None:
    job = tfjob({"Worker": 1})
    if policy:
        job["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = policy
    assert pod_manifest(job, WORKER_0, PolicySettings())["spec"]["restartPolicy"] == in_pod


@pytest.mark.parametrize(
    ("replicas", "master"),
    [({"Chief": 1, "Worker": 2}, "chief-0"), ({"master": 1, "Worker": 1}, "master-0"),
     ({"Worker": 2, "PS": 1}, "worker-0"), ({"PS": 2}, None)],
)  # fmt: skip
def test_the_decider_s_pod_alone_is_the_master(replicas: dict[str, int], master: str | None) -> None:
    job = tfjob(replicas)
    found = []
    for kind, count in replicas.items():
        for index in range(count):
            slot = SlotId(ReplicaType(kind.capitalize() if kind != "PS" else kind), index)
            labels = pod_manifest(job, slot, PolicySettings())["metadata"]["labels"]
            if labels.get("training.kubeflow.org/job-role") == "master":
                found.append(str(slot))
    assert found == ([master] if master else [])


def test_the_service_of_a_slot_has_all_ports_of_the_main_container() -> None:
    job = tfjob({"Worker": 1})
    ports = [
        {"name": "tb", "containerPort": 6006},
        {"containerPort": 9000},
        {"name": "u", "containerPort": 1, "protocol": "UDP"},
    ]
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"] = template(ports=ports)
    service = service_manifest(job, WORKER_0)
    assert service["metadata"]["name"] == "j-worker-0" and service["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            "training.kubeflow.org/job-name": "j",
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "0",
        },
        "ports": [
            {"name": "tb", "port": 6006},
            {"name": "port-1", "port": 9000},
            {"name": "u", "port": 1, "protocol": "UDP"},
            {"name": "tfjob-port", "port": 2222},
        ],
    }


@pytest.mark.parametrize("gang", [GangScheduler.VOLCANO, GangScheduler.SCHEDULER_PLUGINS])
def test_a_member_of_a_gang_is_marked_and_a_scheduler_of_its_own_is_kept(gang: GangScheduler) -> None:
    settings = PolicySettings(gang_scheduler=gang)
    pod = pod_manifest(tfjob({"Worker": 1}), WORKER_0, settings)
    metadata = pod["metadata"]
    if gang is GangScheduler.VOLCANO:
        assert metadata["annotations"] == {"scheduling.k8s.io/group-name": "j", "volcano.sh/task-spec": "worker"}
    else:
        assert metadata["labels"]["scheduling.x-k8s.io/pod-group"] == "j"
    assert pod["spec"]["schedulerName"] == gang.value
    job = tfjob({"Worker": 1})
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "mine"
    assert pod_manifest(job, WORKER_0, settings)["spec"]["schedulerName"] == "mine"


def test_the_finalizer_is_a_setting() -> None:
    settings = PolicySettings(pod_finalizer=True)
    assert pod_manifest(tfjob({"Worker": 1}), WORKER_0, settings)["metadata"]["finalizers"] == [
        "tfjob.kubeflow.org/end-recorded"
    ]
    assert "finalizers" not in pod_manifest(tfjob({"Worker": 1}), WORKER_0, PolicySettings())["metadata"]
