"""An object as the server sends it → what the log keeps of it: tables, and that the same always gives the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.model.events import JobObserved, NoticeObserved, Op, PodObserved
from controller.model.objects import ObjectMeta
from controller.model.settings import GangScheduler
from controller.watch.lines import BadLine, object_of
from controller.watch.normalise import Normaliser, Owner, lost, owner_of
from controller.watch.redact import Redaction
from controller.watch.resources import NOTICES, POD_GROUPS, PODS, SERVICES, TFJOBS, Resource
from tests.edges.watch_world import normaliser

META: dict[str, Any] = {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
JOB_REFERENCE = {"kind": "TFJob", "apiVersion": "kubeflow.org/v1", "name": "job", "uid": "job-uid", "controller": True}


def seen(resource: Resource, body: dict[str, Any], op: Op = Op.ADDED, by: Normaliser | None = None) -> Any:
    return (by or normaliser()).observation(resource, op, object_of(msgspec.json.encode(body)), 5)


def test_a_pod() -> None:
    metadata = META | {
        "labels": {"training.kubeflow.org/job-name": "job", "other": "x"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"},
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [JOB_REFERENCE],
        "unknownField": {"stays": True},
    }
    spec = {"nodeName": "node", "restartPolicy": "Never", "containers": [{"name": "tensorflow"}], "z": 1, "a": 2}
    status = {"phase": "Running", "futureField": [1, 2.50]}
    found = seen(PODS, {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status})
    kept = metadata | {"annotations": {"a": "b"}}
    del kept["managedFields"]
    assert msgspec.json.decode(found.body) == {
        "metadata": kept,
        "spec": {"nodeName": "node", "restartPolicy": "Never"},
        "status": status,
    }
    assert found.spec == b'{"a":2,"containers":[{"name":"tensorflow"}],"restartPolicy":"Never","z":1}'
    assert (found.namespace, found.name, found.uid, found.resource_version) == ("ns", "n", "u", 7)
    assert (found.job_uid, found.job_name, found.observed_at, found.op) == ("job-uid", "job", 5, Op.ADDED)
    assert isinstance(found.fact, PodObserved)
    assert found.fact.pod == msgspec.json.decode(found.body, type=type(found.fact.pod))
    assert found.size >= len(found.body)


def test_binding_a_pod_keeps_its_specs_hash() -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "tensorflow", "image": "a"}]}
    pod = {"metadata": META, "status": {}}
    first = seen(PODS, pod | {"spec": spec})
    bound = seen(PODS, pod | {"spec": {"nodeName": "node", **dict(reversed(spec.items()))}})
    other = seen(PODS, pod | {"spec": spec | {"containers": [{"name": "tensorflow", "image": "b"}]}})
    assert first.spec_hash == bound.spec_hash != other.spec_hash
    assert (first.fact.pod.spec.node_name, bound.fact.pod.spec.node_name) == (None, "node")


def test_what_is_remembered_changes_no_answer() -> None:
    one = normaliser()
    pods = [{"metadata": META, "spec": {"containers": [{"name": str(n % 3)}]}, "status": {"n": n}} for n in range(9)]
    assert [seen(PODS, pod, by=one) for pod in pods] == [seen(PODS, pod) for pod in pods]


def test_a_job_keeps_its_spec_by_hash_and_its_fact_has_it() -> None:
    spec = {
        "tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": "v"}]}]}}}}
    }
    found = seen(
        TFJOBS, {"apiVersion": "kubeflow.org/v1alpha2", "metadata": META, "spec": spec, "status": {"conditions": None}}
    )
    assert msgspec.json.decode(found.body) == {
        "apiVersion": "kubeflow.org/v1alpha2",
        "metadata": META,
        "status": {"conditions": None},
    }
    assert isinstance(found.fact, JobObserved)
    job = found.fact.job
    assert (job.api_version, job.spec, job.status) == (
        "kubeflow.org/v1alpha2",
        msgspec.json.decode(found.spec),
        {"conditions": None},
    )
    assert (found.job_uid, found.job_name) == ("u", "n")


@pytest.mark.parametrize("spec", [None, {}, {"tfReplicaSpecs": None}, {"tfReplicaSpecs": {"Worker": None}}])
def test_a_job_of_any_shape_is_observed(spec: Any) -> None:
    found = seen(TFJOBS, {"metadata": META, "spec": spec})
    assert (found.fact.job.spec, found.fact.job.status, found.fact.job.api_version) == (spec, {}, "kubeflow.org/v1")


def test_a_service_and_a_pod_group() -> None:
    service = seen(SERVICES, {"metadata": META, "spec": {"clusterIP": "None"}, "status": {"loadBalancer": {}}})
    assert (msgspec.json.decode(service.body), service.spec) == ({"metadata": META}, b'{"clusterIP":"None"}')
    group = seen(
        POD_GROUPS[GangScheduler.VOLCANO], {"metadata": META, "spec": {"minMember": 3}, "status": {"phase": "Inqueue"}}
    )
    assert (msgspec.json.decode(group.body), group.spec) == (
        {"metadata": META, "status": {"phase": "Inqueue"}},
        b'{"minMember":3}',
    )


def test_a_notice_is_kept_whole_with_its_message_cleaned() -> None:
    body = {
        "kind": "Event",
        "metadata": META | {"managedFields": []},
        "involvedObject": {"kind": "Pod", "uid": "p", "fieldPath": "spec.containers{tensorflow}"},
        "type": "Warning",
        "reason": "Failed",
        "message": "token=abc",
        "count": 3,
        "source": {"component": "kubelet"},
    }
    found = seen(NOTICES, body)
    assert msgspec.json.decode(found.body) == body | {"metadata": META, "message": "token=REDACTED"}
    assert isinstance(found.fact, NoticeObserved)
    assert (found.fact.notice.message, found.spec, found.spec_hash) == ("token=REDACTED", None, None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, {}),
        ({"phase": "Failed"}, {"phase": "Failed"}),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "message": 'x "quoted" password=a'}}}]},
            {
                "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 1, "message": 'x "quoted" password=REDACTED'}}}
                ]
            },
        ),
        ({"message": "a" * 3000}, {"message": "…" + "a" * 2047}),
    ],
)
def test_statuses(status: Any, expected: Any) -> None:
    found = seen(PODS, {"metadata": META, "spec": {}, "status": status})
    assert msgspec.json.decode(found.body)["status"] == expected


@pytest.mark.parametrize("spaced", [False, True])
def test_escapes_and_spaces_hide_no_secret(spaced: bool) -> None:
    gap = b" " if spaced else b""
    raw = object_of(
        b'{"metadata":{"name":"n","uid":"u","resourceVersion":"1"},"spec":{},'
        b'"status":{"message":' + gap + b'"pass\\u0077ord\\u003dhunter2"}}'
    )
    found = normaliser().observation(PODS, Op.ADDED, raw, 5)
    assert b"hunter2" not in found.body


def test_what_postgres_cannot_hold_is_replaced() -> None:
    message, literal = "core\0dump", "\\u0000"
    pod = {"metadata": META, "spec": {"containers": [{"args": [message, literal]}]}, "status": {"message": message}}
    found = seen(PODS, pod)
    assert found.fact.pod.status.message == "core\ufffddump"
    assert msgspec.json.decode(found.body)["status"] == {"message": "core\ufffddump"}
    assert msgspec.json.decode(found.spec) == {"containers": [{"args": ["core\ufffddump", literal]}]}


@pytest.mark.parametrize(
    ("resource", "references", "labels", "expected"),
    [
        (PODS, [JOB_REFERENCE], {"training.kubeflow.org/job-name": "job"}, Owner("job-uid", "job")),
        (PODS, [JOB_REFERENCE], None, Owner("job-uid", None)),
        (PODS, [JOB_REFERENCE | {"controller": False}], {}, Owner(None, None)),
        (PODS, [JOB_REFERENCE | {"kind": "PyTorchJob"}], {"training.kubeflow.org/job-name": "job"}, Owner(None, "job")),
        (PODS, [JOB_REFERENCE | {"apiVersion": "example.com/v1"}], {}, Owner(None, None)),
        (PODS, [JOB_REFERENCE | {"apiVersion": "kubeflow.org/v1alpha2"}], {}, Owner("job-uid", None)),
        (SERVICES, None, {"training.kubeflow.org/job-name": "job"}, Owner(None, "job")),
        (TFJOBS, [JOB_REFERENCE], {"training.kubeflow.org/job-name": "x"}, Owner("u", "n")),
    ],
)
def test_whose_an_object_is(resource: Resource, references: Any, labels: Any, expected: Owner) -> None:
    raw = META | {"ownerReferences": references, "labels": labels}
    assert owner_of(resource, msgspec.convert(raw, ObjectMeta)) == expected


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": "text"},
        {"metadata": META | {"uid": ""}},
        {"metadata": META | {"name": ""}},
        {"metadata": META | {"resourceVersion": "latest"}},
        {"metadata": META | {"resourceVersion": 7}},
        {"metadata": META, "status": "text"},
        {"metadata": META, "spec": [], "status": {"phase": 3}},
    ],
)
def test_garbage_is_no_object(body: dict[str, Any]) -> None:
    with pytest.raises(BadLine):
        seen(PODS, body)


def test_a_lost_object_has_its_identity_only() -> None:
    found = lost(PODS, ("ns", "n", "u"), Owner("job-uid", "job"), 9, 5)
    assert isinstance(found.fact, PodObserved)
    assert (found.op, found.resource_version, found.job_uid, found.job_name) == (Op.SYNC_DELETED, 9, "job-uid", "job")
    assert msgspec.json.decode(found.body) == {
        "metadata": {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "9"}
    }
    assert found.fact.pod.metadata.uid == "u"


def test_a_key_changes_the_hash_of_a_spec_with_values() -> None:
    body = {"metadata": META, "spec": {"containers": [{"env": [{"name": "A", "value": "v"}]}]}, "status": {}}
    first, second = seen(PODS, body), seen(PODS, body, by=Normaliser(Redaction(b"other")))
    assert first.spec_hash != second.spec_hash
