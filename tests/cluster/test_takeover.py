"""Taking over from training-operator 1.9: the controller starts where that has left its jobs (RULES §11)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster.admission_cases import valid
from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.leftovers import LEFT, MERGE, SHARED, left_jobs, load, their_definition
from tests.cluster.recording_proxy import Recorded, recording
from tests.cluster.test_spine import Seed
from tests.controlplane.server import ControlPlane

ENDED = ("failed-running", "succeeded-all", "succeeded-none")
Json = dict[str, Any]


def test_the_copy_is_not_stale() -> None:
    if SHARED.is_file():
        assert LEFT.read_text() == SHARED.read_text()
    assert len(left_jobs()) == 10


class Place(NamedTuple):
    """A namespace, and what a test looks at there."""

    plane: ControlPlane
    api: Api
    kubelet: Kubelet
    namespace: str
    database_url: str
    folder: Path

    async def items(self, plural: str) -> dict[str, Json]:
        prefix = TFJOBS if plural == "tfjobs" else CORE
        found = await self.api.call("GET", f"{prefix}/namespaces/{self.namespace}/{plural}")
        return {each["metadata"]["name"]: each for each in found["items"]}

    async def versions(self, plural: str) -> dict[str, tuple[str, str]]:
        """name → (uid, resourceVersion)."""
        return {
            name: (each["metadata"]["uid"], each["metadata"]["resourceVersion"])
            for name, each in (await self.items(plural)).items()
        }

    async def notices(self) -> set[str]:
        """The names of the Events on jobs that were left."""
        left = left_jobs()
        events = await self.items("events")
        return {name for name, each in events.items() if each["involvedObject"]["name"] in left}

    async def job(self, name: str) -> Json:
        return await self.api.call("GET", f"{TFJOBS}/namespaces/{self.namespace}/tfjobs/{name}")

    async def patch(self, name: str, **run_policy: Any) -> None:
        path = f"{TFJOBS}/namespaces/{self.namespace}/tfjobs/{name}"
        await self.api.call("PATCH", path, {"spec": {"runPolicy": run_policy}}, MERGE)

    async def is_in(self, name: str, state: str) -> bool:
        return bool(((await self.job(name)).get("status") or {}).get("conditions", [{}])[-1].get("type") == state)

    async def loaded(self, changes: dict[str, Json] | None = None) -> None:
        """The leftovers are there, and the scheduler has bound their pods."""
        await load(self.api, self.namespace, changes)
        await until(self._all_bound, "all pods are bound")

    async def _all_bound(self) -> bool:
        return all(each["spec"].get("nodeName") for each in (await self.items("pods")).values())

    @asynccontextmanager
    async def controller(self, *flags: str) -> AsyncIterator[tuple[ControllerProcess, Recorded]]:
        """A controller that leads, and all that it writes."""
        async with recording(self.plane, self.folder) as sent:
            controller = ControllerProcess(
                self.plane, self.database_url, self.namespace, self.folder / "controller.log",
                "--kubeconfig", str(sent.kubeconfig), *flags,
            )  # fmt: skip
            async with running(controller):
                await until(lambda: "leading" in controller.said(), "the controller leads")
                yield controller, sent

    async def passed(self, name: str = "probe") -> None:
        """A job that came last is Running: whatever the controller wanted of those before, it has asked for."""
        await self.api.call("POST", f"{TFJOBS}/namespaces/{self.namespace}/tfjobs", valid(name))
        await self.kubelet.report(f"{name}-worker-0", "Running")
        await until(lambda: self.is_in(name, "Running"), "a new job runs")


@pytest.fixture
def place(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> Place:
    return Place(control_plane, api, kubelet, real_namespace, database_url, tmp_path)


def facts(conditions: list[Json]) -> dict[str, tuple[str, str, str]]:
    """type → (status, reason, lastTransitionTime)."""
    return {each["type"]: (each["status"], each["reason"], each["lastTransitionTime"]) for each in conditions}


def before_now(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


@pytest.mark.parametrize("definition", ["ours", "theirs"])
async def test_what_was_left_is_adopted_as_it_is(place: Place, definition: str) -> None:
    """No pod restarted or deleted, no condition lost or moved back, no ended job touched, nothing said again; then life
    goes on."""
    async with their_definition(place.api) if definition == "theirs" else nullcontext():
        await place.loaded()
        notices = await place.notices()
        before, pods, services = (
            await place.items("tfjobs"),
            await place.versions("pods"),
            await place.versions("services"),
        )
        async with place.controller() as (controller, sent):
            await place.passed()
            after = await place.items("tfjobs")
            new_pods, new_services = await place.versions("pods"), await place.versions("services")
            assert {name: new_pods.get(name) for name in pods} == pods, "no pod was touched"
            assert {name: new_services.get(name) for name in services} == services
            assert set(new_pods) - set(pods) == set(new_services) - set(services) == {"probe-worker-0"}
            assert await place.notices() == notices, "nothing that the other operator said is said again"
            for name, job in before.items():
                then, now = facts(job["status"]["conditions"]), facts(after[name]["status"]["conditions"])
                assert now == then, name
                assert after[name]["status"].get("startTime") == job["status"].get("startTime"), name
                assert after[name]["spec"] == job["spec"], name
            for name in ENDED:
                assert after[name] == before[name], "an ended job is not written at all"
            assert {path.rpartition("/")[2] for method, path in sent.writes if method == "DELETE"} == set()
            await _lives_on(place)
            assert await controller.terminate() == 0
            assert "Traceback" not in controller.said()


async def _lives_on(place: Place) -> None:
    """What was running ends, what was restarting restarts, what was suspended resumes."""
    kubelet = place.kubelet
    await kubelet.report("running-chief-0", "Succeeded", 0)
    await until(lambda: place.is_in("running", "Succeeded"), "the running job succeeds")

    first = kubelet.created["restarting-worker-0"]
    await kubelet.report("restarting-worker-0", "Failed", 137)
    await until(lambda: len(kubelet.created["restarting-worker-0"]) == 2, "its worker is replaced")
    for worker in ("restarting-worker-0", "restarting-worker-1"):
        await kubelet.report(worker, "Running")
    await until(lambda: place.is_in("restarting", "Running"), "it runs again")
    assert len(first) == 2 and len(kubelet.created["restarting-worker-1"]) == 1

    for name, pods in (
        ("suspended", {"suspended-worker-0", "suspended-worker-1"}),
        ("suspended-after-run", {f"suspended-after-run-{slot}" for slot in ("chief-0", "worker-0", "worker-1")}),
    ):
        await place.patch(name, suspend=False)
        await until(lambda pods=pods: pods <= set(kubelet.pods), f"{name} is resumed")
        for pod in pods:
            await kubelet.report(pod, "Running")
        await until(lambda name=name: place.is_in(name, "Running"), f"{name} runs")

    await place.patch("deadline", suspend=True)
    await until(lambda: place.is_in("deadline", "Suspended"), "a running job can be suspended")
    await until(lambda: not {"deadline-worker-0", "deadline-worker-1"} & set(kubelet.pods), "its pods are stopped")

    for pod in ("created-worker-0", "created-worker-1"):
        await kubelet.report(pod, "Running")
    await until(lambda: place.is_in("created", "Running"), "the created job runs")
    for name in ENDED:
        assert not [each for each in kubelet.created if each.startswith(f"{name}-") and len(kubelet.created[each]) > 1]


async def test_timers_that_ran_under_the_other_operator_go_on(place: Place) -> None:
    """TTL from the completionTime, the deadline from the startTime that were found; the ended job's pods stay."""
    await place.loaded(
        {
            "succeeded-all": {"completionTime": before_now(86400 - 20)},
            "deadline": {"startTime": before_now(100000 - 20)},
        }
    )
    async with place.controller():
        assert "succeeded-all" in await place.items("tfjobs") and await place.is_in("deadline", "Running")
        await until(lambda: place.is_in("deadline", "Failed"), "the deadline comes")
        (last,) = (await place.job("deadline"))["status"]["conditions"][-1:]
        assert last["reason"] == "DeadlineExceeded"

        async def is_gone() -> bool:
            return "succeeded-all" not in await place.items("tfjobs")

        await until(is_gone, "the TTL has deleted the job")
        pods = set(await place.items("pods"))
        assert {"succeeded-none-ps-0", "succeeded-none-worker-1", "failed-running-worker-1"} <= pods


