"""One scenario played: its result, for people and as data.

In: a file. Out: `FileResult`. Never: prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from controller.model.events import Event
from controller.scenario.compare import differences, refusals
from controller.scenario.model import Step
from controller.scenario.parse import Malformed, parse_file
from controller.scenario.play import PurePlayer
from controller.scenario.world import WrongStep


class StepResult(msgspec.Struct, frozen=True):
    """One step: what differed, if it expected something, and the status after it."""

    path: str
    verb: str
    differences: tuple[str, ...] = ()
    status: dict[str, Any] | None = None


class FileResult(msgspec.Struct, frozen=True):
    """One file. `error` is set when the core did not come to rest or died. Actions and transitions in order."""

    file: str
    title: str
    steps: tuple[StepResult, ...]
    status: dict[str, Any] | None = None
    transitions: tuple[dict[str, Any], ...] = ()
    actions: tuple[dict[str, Any], ...] = ()
    error: str | None = None

    @property
    def held(self) -> bool:
        return self.error is None and not any(step.differences for step in self.steps)


def play_file(file: Path, *, is_verbose: bool = False) -> FileResult:
    """Plays one file against the pure core. Raises Malformed for what is no scenario, or a step that cannot be."""
    scenario = parse_file(file)
    player = PurePlayer(scenario)
    results: list[StepResult] = []

    def on_expect(step: Step) -> None:
        found = differences(step.value, player) if step.verb == "expect" else refusals(step.value, player)
        results.append(StepResult(step.path, step.verb, tuple(found), _status(player) if is_verbose else None))

    error = None
    try:
        player.run(on_expect)
    except WrongStep as wrong:
        raise Malformed(f"{file}: {wrong}") from None
    except Exception as fault:
        error = f"{type(fault).__name__}: {fault}"
    causes = {event.position: event for event in player.history.events}
    return FileResult(
        file=str(file),
        title=scenario.title,
        steps=tuple(results),
        status=_status(player),
        transitions=tuple(
            {**msgspec.to_builtins(transition), "job_uid": uid, "cause": _cause(causes.get(transition.position))}
            for uid, transition in player.history.transitions
        ),
        actions=tuple(
            {"position": position, "job_uid": uid, **msgspec.to_builtins(action)}
            for position, uid, action in player.history.actions
        ),
        error=error,
    )


def _status(player: PurePlayer) -> dict[str, Any] | None:
    job = player.job()
    return job.body.get("status") if job else None


def _cause(event: Event | None) -> str:
    from controller.history.describe import described

    return ": ".join(described(event)) if event else ""
