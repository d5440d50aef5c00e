"""PodGroups on the real API server, for Volcano and for scheduler-plugins; the test is their scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.controlplane.server import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = {"volcano": "/apis/scheduling.volcano.sh/v1beta1", "scheduler-plugins": "/apis/scheduling.x-k8s.io/v1alpha1"}
MERGE = "application/merge-patch+json"
Json = dict[str, Any]


def crds() -> Iterator[Json]:
    yield from yaml.safe_load_all((Path(__file__).parent / "podgroups.yaml").read_text())


async def install_pod_groups(api: Api) -> None:
    """Applies both CRDs and waits until they are served."""
    for body in crds():
        path = f"{CRDS}/{body['metadata']['name']}?fieldManager=tests&force=true"
        await api.call("PATCH", path, body, "application/apply-patch+yaml")
    for prefix in GROUPS.values():
        await until(lambda prefix=prefix: is_served(api, prefix), f"{prefix} is served")  # type: ignore[misc]


async def is_served(api: Api, prefix: str) -> bool:
    return await api.status_of("GET", f"{prefix}/podgroups") == 200


class Gang:
    """One job on the API server, its PodGroup and its pods."""

    def __init__(self, api: Api, kubelet: Kubelet, namespace: str, scheduler: str) -> None:
        self.api, self.kubelet, self.namespace = api, kubelet, namespace
        self.job = f"{TFJOBS}/namespaces/{namespace}/tfjobs/a"
        self.path = f"{GROUPS[scheduler]}/namespaces/{namespace}/podgroups/a"

    async def submit(self, replicas: dict[str, Json], **policy: Any) -> None:
        manifest = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "a", "annotations": {"team": "blue"}},
            "spec": {"tfReplicaSpecs": replicas, "runPolicy": {"schedulingPolicy": policy}},
        }
        await self.api.call("POST", f"{TFJOBS}/namespaces/{self.namespace}/tfjobs", manifest)

    async def edit(self, spec: Json) -> None:
        await self.api.call("PATCH", self.job, {"spec": spec}, MERGE)

    async def group(self) -> Json | None:
        found = await self.api.try_call("GET", self.path, None, "application/json")
        return found if found.get("kind") == "PodGroup" else None

    async def until_group(self) -> Json:
        found: Json = await until(self.group, "the PodGroup is there")
        return found

    async def until_no_group(self) -> None:
        async def is_gone() -> bool:
            return await self.group() is None

        await until(is_gone, "the PodGroup is gone")

    async def let_in(self, phase: str = "Inqueue") -> None:
        await self.api.call("PATCH", f"{self.path}/status", {"status": {"phase": phase}}, MERGE)

    async def pods(self) -> dict[str, Json]:
        items = (await self.api.call("GET", f"{CORE}/namespaces/{self.namespace}/pods"))["items"]
        return {each["metadata"]["name"]: each for each in items}

    async def until_pods(self, count: int) -> dict[str, Json]:
        async def there() -> bool:
            return len(await self.pods()) == count

        await until(there, f"there are {count} pods")
        return await self.pods()

    async def status(self) -> Json:
        found: Json = (await self.api.call("GET", self.job)).get("status") or {}
        return found

    async def is_in(self, state: str) -> bool:
        conditions = (await self.status()).get("conditions") or []
        return bool(conditions) and conditions[-1]["type"] == state


def replica(count: int, cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "tensorflow", "image": "example/train:1", "resources": {"requests": {"cpu": cpu}}}
    return {"replicas": count, "template": {"spec": {"containers": [container], **spec}}}


@pytest.mark.parametrize("scheduler", list(GROUPS))
async def test_without_its_pod_groups_nothing_begins_and_one_line_says_so(
    scheduler: str, control_plane: ControlPlane, api: Api, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    for body in crds():
        await api.status_of("DELETE", f"{CRDS}/{body['metadata']['name']}")

    async def is_unknown() -> bool:
        prefix = GROUPS[scheduler]
        return await api.status_of("GET", prefix) == 404 and not await is_served(api, prefix)

    await until(is_unknown, "the API server has forgotten them")
    log = tmp_path / "controller.log"
    controller = ControllerProcess(
        control_plane, database_url, real_namespace, log, "--gang-scheduler", scheduler
    )  # fmt: skip
    await controller.start()
    assert controller.process is not None
    assert await controller.process.wait() == 2
    lines = controller.said().strip().splitlines()
    assert len(lines) == 1 and f"--gang-scheduler {scheduler}: the API server has no PodGroups" in lines[0]


async def test_volcano_s_pods_wait_for_its_queue_and_the_group_goes_and_comes_with_the_job(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    await install_pod_groups(api)
    gang = Gang(api, kubelet, real_namespace, "volcano")
    controller = ControllerProcess(
        control_plane, database_url, real_namespace, tmp_path / "controller.log", "--gang-scheduler", "volcano"
    )
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await gang.submit({"Worker": replica(2, "500m")}, priorityClass="high", queue="blue")
        group = await gang.until_group()
        uid = (await api.call("GET", gang.job))["metadata"]["uid"]
        assert group["spec"] == {
            "minMember": 2, "queue": "blue", "priorityClassName": "high", "minResources": {"cpu": "1"},
        }  # fmt: skip
        assert group["metadata"]["annotations"] == {"team": "blue"}
        [owner] = group["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("TFJob", uid, True)

        await gang.let_in("Pending")
        await until(lambda: gang.is_in("Created"), "the job is Created")
        quiet = await quiet_generation(gang, database_url)
        assert await gang.pods() == {}
        await gang.let_in()
        pods = await gang.until_pods(2)
        assert {each["spec"]["schedulerName"] for each in pods.values()} == {"volcano"}
        assert pods["a-worker-1"]["metadata"]["annotations"] == {
            "scheduling.k8s.io/group-name": "a", "volcano.sh/task-spec": "worker",
        }  # fmt: skip
        assert (await gang.until_group())["metadata"]["generation"] == quiet, "it was not written again"

        # A queue that somebody has moved it to stays; only what the job says is brought to it.
        await api.call("PATCH", gang.path, {"spec": {"queue": "green"}}, MERGE)
        await gang.edit({"tfReplicaSpecs": {"Worker": replica(3, "500m")}})
        await gang.until_pods(3)

        async def is_wider() -> bool:
            spec = (await gang.until_group())["spec"]
            return (spec["minMember"], spec["queue"], spec["minResources"]) == (3, "green", {"cpu": "1500m"})

        await until(is_wider, "the PodGroup is as large as the job, in its queue")

        await gang.edit({"runPolicy": {"suspend": True}})
        await gang.until_pods(0)
        await gang.until_no_group()
        await gang.edit({"runPolicy": {"suspend": False}})
        await gang.until_group()
        assert await gang.pods() == {}
        await gang.let_in("Running")
        await gang.until_pods(3)
        await kubelet.report("a-worker-0", "Succeeded", 0)
        await until(lambda: gang.is_in("Succeeded"), "the job is Succeeded")
        await gang.until_no_group()
        assert await controller.terminate() == 0


async def quiet_generation(gang: Gang, database_url: str) -> int:
    """The scheduler writes into a pending group; when the log has it all, the group and the status are as they were.
    The group's generation."""
    position = (await gang.status()).get("logPosition")
    for number in range(5):
        status = {"phase": "Pending", "conditions": [{"type": "Unschedulable", "message": f"try {number}"}]}
        written = await gang.api.call("PATCH", f"{gang.path}/status", {"status": status}, MERGE)
    last = int(written["metadata"]["resourceVersion"])
    await until(lambda: is_logged(database_url, last), "what the scheduler wrote is in the log")
    assert (await gang.status()).get("logPosition") == position
    generation: int = (await gang.until_group())["metadata"]["generation"]
    return generation


