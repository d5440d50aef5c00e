"""Jobs that are first seen with a status: their history begins with what it says (RULES §11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.decide import Step, status_of
from controller.fold import Context, JobState
from controller.model import actions
from controller.model.events import AnyFact, JobObserved, Op, PodObserved, ServiceObserved, Synced
from controller.model.instants import SECOND, instant_of
from controller.model.objects import Pod, Service, TFJob
from controller.model.replicas import ReplicaType
from tests.core.words import BEGIN, Line, ended, job, pod

Json = dict[str, Any]
LEFTOVERS = Path(__file__).parents[1] / "cluster" / "training-operator-leftovers.json"
LEFT: dict[str, list[Json]] = json.loads(LEFTOVERS.read_text())
NAMES = [each["metadata"]["name"] for each in LEFT["tfjobs"]]
ENDED = {"failed-running", "succeeded-all", "succeeded-none"}
RESOURCES = ("tfjobs", "pods", "services")
WORKER = ReplicaType.WORKER
SEEN = (instant_of("2026-12-01T04:13:00Z") - BEGIN) / SECOND
"""Seconds after the tests' beginning at which the leftovers are listed: just after the last thing that happened."""
WHEN = "2025-12-31T23:59:00Z"
TTL = {"ttlSecondsAfterFinished": 30}
TWO = {"Worker": {"replicas": 2, "restartPolicy": "ExitCode"}}


def synced(line: Line, seconds: float) -> Step:
    """The end of a relist."""
    line.context = Context()
    return line.fold(line.event(Synced(RESOURCES), seconds, Op.SYNCED))


def facts_of(name: str) -> Iterator[tuple[AnyFact, Json]]:
    """A job of training-operator, its pods and services, each as observed and as it is in the file."""
    found = next(each for each in LEFT["tfjobs"] if each["metadata"]["name"] == name)
    yield JobObserved(msgspec.convert(found, TFJob)), found
    owned = {
        kind: [each for each in LEFT[kind] if each["metadata"]["ownerReferences"][0]["name"] == name]
        for kind in ("pods", "services")
    }
    for each in owned["pods"]:
        yield PodObserved(msgspec.convert(each, Pod)), each
    for each in owned["services"]:
        yield ServiceObserved(msgspec.convert(each, Service)), each


def taken(name: str) -> tuple[JobState, Step, Json]:
    """(state, step, status that was found) at the end of the relist that first shows the job."""
    line = Line(Context(gap=frozenset(RESOURCES)))
    found = list(facts_of(name))
    uid = found[0][1]["metadata"]["uid"]
    for fact, each in found:
        metadata = each["metadata"]
        line.fold(
            line.event(
                fact, SEEN, Op.SYNC_ADDED, uid=metadata["uid"], namespace="team-a", name=metadata["name"],
                job_uid=uid, job_name=name, resource_version=int(metadata["resourceVersion"]),
            )
        )  # fmt: skip
    step = synced(line, SEEN)
    return step.state, step, found[0][1]["status"]


@pytest.mark.parametrize("name", NAMES)
def test_a_job_of_training_operator_asks_for_nothing_but_its_status(name: str) -> None:
    state, step, found = taken(name)
    assert step.actions == (() if name in ENDED else (actions.PatchStatus(urgent=False),))
    now = status_of(state)
    if name in ENDED:
        assert now == found
    keys = ("type", "status", "reason", "lastTransitionTime")
    assert [[e[k] for k in keys] for e in now["conditions"]] == [[e[k] for k in keys] for e in found["conditions"]]
    assert now.get("startTime") == found.get("startTime")


def entry(kind: str, status: str = "True") -> Json:
    return {
        "type": kind, "status": status, "reason": f"TFJob{kind}", "message": kind, "lastUpdateTime": WHEN,
        "lastTransitionTime": WHEN,
    }  # fmt: skip