async def test_the_seed_case_on_the_other_operator_s_definition(place: Place) -> None:
    """What their schema does not name is pruned from each status that is written; nothing rests on it."""
    async with their_definition(place.api):
        seed = Seed(place.api, place.namespace)
        replicas = seed.manifest["spec"]["tfReplicaSpecs"]
        canonical = {"CHIEF": "Chief", "WORKER": "Worker", "PS": "PS"}
        seed.manifest["apiVersion"] = "kubeflow.org/v1"
        seed.manifest["spec"] = {
            "runPolicy": {"cleanPodPolicy": "All"},
            "tfReplicaSpecs": {canonical[key.upper()]: value for key, value in replicas.items()},
        }
        async with place.controller() as (controller, sent):
            await place.api.call("POST", f"{TFJOBS}/namespaces/{place.namespace}/tfjobs", seed.manifest)
            await seed.play(place.kubelet)
            status = (await place.job(seed.name))["status"]
            assert set(status) == {"conditions", "replicaStatuses", "startTime", "completionTime"}
            assert facts(status["conditions"])["Succeeded"][:2] == ("True", "TFJobSucceeded")
            assert await controller.terminate() == 0
            patches = [path for method, path in sent.writes if method == "PATCH" and path.endswith("/status")]
            assert len(patches) <= 6, "a status that comes back shorter is not written again"
        assert {name: len(uids) for name, uids in place.kubelet.created.items()} == dict.fromkeys(
            place.kubelet.created, 1
        )
