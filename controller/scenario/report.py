"""One scenario played: its result, for people and as data.

In: a file. Out: `FileResult`. Never: prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from controller.history.describe import described
from controller.model.events import ActionSettled, Decided, Event
from controller.model.instants import micro_text_of
from controller.scenario.compare import Difference, differences, refusals
from controller.scenario.model import Step, WrongStep
from controller.scenario.parse import malformed, parse_file
from controller.scenario.play import PurePlayer

WAY = "core"
"""The way of running that this is, as `only` names it."""


class StepResult(msgspec.Struct, frozen=True):
    """One step. `held` is None for a step that expects nothing; `status` is the job's after it, when asked for."""

    path: str
    verb: str
    held: bool | None = None
    differences: tuple[Difference, ...] = ()
    status: dict[str, Any] | None = None


class TransitionResult(msgspec.Struct, frozen=True):
    """One change of a condition. `position` is the causing event's in the log, `cause` that event in words."""

    job_uid: str
    position: int
    at: str
    type: str
    status: str
    reason: str
    message: str
    cause: str
    by_gap: bool


class ActionResult(msgspec.Struct, frozen=True):
    """One request to the API server. `position` is that of the DECIDED event that asks for it, `outcome` the answer."""

    job_uid: str
    position: int
    at: str
    action: dict[str, Any]
    outcome: dict[str, Any] | None


class FileResult(msgspec.Struct, frozen=True):
    """One file. `error` is set when the core did not come to rest or died; `left_out` says why it was not played.

    `status` is the job's at the end, or the last that it had. Actions and transitions are in the order of the log.
    """

    file: str
    title: str
    held: bool
    steps: tuple[StepResult, ...] = ()
    status: dict[str, Any] | None = None
    transitions: tuple[TransitionResult, ...] = ()
    actions: tuple[ActionResult, ...] = ()
    error: str | None = None
    left_out: str | None = None


def play_file(file: Path, *, is_verbose: bool = False) -> FileResult:
    """Plays one file against the pure core. Raises Malformed for what is no scenario, or a step that cannot be."""
    scenario = parse_file(file)
    if scenario.only and WAY not in scenario.only:
        return FileResult(str(file), scenario.title, True, left_out=f"only for {', '.join(scenario.only)}")
    player = PurePlayer(scenario)
    results: list[StepResult] = []

    def on_expect(step: Step) -> None:
        found = differences(step.value, player) if step.verb == "expect" else refusals(step.value, player)
        results.append(StepResult(step.path, step.verb, not found, tuple(found), shown()))

    def on_step(step: Step) -> None:
        results.append(StepResult(step.path, step.verb, status=shown()))

    def shown() -> dict[str, Any] | None:
        # A new status object is made at each write, so that this one stays as it is.
        return player.status() if is_verbose else None

    error = None
    try:
        player.run(on_expect, on_step)
    except WrongStep as wrong:
        raise malformed(file, wrong.path, str(wrong)) from None
    except Exception as fault:
        error = f"{type(fault).__name__}: {fault}"
    return FileResult(
        file=str(file),
        title=scenario.title,
        held=error is None and all(step.held is not False for step in results),
        steps=tuple(results),
        status=player.status(),
        transitions=_transitions(player),
        actions=_actions(player),
        error=error,
    )


def _transitions(player: PurePlayer) -> tuple[TransitionResult, ...]:
    events = {event.position: event for event in player.history.events}
    return tuple(
        TransitionResult(
            job_uid=uid,
            position=each.position,
            at=micro_text_of(each.at),
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message,
            cause=_words(events.get(each.position)),
            by_gap=each.by_gap,
        )
        for uid, each in player.history.transitions
    )


def _actions(player: PurePlayer) -> tuple[ActionResult, ...]:
    outcomes = {
        (event.fact.decided_position, event.fact.ordinal): msgspec.to_builtins(event.fact.outcome)
        for event in player.history.events
        if isinstance(event.fact, ActionSettled)
    }
    return tuple(
        ActionResult(
            job_uid=event.uid,
            position=event.position,
            at=micro_text_of(event.observed_at),
            action=msgspec.to_builtins(action),
            outcome=outcomes.get((event.position, ordinal)),
        )
        for event in player.history.events
        if isinstance(event.fact, Decided)
        for ordinal, action in enumerate(event.fact.actions)
    )


def _words(event: Event | None) -> str:
    return ": ".join(described(event)) if event else ""
