"""Beside a training-operator that still handles TFJobs: not acting, acting when told, observing (RULES §11)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from controller.log import EventLog
from controller.log.connection import dsn_of
from controller.model.actions import OBSERVING
from controller.model.events import ActionSettled
from tests.cluster.admission_cases import valid
from tests.cluster.harness import CORE, LABEL, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.leftovers import MERGE
from tests.cluster.recording_proxy import recording
from tests.cluster.test_roles import kubeconfig_of_account
from tests.controlplane.server import ControlPlane

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
Json = dict[str, Any]


@asynccontextmanager
async def operator_pod(api: Api, namespace: str, *arguments: str) -> AsyncIterator[None]:
    """A pod as training-operator's Deployment makes it."""
    container = {"name": "training-operator", "image": "kubeflow/training-operator", "command": ["/manager"]}
    labels = {"control-plane": "kubeflow-training-operator"}
    pod = {
        "metadata": {"name": "training-operator-1", "labels": labels},
        "spec": {"containers": [{**container, "args": list(arguments)}]},
    }
    path = f"{CORE}/namespaces/{namespace}/pods"
    await api.call("POST", path, pod)
    await api.call("PATCH", f"{path}/training-operator-1/status", {"status": {"phase": "Running"}}, MERGE)
    try:
        yield
    finally:
        await api.call("DELETE", f"{path}/training-operator-1", {"gracePeriodSeconds": 0})