async def is_logged(database_url: str, resource_version: int) -> bool:
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        query = "SELECT count(*) FROM events WHERE kind = 'PodGroup' AND resource_version = $1"
        return bool(await connection.fetchval(query, resource_version))
    finally:
        await connection.close()


async def test_min_resources_are_those_of_the_pods_of_the_highest_priority(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    """By the values of PriorityClasses: the workers' is the highest, and the third member is a PS."""
    await install_pod_groups(api)
    for name, value in (("gang-low", 10), ("gang-high", 1000)):
        await api.status_of("POST", PRIORITIES, {"metadata": {"name": name}, "value": value})
    gang = Gang(api, kubelet, real_namespace, "scheduler-plugins")
    controller = ControllerProcess(
        control_plane, database_url, real_namespace, tmp_path / "controller.log",
        "--gang-scheduler", "scheduler-plugins",
    )  # fmt: skip
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        replicas = {
            "Chief": replica(1, "32"),
            "PS": replica(2, "100m", priorityClassName="gang-low"),
            "Worker": replica(2, "4", priorityClassName="gang-high"),
        }
        await gang.submit(replicas, minAvailable=3, scheduleTimeoutSeconds=90, queue="ignored")
        group = await gang.until_group()
        assert group["spec"] == {"minMember": 3, "minResources": {"cpu": "8100m"}, "scheduleTimeoutSeconds": 90}
        pods = await gang.until_pods(5)
        for pod in pods.values():
            assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "a"
            assert pod["spec"]["schedulerName"] == "scheduler-plugins"
        assert await controller.terminate() == 0


async def test_a_group_that_the_job_has_is_taken_over_and_somebody_else_s_is_left_alone(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    """training-operator's groups have no labels: such a one is found by its name, and is the job's by its owner."""
    await install_pod_groups(api)
    gang = Gang(api, kubelet, real_namespace, "volcano")
    controller = ControllerProcess(
        control_plane, database_url, real_namespace, tmp_path / "controller.log", "--gang-scheduler", "volcano"
    )
    place = gang.path.removesuffix("/a")
    foreign = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "a"}}
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        found = await api.call("POST", place, {**foreign, "spec": {"minMember": 9}})
        await gang.submit({"Worker": replica(1)})

        async def is_taken() -> bool:
            conditions = (await gang.status()).get("conditions") or []
            return any(each["type"] == "Stalled" and each["reason"] == "NameTaken" for each in conditions)

        await until(is_taken, "the job is stalled by somebody else's PodGroup")
        assert (await gang.until_group())["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        await gang.edit({"runPolicy": {"suspend": True}})
        await until(lambda: gang.is_in("Suspended"), "the job is suspended")
        await api.call("DELETE", gang.path)
        uid = (await api.call("GET", gang.job))["metadata"]["uid"]
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "a", "uid": uid, "controller": True}
        left = {
            **foreign,
            "metadata": {"name": "a", "ownerReferences": [owner]},
            "spec": {"minMember": 9, "queue": "q"},
        }
        await api.call("POST", place, left)
        await gang.let_in()
        await gang.edit({"runPolicy": {"suspend": False}})
        await gang.until_pods(1)
        spec = (await gang.until_group())["spec"]
        assert (spec["minMember"], spec["queue"]) == (1, "q")
        await kubelet.report("a-worker-0", "Succeeded", 0)
        await gang.until_no_group()
        assert await controller.terminate() == 0
