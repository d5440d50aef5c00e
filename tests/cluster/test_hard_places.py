"""Jobs that are hard to serve, on the real API server: each beside an ordinary one, which must not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.controlplane.server import ControlPlane

Json = dict[str, Any]
ETCD_LIMIT_BYTES = 1_572_864
"""etcd's --max-request-bytes, which kube-apiserver does not change."""
LONGEST_POD_NAME = 63


class Place:
    """One namespace with a controller, and what a test does there."""

    def __init__(self, api: Api, kubelet: Kubelet, controller: ControllerProcess, namespace: str) -> None:
        self.api, self.kubelet, self.controller = api, kubelet, controller
        self.jobs = f"{TFJOBS}/namespaces/{namespace}/tfjobs"
        self.core = f"{CORE}/namespaces/{namespace}"

    async def submit(self, name: str, container: Json | None = None, workers: int = 1, **policy: Any) -> None:
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1", **(container or {})}]}}
        specs = {"Worker": {"replicas": workers, "restartPolicy": "ExitCode", "template": template}}
        spec = {"runPolicy": {"cleanPodPolicy": "All", **policy}, "tfReplicaSpecs": specs}
        body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}
        await self.api.call("POST", self.jobs, body)

    async def edit(self, name: str, patch: Json) -> None:
        await self.api.call("PATCH", f"{self.jobs}/{name}", patch, "application/merge-patch+json")

    async def conditions(self, name: str) -> dict[str, Json]:
        job = await self.api.call("GET", f"{self.jobs}/{name}")
        return {each["type"]: each for each in (job.get("status") or {}).get("conditions") or ()}

    async def has(self, name: str, kind: str, status: str = "True") -> bool:
        return (await self.conditions(name)).get(kind, {}).get("status") == status

    async def plays_to_the_end(self, name: str) -> None:
        """Worker 0 runs and succeeds; everything of the job is cleaned up."""
        pod = f"{name}-worker-0"
        await until(lambda: pod in self.kubelet.pods, f"pod {pod} is there")
        await self.kubelet.report(pod, "Running")
        await until(lambda: self.has(name, "Running"), f"{name} is Running")
        await self.kubelet.report(pod, "Succeeded", 0)
        await until(lambda: self.has(name, "Succeeded"), f"{name} is Succeeded")
        await until(lambda: self.is_clean(name), f"nothing of {name} is left")

    async def is_clean(self, name: str) -> bool:
        for plural in ("pods", "services"):
            found = await self.api.call(
                "GET", f"{self.core}/{plural}?labelSelector=training.kubeflow.org/job-name={name}"
            )
            if found["items"]:
                return False
        return True