@asynccontextmanager
async def webhook_entry(api: Api, namespace: str) -> AsyncIterator[None]:
    """Its entry for TFJobs, for namespaces that there are none of."""
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["tfjobs"]}
    entry = {
        "name": "validator.tfjob.training-operator.kubeflow.org",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:1/validate-kubeflow-org-v1-tfjob"},
        "namespaceSelector": {"matchLabels": {"none": "such"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    await api.call("POST", WEBHOOKS, {"metadata": {"name": namespace}, "webhooks": [entry]})
    try:
        yield
    finally:
        await api.call("DELETE", f"{WEBHOOKS}/{namespace}")


async def test_it_refuses_to_act_in_one_line_until_told(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    def controller(name: str, *flags: str) -> ControllerProcess:
        return ControllerProcess(control_plane, database_url, real_namespace, tmp_path / name, *flags)

    async with operator_pod(api, real_namespace):
        refusing = controller("refusing")
        async with running(refusing):
            assert refusing.process is not None
            assert await refusing.process.wait() == 2
            (line,) = [each for each in refusing.said().splitlines() if "training-operator" in each]
            assert line.startswith("tfjob: ") and f"{real_namespace}/training-operator-1" in line
            assert "--takeover" in line and "MIGRATING.md" in line and "Traceback" not in refusing.said()
            assert "leading" not in refusing.said()
        taking = controller("taking", "--takeover")
        async with running(taking):
            await until(lambda: "leading" in taking.said(), "it acts when told")
    async with operator_pod(api, real_namespace, "--enable-scheme=pytorchjob", "--enable-scheme=mpijob"):
        kept = controller("kept")
        async with running(kept), webhook_entry(api, f"{real_namespace}-later"):
            await until(lambda: "leading" in kept.said(), "an operator that is kept for other kinds is no obstacle")
    async with webhook_entry(api, real_namespace):
        warned = controller("warned")
        async with running(warned):
            await until(lambda: "leading" in warned.said(), "an entry alone is no obstacle")
            assert "has nobody to answer it" in warned.said()


async def test_a_role_in_one_namespace_does_not_hide_it(
    control_plane: ControlPlane, api: Api, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    kubeconfig = await kubeconfig_of_account(api, control_plane, real_namespace, tmp_path)
    flags = ("--kubeconfig", str(kubeconfig))
    async with operator_pod(api, real_namespace):
        controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "log", *flags)
        async with running(controller):
            assert controller.process is not None
            assert await controller.process.wait() == 2
            assert "training-operator handles TFJobs here" in controller.said()


async def test_observing_records_and_decides_and_writes_nothing(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    jobs, pods = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs", f"{CORE}/namespaces/{real_namespace}/pods"

    async def decided(cluster: str, name: str) -> list[str]:
        """The conditions that came True, in their order, as the log of a cluster has them."""
        connection = await asyncpg.connect(dsn_of(database_url))
        try:
            rows = await connection.fetch(
                "SELECT transitions.type FROM transitions JOIN job_states USING (cluster_id, job_uid)"
                " JOIN log_head USING (cluster_id)"
                " WHERE log_head.cluster = $1 AND job_states.name = $2 AND status = 'True'"
                " ORDER BY transitions.position, ordinal",
                cluster, name,
            )  # fmt: skip
            return [row["type"] for row in rows]
        finally:
            await connection.close()

    async with operator_pod(api, real_namespace), recording(control_plane, tmp_path) as sent:
        flags = ("--kubeconfig", str(sent.kubeconfig))
        observing = ControllerProcess(
            control_plane, database_url, real_namespace, tmp_path / "observing", *flags, "--observe"
        )
        async with running(observing):
            await until(lambda: "leading" in observing.said(), "it observes")
            body = valid("theirs")
            body["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
            made = await api.call("POST", jobs, body)

            async def has_come_to(state: str) -> bool:
                return (await decided("default-observed", "theirs"))[-1:] == [state]

            await until(lambda: has_come_to("Created"), "it has seen the job")
            await api.call("POST", pods, their_pod(made))
            await kubelet.report("theirs-worker-0", "Running")
            await until(lambda: has_come_to("Running"), "it finds the job Running")
            await kubelet.report("theirs-worker-0", "Succeeded", 0)
            await until(lambda: has_come_to("Succeeded"), "it finds the job Succeeded")

            async def unsent() -> Counter[str]:
                """What was decided and not sent, by kind."""
                log = await EventLog.open(database_url, cluster="default-observed")
                try:
                    facts = [each.fact for each in await log.read_job(made["metadata"]["uid"])]
                finally:
                    await log.close()
                settled = [each for each in facts if isinstance(each, ActionSettled)]
                assert {each.outcome.reason for each in settled} <= {OBSERVING}
                return Counter(type(each.action).__name__ for each in settled)

            async def has_decided_the_cleanup() -> bool:
                return (await unsent())["DeletePod"] > 0

            await until(has_decided_the_cleanup, "it decides that the pod is to go")
            found = await unsent()
            assert (found["CreatePod"], found["CreateService"], found["DeletePod"]) == (1, 1, 1)
            assert found["PatchStatus"] <= 4, "a status that is not sent is not decided on again"
            status = {"conditions": [{"type": "Failed", "status": "True", "reason": "TFJobFailed"}]}
            await api.call("PATCH", f"{jobs}/theirs/status", {"status": status}, MERGE)
            assert await observing.terminate() == 0
        assert (sent.writes, sent.lease_writes) == ([], 0)
    assert await decided("default-observed", "theirs") == ["Created", "Running", "Succeeded"]

    acting = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "acting")
    async with running(acting):
        await until(lambda: "leading" in acting.said(), "it acts")
        await api.call("POST", jobs, valid("ours"))
        await until(lambda: "ours-worker-0" in kubelet.pods, "a new job has its pod")
        job = await api.call("GET", f"{jobs}/theirs")
        assert job["status"] == json.loads(json.dumps(status)), "what the other operator wrote stands"
        assert "theirs-worker-0" in kubelet.pods and len(kubelet.created["theirs-worker-0"]) == 1


def their_pod(job: Json) -> Json:
    """Worker 0 as training-operator makes it."""
    metadata = job["metadata"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": metadata["name"], "uid": metadata["uid"]}
    prefix = LABEL.partition("/")[0]
    labels = {
        LABEL: metadata["name"], f"{prefix}/operator-name": "tfjob-controller", f"{prefix}/replica-type": "worker",
        f"{prefix}/replica-index": "0", f"{prefix}/job-role": "master",
    }  # fmt: skip
    references = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {
        "metadata": {"name": f"{metadata['name']}-worker-0", "labels": labels, "ownerReferences": references},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "tensorflow", "image": "example/train:1"}]},
    }