def adopted(conditions: list[Json], *pods: Pod, replicas: Json | None = None, policy: Json | None = None) -> Line:
    """A job with these conditions, and pods, as one relist shows them."""
    line = Line(Context(gap=frozenset(RESOURCES)))
    found = job(replicas or TWO, runPolicy=policy or {})
    line.see_job(msgspec.structs.replace(found, status={"conditions": conditions}), 10, Op.SYNC_ADDED)
    for each in pods:
        line.see_pod(each, 10, Op.SYNC_ADDED)
    synced(line, 10)
    return line


def creations(line: Line) -> list[actions.CreatePod]:
    assert line.last is not None
    return [each for each in line.last.actions if isinstance(each, actions.CreatePod)]


@pytest.mark.parametrize(
    ("kinds", "policy"),
    [
        (["Succeeded"], {"cleanPodPolicy": "All"}),
        (["Failed"], {"cleanPodPolicy": "All"}),
        (["Succeeded", "Failed"], {"cleanPodPolicy": "All"}),  # weakness 7
        (["Restarting", "Succeeded"], {"cleanPodPolicy": "Running"}),  # weakness 8
        (["Running", "Failed"], {"suspend": True}),
    ],
)
def test_an_ended_job_stays_as_it_was_found(kinds: list[str], policy: Json) -> None:
    found = [entry(kind) for kind in kinds]
    line = adopted(found, pod("worker-0", state={"running": {}}), policy=policy)
    assert line.last is not None and line.state is not None
    assert line.last.actions == ()
    line.see_pod(pod("worker-0", phase="Failed", state={"terminated": ended(1)}), 20)
    assert line.last.actions == ()
    assert status_of(line.state) == {"conditions": found}


def test_the_ttl_of_an_ended_job_without_a_completion_time_runs_from_its_end() -> None:
    """Weakness 9: it leaves some of its failed jobs without one."""
    line = adopted([entry("Failed")], policy=TTL)
    assert line.last is not None
    assert [timer.due_at for timer in line.last.timers] == [instant_of(WHEN) + 30 * SECOND]


def test_restarting_stays_until_something_runs_again() -> None:
    line = adopted([entry("Created"), entry("Restarting")], pod("worker-0", phase="Pending"))
    assert line.conditions() == {"Created": "True", "Restarting": "True"}
    line.see_pod(pod("worker-0", state={"running": {}}), 20)
    assert line.conditions() == {"Created": "True", "Restarting": "False", "Running": "True"}


def test_a_pod_that_failed_before_it_was_adopted_is_replaced() -> None:
    failed = pod("worker-1", uid="p1", phase="Failed", state={"terminated": ended(137)})
    line = adopted([entry("Created"), entry("Running")], pod("worker-0", state={"running": {}}), failed)
    assert line.last is not None
    assert actions.DeletePod("a-worker-1", "p1", actions.Because.REPLACED) in line.last.actions
    assert creations(line) == []


def test_what_is_missing_of_an_adopted_job_is_made() -> None:
    line = adopted([entry("Created")], pod("worker-0", state={"running": {}}))
    assert creations(line) == [actions.CreatePod(WORKER, 1, 1)]


@pytest.mark.parametrize(("kinds", "is_suspended"), [(["Created", "Running"], False), (["Created", "Suspended"], True)])
def test_nothing_is_said_again_of_a_job_that_was_told_of(kinds: list[str], is_suspended: bool) -> None:
    pods = [] if is_suspended else [pod(f"worker-{n}", uid=f"p{n}", state={"running": {}}) for n in range(2)]
    template = {"spec": {"restartPolicy": "Always", "containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
    replicas = {"Worker": {"replicas": 2, "template": template}}
    found = [entry(kind) for kind in kinds]
    line = adopted(found, *pods, replicas=replicas, policy={"suspend": is_suspended})
    assert line.last is not None
    assert [each for each in line.last.actions if isinstance(each, actions.EmitNotice)] == []