@pytest.fixture
async def place(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> Any:
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        yield Place(api, kubelet, controller, real_namespace)


def large_job(name: str, filling_bytes: int, managed_by: str = "") -> Json:
    """A job of one worker whose spec is filled up by the templates of types that have no replicas."""
    container = {"name": "tensorflow", "image": "example/train:1"}
    specs: Json = {"Worker": {"template": {"spec": {"containers": [container]}}}}
    for kind in ("PS", "Evaluator"):
        filled = {**container, "args": ["x" * (filling_bytes // 2)]}
        specs[kind] = {"replicas": 0, "template": {"spec": {"containers": [filled]}}}
    spec = {"runPolicy": {"cleanPodPolicy": "All", "managedBy": managed_by}, "tfReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}


async def largest_filling(place: Place) -> int:
    """Within 16 bytes, how much a job can be filled up before the server refuses it."""
    low, high = ETCD_LIMIT_BYTES - 8_000, ETCD_LIMIT_BYTES
    while high - low > 16:
        middle = (low + high) // 2
        probe = large_job("probe", middle, managed_by="example.com/another")
        if await place.api.status_of("POST", f"{place.jobs}?dryRun=All", probe) != 201:
            high = middle
            continue
        if await place.api.status_of("POST", place.jobs, probe) == 201:
            low = middle
            await place.api.status_of("DELETE", f"{place.jobs}/probe")
        else:
            high = middle
    return low


async def test_a_job_as_large_as_the_server_takes(place: Place) -> None:
    """Little is left for its status; it is served all the same."""
    await place.api.call("POST", place.jobs, large_job("large", await largest_filling(place) - 6_000))
    await place.submit("ordinary")
    await place.plays_to_the_end("ordinary")
    await place.plays_to_the_end("large")


async def test_a_job_so_large_that_it_can_have_no_status_is_said_once_and_cleaned_up(place: Place) -> None:
    await place.api.call("POST", place.jobs, large_job("too-large", await largest_filling(place) - 32))
    await place.submit("ordinary")
    pod = "too-large-worker-0"
    await until(lambda: pod in place.kubelet.pods, "its pod is there")
    await place.kubelet.report(pod, "Succeeded", 0)
    await place.plays_to_the_end("ordinary")
    await until(lambda: place.is_clean("too-large"), "nothing of it is left although no status could be written")
    events = await place.api.call("GET", f"{place.core}/events?fieldSelector=involvedObject.name=too-large")
    assert [each["reason"] for each in events["items"]].count("StatusRefused") == 1


async def test_the_longest_name(place: Place) -> None:
    name = "a" * (LONGEST_POD_NAME - len("-worker-0"))
    await place.submit(name)
    await place.plays_to_the_end(name)
    body = {"metadata": {"name": name + "a"}, "kind": "TFJob", "apiVersion": "kubeflow.org/v1"}
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}
    refused = await place.api.status_of(
        "POST", place.jobs, {**body, "spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}}
    )
    assert refused == 422


async def test_a_template_that_the_server_refuses_stalls_its_job_until_it_is_edited(place: Place) -> None:
    wrong = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
    await place.submit("refused", wrong)
    await place.submit("ordinary")
    await until(lambda: place.has("refused", "Stalled"), "the job says what stalls it")
    stalled = (await place.conditions("refused"))["Stalled"]
    assert stalled["reason"] == "FailedCreate" and "must be less than or equal to cpu limit" in stalled["message"]
    await place.plays_to_the_end("ordinary")
    container = {"name": "tensorflow", "image": "example/train:1"}
    await place.edit(
        "refused", {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}}}
    )
    await place.plays_to_the_end("refused")
    assert not await place.has("refused", "Stalled")


async def test_an_edited_template_changes_no_pod_but_the_next(place: Place) -> None:
    await place.submit("edited")
    pod = "edited-worker-0"
    await until(lambda: pod in place.kubelet.pods, "the pod is there")
    await place.kubelet.report(pod, "Running")
    await until(lambda: place.has("edited", "Running"), "the job runs")
    container = {"name": "tensorflow", "image": "example/train:2"}
    await place.edit(
        "edited", {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}}}
    )
    await place.submit("ordinary")
    await place.plays_to_the_end("ordinary")
    assert place.kubelet.pods[pod]["spec"]["containers"][0]["image"] == "example/train:1"
    assert len(place.kubelet.created[pod]) == 1
    await place.kubelet.report(pod, "Failed", 137)
    await until(lambda: len(place.kubelet.created[pod]) == 2, "the pod is made anew")
    assert place.kubelet.pods[pod]["spec"]["containers"][0]["image"] == "example/train:2"


async def test_a_field_that_may_not_be_edited_is_refused_and_the_job_goes_on(place: Place) -> None:
    await place.submit("fixed", managedBy="kubeflow.org/training-operator", schedulingPolicy={"queue": "a"})
    for patch in ({"managedBy": "example.com/another"}, {"schedulingPolicy": {"queue": "b"}}):
        body = {"spec": {"runPolicy": patch}}
        said = await place.api.try_call("PATCH", f"{place.jobs}/fixed", body, "application/merge-patch+json")
        assert said["code"] == 422 and "immutable" in said["message"]
    await place.plays_to_the_end("fixed")
