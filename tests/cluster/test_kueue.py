"""Kueue's part is played: it suspends jobs at their creation, lets them go with placement in them, takes them back.

What it patches is what its integration with TFJobs patches: `runPolicy.suspend`, node selectors, tolerations, labels
and annotations of the templates; while a job is suspended it puts the templates back as they were.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest_asyncio

from tests.cluster.admission_cases import add, valid
from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.leftovers import MERGE
from tests.controlplane.server import ControlPlane

PODS = ("queued-chief-0", "queued-worker-0", "queued-worker-1")
TOLERATION = {"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}
Json = dict[str, Any]


class Queue(NamedTuple):
    """One job in a queue."""

    api: Api
    kubelet: Kubelet
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{TFJOBS}/namespaces/{self.namespace}/tfjobs/{self.name}"

    async def submit(self) -> None:
        """The job as Kueue's webhook lets it through: suspended."""
        manifest = valid(self.name)
        manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
        manifest["spec"]["runPolicy"] = {"suspend": True, "cleanPodPolicy": "None"}
        add(manifest, "Chief")
        manifest["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2
        await self.api.call("POST", self.path.rpartition("/")[0], manifest)

    async def admit(self, flavor: str) -> None:
        """One update: placement into the templates, and suspend off."""
        job = await self.api.call("GET", self.path)
        for replica in job["spec"]["tfReplicaSpecs"].values():
            template = replica["template"]
            template["spec"]["nodeSelector"] = {"example.com/flavor": flavor}
            template["spec"]["tolerations"] = [TOLERATION]
            template.setdefault("metadata", {})["labels"] = {"kueue.x-k8s.io/podset": "a"}
            template["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "tfjob-queued"}
        job["spec"]["runPolicy"]["suspend"] = False
        await self.api.call("PUT", self.path, job)

    async def preempt(self) -> None:
        """Suspend on; then, once no pod is active, the templates as they were."""
        await self.api.call("PATCH", self.path, {"spec": {"runPolicy": {"suspend": True}}}, MERGE)
        await until(self.is_inactive, "the status says that nothing is active")
        job = await self.api.call("GET", self.path)
        for replica in job["spec"]["tfReplicaSpecs"].values():
            del replica["template"]["metadata"]
            del replica["template"]["spec"]["nodeSelector"], replica["template"]["spec"]["tolerations"]
        await self.api.call("PUT", self.path, job)

    async def status(self) -> Json:
        found: Json = (await self.api.call("GET", self.path)).get("status") or {}
        return found

    async def is_inactive(self) -> bool:
        """What Kueue asks of a job that it has stopped, before it gives its quota to another."""
        counts = (await self.status()).get("replicaStatuses") or {}
        return not any(each.get("active") for each in counts.values())

    async def conditions(self) -> dict[str, str]:
        return {each["type"]: each["status"] for each in (await self.status()).get("conditions") or ()}

    async def resumed_at(self) -> str:
        """When Suspended became False; a startTime is renewed then."""
        found = (await self.status())["conditions"]
        return str(next(each["lastTransitionTime"] for each in found if each["type"] == "Suspended"))

    async def is_in(self, state: str) -> bool:
        return ((await self.status()).get("conditions") or [{}])[-1].get("type") == state

    async def runs(self, flavor: str, attempt: int) -> None:
        """All its pods of that attempt are there, placed as admitted, and come to run."""
        created = self.kubelet.created
        await until(lambda: all(len(created.get(pod, ())) == attempt for pod in PODS), f"the pods of attempt {attempt}")
        for name in PODS:
            pod = self.kubelet.pods[name]
            assert pod["spec"]["nodeSelector"] == {"example.com/flavor": flavor}
            assert TOLERATION in pod["spec"]["tolerations"]
            assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "a"
            assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "tfjob-queued"
            await self.kubelet.report(name, "Running")
        await until(lambda: self.is_in("Running"), "the job is Running")


@pytest_asyncio.fixture
async def queue(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> AsyncIterator[Queue]:
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        yield Queue(api, kubelet, real_namespace, "queued")


async def test_a_queued_job_is_admitted_preempted_and_comes_back(queue: Queue) -> None:
    await queue.submit()
    await until(lambda: queue.is_in("Suspended"), "the job is Suspended")
    assert await queue.conditions() == {"Created": "True", "Suspended": "True"}
    assert "startTime" not in await queue.status() and queue.kubelet.created == {}

    await queue.admit("spot")
    await queue.runs("spot", 1)
    assert await queue.conditions() == {"Created": "True", "Suspended": "False", "Running": "True"}
    began = (await queue.status())["startTime"]
    assert began == await queue.resumed_at()

    await queue.preempt()
    await until(lambda: queue.is_in("Suspended"), "the job is Suspended again")
    await until(lambda: not queue.kubelet.pods, "its pods are gone, whatever cleanPodPolicy says")
    services = (await queue.api.call("GET", f"{CORE}/namespaces/{queue.namespace}/services"))["items"]
    assert services == [] and (await queue.conditions())["Running"] == "False"
    assert (await queue.status())["startTime"] == began

    await queue.admit("reserved")
    await queue.runs("reserved", 2)
    assert (await queue.status())["startTime"] == await queue.resumed_at() >= began
    await queue.kubelet.report("queued-chief-0", "Succeeded", 0)
    await until(lambda: queue.is_in("Succeeded"), "the job is Succeeded")
    assert await queue.conditions() == {
        "Created": "True", "Suspended": "False", "Running": "False", "Succeeded": "True",
    }  # fmt: skip
    assert "restarts" not in await queue.status(), "a preemption is no retry"


async def test_what_was_done_before_a_preemption_is_not_done_again(queue: Queue) -> None:
    await queue.submit()
    await queue.admit("spot")
    await queue.runs("spot", 1)
    await queue.kubelet.report("queued-worker-1", "Succeeded", 0)

    async def is_counted() -> bool:
        return (await queue.status())["replicaStatuses"]["Worker"] == {"active": 1, "succeeded": 1}

    await until(is_counted, "worker 1 is done")
    await queue.preempt()
    await queue.admit("spot")
    await until(lambda: len(queue.kubelet.created["queued-chief-0"]) == 2, "the chief runs again")
    for name in ("queued-chief-0", "queued-worker-0"):
        await queue.kubelet.report(name, "Running")
    await queue.kubelet.report("queued-chief-0", "Succeeded", 0)
    await until(lambda: queue.is_in("Succeeded"), "the job is Succeeded")
    assert {name: len(queue.kubelet.created[name]) for name in PODS} == dict(zip(PODS, (2, 2, 1), strict=True))
