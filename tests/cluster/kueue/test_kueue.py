"""The real Kueue on the real API server: a quota of one job, two jobs queued; a preempted one comes back.

Only `make test-kueue` runs it: Kueue is built from its module first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.kueue.build import KUEUE
from tests.cluster.kueue.server import API, Kueue
from tests.controlplane.server import ControlPlane

Json = dict[str, Any]
pytestmark = [pytest.mark.kueue, pytest.mark.timeout(600)]
NODES = {"pool": "training"}
TOLERATION = {"key": "training", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
async def kueue(control_plane: ControlPlane, api: Api) -> AsyncIterator[Kueue]:
    assert KUEUE.is_built(), "Kueue is not built: run `make test-kueue` (needs Go)"
    async with Kueue(control_plane, api) as found:
        try:
            yield found
        except BaseException:
            print(found.said()[-6000:])
            raise


class Queue:
    """A queue with room for one job of one CPU, and the jobs in it."""

    def __init__(self, api: Api, kubelet: Kubelet, namespace: str) -> None:
        self.api, self.kubelet, self.namespace = api, kubelet, namespace
        self.jobs = f"{TFJOBS}/namespaces/{namespace}/tfjobs"

    async def make(self) -> None:
        name = self.namespace
        flavor = {"nodeLabels": NODES, "tolerations": [TOLERATION]}
        await self._create("resourceflavors", "ResourceFlavor", name, flavor)
        for priority, value in (("low", 1), ("high", 100)):
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": value}
            await self.api.status_of(
                "POST", f"{API}/workloadpriorityclasses", {**body, "metadata": {"name": f"{name}-{priority}"}}
            )
        quota = {"flavors": [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}
        await self._create(
            "clusterqueues",
            "ClusterQueue",
            name,
            {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": ["cpu"], **quota}],
            },
        )
        await self._create(f"namespaces/{name}/localqueues", "LocalQueue", "queue", {"clusterQueue": name})

    async def _create(self, where: str, kind: str, name: str, spec: Json) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.api.call("POST", f"{API}/{where}", body)

    async def submit(self, name: str, priority: str = "low") -> None:
        labels = {
            "kueue.x-k8s.io/queue-name": "queue",
            "kueue.x-k8s.io/priority-class": f"{self.namespace}-{priority}",
        }
        resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
        template = {
            "spec": {"containers": [{"name": "tensorflow", "image": "example/train:1", "resources": resources}]}
        }
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": name, "labels": labels},
            "spec": {"runPolicy": {"cleanPodPolicy": "All"}, "tfReplicaSpecs": {"Worker": {"template": template}}},
        }
        await self.api.call("POST", self.jobs, body)

    async def is_in(self, name: str, state: str) -> bool:
        job = await self.api.call("GET", f"{self.jobs}/{name}")
        conditions = (job.get("status") or {}).get("conditions") or []
        return bool(conditions) and conditions[-1]["type"] == state

    async def runs(self, name: str, attempt: int = 1) -> None:
        pod = f"{name}-worker-0"
        await until(lambda: len(self.kubelet.created.get(pod, [])) == attempt, f"pod {attempt} of {name}")
        await self.kubelet.report(pod, "Running")
        await until(lambda: self.is_in(name, "Running"), f"{name} is Running")

    async def succeeds(self, name: str) -> None:
        await self.kubelet.report(f"{name}-worker-0", "Succeeded", 0)
        await until(lambda: self.is_in(name, "Succeeded"), f"{name} is Succeeded")


async def test_jobs_wait_for_their_quota_and_a_preempted_one_comes_back(
    kueue: Kueue, control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    queue = Queue(api, kubelet, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await queue.make()
        await queue.submit("first")
        await queue.runs("first")
        spec = kubelet.pods["first-worker-0"]["spec"]
        assert spec["nodeSelector"] == NODES
        assert [each for each in spec["tolerations"] if each.get("key") == TOLERATION["key"]] == [TOLERATION]
        await queue.submit("second")
        await until(lambda: queue.is_in("second", "Suspended"), "the second job waits")
        assert "second-worker-0" not in kubelet.created

        await queue.submit("urgent", "high")
        await queue.runs("urgent")
        await until(lambda: queue.is_in("first", "Suspended"), "the first job is preempted")
        found = await api.call("GET", f"{CORE}/namespaces/{real_namespace}/pods")
        assert [pod["metadata"]["name"] for pod in found["items"]] == ["urgent-worker-0"]
        await queue.succeeds("urgent")

        await queue.runs("first", attempt=2)
        assert await queue.is_in("second", "Suspended")
        await queue.succeeds("first")
        await queue.runs("second")
        await queue.succeeds("second")
