"""An event costs what it says, not what its job is large: counted in lines that run, not in seconds.

A loop over slots runs its line once for each slot, a comprehension too; copying a dict is one line however long it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from controller.decide import advance
from controller.fold import Context, JobState, context_after
from controller.fold.apply import apply
from controller.fold.draft import Draft
from controller.model.events import Event
from controller.scenario.model import Scenario, Step
from controller.scenario.parse import with_defaults
from controller.scenario.play import PurePlayer

SIZES = ((4, 2), (7, 2), (797, 202))
"""Workers and PS beside the chief: 7, 10 and 1 000 replicas."""
MOST_TIMES = 2.0
"""What an event of a job with 1 000 replicas may run through, in events of a job with 10; the figure allows 5."""
FEW = 12
"""Events of a life that are about all slots: the first sight, what is asked of all at once, the end."""
CRASHING = {"waiting": "CrashLoopBackOff", "restartCount": 1, "lastExitCode": 1}
RESTARTED = {"phase": "Running", "restartCount": 1, "lastExitCode": 1}


def life_of(workers: int, ps: int) -> list[Event]:
    """All pods wait for a node, run, restart in place; the chief succeeds, and everything is cleaned up."""
    replicas = {"Chief": 1, "PS": ps, "Worker": workers}
    specs = {kind: {"replicas": count, "restartPolicy": "OnFailure"} for kind, count in replicas.items()}
    job = with_defaults({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": {"tfReplicaSpecs": specs}})
    seen: list[dict[str, Any]] = [
        {"*": {"unschedulable": "0/3 nodes"}}, {"*": "Running"}, {"worker-*": CRASHING}, {"worker-*": RESTARTED},
        {"chief-0": "Succeeded"},
    ]  # fmt: skip
    player = PurePlayer(Scenario("", "", job, {}, tuple(Step("pods", each, "") for each in seen), ()))
    player.run(lambda step: None)
    return player.history.events


class Lines:
    """Counts the lines that run inside `with`."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._saw)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _saw(self, frame: FrameType, what: str, argument: Any) -> Any:
        self.count += what == "line"
        return self._saw


def work_of(events: Sequence[Event]) -> tuple[list[int], list[int]]:
    """Lines that each event runs through: folded only, and with everything that is decided after it."""
    folded, decided = [], []
    state: JobState | None = None
    context = Context()
    for event in events:
        context = context_after(context, event)
        if state is not None:
            with Lines() as lines:
                apply(Draft(state), event, context)
            folded.append(lines.count)
        with Lines() as lines:
            step = advance(state, event, context)
        decided.append(lines.count)
        state = step.state if step else None
    return folded, decided


@pytest.fixture(scope="module")
def works() -> list[tuple[list[int], list[int]]]:
    return [work_of(life_of(*size)) for size in SIZES]


@pytest.mark.parametrize("part", [0, 1], ids=["fold", "decide"])
def test_an_event_costs_the_same_in_a_job_of_a_thousand(works: list[tuple[list[int], list[int]]], part: int) -> None:
    seven, ten, thousand = (sum(work[part]) / len(work[part]) for work in works)
    assert ten < 1.2 * seven
    assert thousand < MOST_TIMES * ten


@pytest.mark.parametrize("part", [0, 1], ids=["fold", "decide"])
def test_few_events_are_about_all_slots(works: list[tuple[list[int], list[int]]], part: int) -> None:
    _, ten, thousand = (work[part] for work in works)
    usual = sorted(ten)[len(ten) * 9 // 10]
    large = [count for count in thousand if count > 3 * usual]
    assert len(large) <= FEW, f"{len(large)} of {len(thousand)} events run through more than {3 * usual} lines"


def test_what_is_counted_grows_with_a_loop() -> None:
    numbers = {number: number for number in range(1000)}
    with Lines() as none:
        numbers.copy()
    with Lines() as looped:
        _ = [number for number in numbers.values() if number]
    assert none.count < 5
    assert looped.count >= 1000
