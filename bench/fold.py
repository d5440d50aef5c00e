"""How long one event takes in the pure core: folded, and with everything that is decided after it.

Run: `python bench/fold.py`. Out: microseconds an event for jobs of 7, 10 and 1 000 replicas, and events a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from controller.decide import advance
from controller.fold import Context, JobState, context_after
from controller.fold.apply import apply
from controller.fold.draft import Draft
from controller.model.events import Event
from controller.scenario.model import Scenario, Step
from controller.scenario.parse import with_defaults
from controller.scenario.play import PurePlayer

LEAST_ROUNDS = 3
LEAST_EVENTS = 20_000
"""A short history is folded so often that the interpreter has got warm."""


def history_of(workers: int, ps: int) -> list[Event]:
    """The events of a job whose pods all run, restart in place once, and whose chief then succeeds."""
    manifest = with_defaults(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "spec": {
                "tfReplicaSpecs": {
                    "Chief": {"replicas": 1},
                    "PS": {"replicas": ps},
                    "Worker": {"replicas": workers, "restartPolicy": "OnFailure"},
                }
            },
        }
    )
    steps = [
        {"*": "Pending"}, {"*": "Running"}, {"worker-*": {"phase": "Running", "restartCount": 1, "lastExitCode": 1}},
        {"worker-*": {"phase": "Running", "restartCount": 1, "lastExitCode": 1}}, {"chief-0": "Succeeded"},
    ]  # fmt: skip
    scenario = Scenario("", "", manifest, {}, tuple(Step("pods", each, "") for each in steps), ())
    player = PurePlayer(scenario)
    player.run(lambda step: None)
    return player.history.events


def measured(events: Sequence[Event]) -> tuple[float, float]:
    """(µs an event folded, µs an event with decide), the best of some rounds. Both use the newest state only, as the
    projector does: a thousand old states beside it would be measured too."""
    rounds = range(max(LEAST_ROUNDS, LEAST_EVENTS // len(events)))
    return (
        min(_seconds(events, folds_alone=True) for _ in rounds) / len(events) * 1e6,
        min(_seconds(events, folds_alone=False) for _ in rounds) / len(events) * 1e6,
    )


def _seconds(events: Sequence[Event], *, folds_alone: bool) -> float:
    """Seconds of all folds, or of all steps, of one history."""
    state: JobState | None = None
    context = Context()
    spent = 0.0
    for event in events:
        context = context_after(context, event)
        begin = time.perf_counter()
        if folds_alone and state is not None:
            apply(Draft(state), event, context)
            spent += time.perf_counter() - begin
        step = advance(state, event, context)
        if not folds_alone:
            spent += time.perf_counter() - begin
        state = step.state if step else None
    return spent


def main() -> None:
    for workers, ps in ((4, 2), (7, 2), (797, 202)):
        events = history_of(workers, ps)
        folded, decided = measured(events)
        print(
            f"{1 + ps + workers:5d} replicas, {len(events):6d} events: fold {folded:6.1f} µs, "
            f"with decide {decided:6.1f} µs an event ({1e6 / decided:,.0f} events/s)"
        )


if __name__ == "__main__":
    main()
