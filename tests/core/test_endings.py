"""How an attempt ended: every row of the table of RULES §2, and the corners of §11."""

from __future__ import annotations

from typing import Any

import pytest

from controller.fold.endings import ending_of
from controller.fold.spec import RestartPolicy
from controller.fold.state import Attempt
from controller.model.events import Event, Op, PodObserved
from controller.model.objects import Pod
from tests.core.words import at, attempt, ended, pod

NEVER, ON_FAILURE, ALWAYS, EXIT_CODE = RestartPolicy
SEEN_AT = 10.0

ROWS: list[tuple[str, Pod, Attempt, RestartPolicy, tuple[str, int | None, str] | None]] = [
    ("it runs", pod(state={"running": {}}), attempt(), NEVER, None),
    ("it runs and a disruption is announced",
     pod(state={"running": {}}, status={"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
     attempt(), NEVER, None),
    ("we stopped it, and SIGTERM brought 143",
     pod(phase="Failed", state={"terminated": ended(143, seconds=9)}),
     attempt(stop_asked_at=at(8), is_stop=True), NEVER, ("stopped", 143, "Error")),
    ("we stopped it, and it ended well",
     pod(phase="Succeeded", state={"terminated": ended(0, seconds=9)}),
     attempt(stop_asked_at=at(8), is_stop=True), NEVER, ("stopped", 0, "Completed")),
    ("it had ended a whole second before we asked",
     pod(phase="Failed", state={"terminated": ended(3, seconds=6)}),
     attempt(stop_asked_at=at(8), is_stop=True), NEVER, ("failed", 3, "Error")),
    ("it ended in the second of our request",
     pod(phase="Failed", state={"terminated": ended(3, seconds=8)}),
     attempt(stop_asked_at=at(8.9), is_stop=True), NEVER, ("stopped", 3, "Error")),
    ("main 0 while a sidecar runs", pod(state={"terminated": ended(0)}), attempt(), NEVER, ("succeeded", 0, "")),
    ("main 0 in a pod that a sidecar failed", pod(phase="Failed", state={"terminated": ended(0)}), attempt(),
     EXIT_CODE, ("succeeded", 0, "")),
    ("main 0 while somebody deletes the pod", pod(state={"terminated": ended(0)}, deletion=(40, 30)), attempt(),
     NEVER, ("succeeded", 0, "")),
    ("main 0 under Always is restarted", pod(state={"terminated": ended(0)}), attempt(), ALWAYS, None),
    ("phase Succeeded under Always", pod(phase="Succeeded", state={"terminated": ended(0)}), attempt(), ALWAYS,
     ("succeeded", 0, "")),
    ("phase Succeeded without a status", pod(phase="Succeeded"), attempt(), NEVER, ("succeeded", None, "")),
    ("evicted", pod(phase="Failed", status={"reason": "Evicted"}), attempt(), NEVER, ("disrupted", None, "Evicted")),
    ("evicted with a code", pod(phase="Failed", state={"terminated": ended(137)}, status={"reason": "Evicted"}),
     attempt(), NEVER, ("disrupted", 137, "Evicted")),
    ("no memory on the node", pod(phase="Failed", status={"reason": "OutOfmemory"}), attempt(), NEVER,
     ("disrupted", None, "OutOfmemory")),
    ("preempted by the scheduler",
     pod(phase="Failed", state={"terminated": ended(143)},
         status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}),
     attempt(), NEVER, ("disrupted", 143, "PreemptionByScheduler")),
    ("the kubelet lost it", pod(phase="Failed", state={"terminated": ended(137, reason="ContainerStatusUnknown")}),
     attempt(), EXIT_CODE, ("disrupted", 137, "ContainerStatusUnknown")),
    ("no finishedAt", pod(phase="Failed", state={"terminated": ended(137, seconds=None)}), attempt(), EXIT_CODE,
     ("disrupted", 137, "ContainerStatusUnknown")),
    ("somebody deletes it and it ends with 143",
     pod(phase="Failed", state={"terminated": ended(143, seconds=9)}, deletion=(38, 30)),
     attempt(terminating_at=at(8), kill_asked_at=at(8)), ON_FAILURE, ("disrupted", 143, "PodDeleted")),
    ("it failed two seconds before somebody deleted it",
     pod(phase="Failed", state={"terminated": ended(3, seconds=6)}, deletion=(38, 30)),
     attempt(terminating_at=at(8), kill_asked_at=at(8)), NEVER, ("failed", 3, "Error")),
    ("a grace of 0 was seen first: the time of the request is unknown",
     pod(phase="Failed", state={"terminated": ended(3, seconds=2)}, deletion=(8, 0)),
     attempt(terminating_at=at(8), kill_asked_at=0), NEVER, ("disrupted", 3, "PodDeleted")),
    ("phase Failed with a code", pod(phase="Failed", state={"terminated": ended(137, reason="OOMKilled")}),
     attempt(), ON_FAILURE, ("failed", 137, "OOMKilled")),
    ("a code, and a sidecar runs on", pod(state={"terminated": ended(1)}), attempt(), NEVER, ("failed", 1, "Error")),
    ("a code in a pod that restarts it", pod(state={"terminated": ended(1)}), attempt(), ON_FAILURE, None),
    ("an init container failed", pod(phase="Failed", state={"waiting": {}}, init=ended(3)), attempt(), NEVER,
     ("failed", 3, "Error")),
    ("phase Failed and nothing else", pod(phase="Failed"), attempt(), EXIT_CODE, ("disrupted", None, "NoExitCode")),
    ("Always, phase Failed, main 0, no reason", pod(phase="Failed", state={"terminated": ended(0)}), attempt(),
     ALWAYS, ("disrupted", None, "NoExitCode")),
    ("phase Unknown has not ended", pod(phase="Unknown", state={"running": {}}), attempt(), NEVER, None),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "known", "policy", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_the_table(
    seen: Pod, known: Attempt, policy: RestartPolicy, expected: tuple[str, int | None, str] | None
) -> None:
    event = Event(position=7, observed_at=at(SEEN_AT), op=Op.MODIFIED, fact=PodObserved(seen))
    found = ending_of(seen, known, policy, event, False)
    assert (None if found is None else (found.how.value, found.code, found.reason)) == expected


@pytest.mark.parametrize(
    ("finished", "alive", "latest"),
    [(5, 1, 6), (5, 5.5, 6), (3, 7, 7), (12, 1, 10), (9, 1, 10)],
    ids=["later than any instant of its second", "not before it was seen alive", "a slow clock", "a fast clock",
         "not after it was seen ended"],
)  # fmt: skip
def test_an_end_lies_between_two_observations(finished: float, alive: float, latest: float) -> None:
    seen = pod(phase="Failed", state={"terminated": ended(1, seconds=finished)})
    event = Event(position=7, observed_at=at(SEEN_AT), op=Op.MODIFIED, fact=PodObserved(seen))
    found = ending_of(seen, attempt(alive_at=at(alive)), NEVER, event, False)
    assert found is not None and found.latest_at == at(latest)


def test_the_end_keeps_the_last_words_and_how_long_it_ran() -> None:
    seen = pod(phase="Failed", state={"terminated": ended(2, seconds=65, began=5, message="ValueError: no data")})
    event = Event(position=7, observed_at=at(70), op=Op.MODIFIED, fact=PodObserved(seen))
    found: Any = ending_of(seen, attempt(), NEVER, event, False)
    assert (found.message, found.ran_seconds, found.position) == ("ValueError: no data", 60.0, 7)
