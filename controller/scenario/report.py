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
from controller.scenario.history import History
from controller.scenario.model import Scenario, Step, WrongStep
from controller.scenario.parse import malformed, parse_file
from controller.scenario.play import PurePlayer
from controller.scenario.seen import Seen


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


class Recorder:
    """Takes a player's steps down as they are played."""

    def __init__(self, file: Path, scenario: Scenario, player: Seen, *, is_verbose: bool) -> None:
        self._file = file
        self._scenario = scenario
        self._player = player
        self._is_verbose = is_verbose
        self._steps: list[StepResult] = []

    def on_expect(self, step: Step) -> None:
        """Compares what an `expect` or `submit` says with what is there."""
        compared = differences if step.verb == "expect" else refusals
        found = compared(step.value, self._player)
        self._steps.append(StepResult(step.path, step.verb, not found, tuple(found), self._shown()))

    def on_step(self, step: Step) -> None:
        """Notes a step that expects nothing."""
        self._steps.append(StepResult(step.path, step.verb, status=self._shown()))

    def result(self, fault: Exception | None) -> FileResult:
        """The file's result. `fault` is what the play died of. Raises Malformed for a step that cannot be."""
        if isinstance(fault, WrongStep):
            raise malformed(self._file, fault.path, str(fault)) from None
        history = self._player.history
        return FileResult(
            file=str(self._file),
            title=self._scenario.title,
            held=fault is None and all(step.held is not False for step in self._steps),
            steps=tuple(self._steps),
            status=self._player.status(),
            transitions=_transitions(history),
            actions=_actions(history),
            error=f"{type(fault).__name__}: {fault}" if fault else None,
        )

    def _shown(self) -> dict[str, Any] | None:
        # A new status object is made at each write, so that this one stays as it is.
        return self._player.status() if self._is_verbose else None


def left_out(file: Path, scenario: Scenario, why: str) -> FileResult:
    """The result of a file that is not played."""
    return FileResult(str(file), scenario.title, True, left_out=why)


def play_file(file: Path, *, is_verbose: bool = False) -> FileResult:
    """Plays one file against the pure core. Raises Malformed for what is no scenario, or a step that cannot be."""
    scenario = parse_file(file)
    if not scenario.is_for("core"):
        return left_out(file, scenario, f"only for {', '.join(scenario.only)}")
    player = PurePlayer(scenario)
    recorder = Recorder(file, scenario, player, is_verbose=is_verbose)
    fault = None
    try:
        player.run(recorder.on_expect, recorder.on_step)
    except Exception as error:
        fault = error
    return recorder.result(fault)


def _transitions(history: History) -> tuple[TransitionResult, ...]:
    events = {event.position: event for event in history.events}
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
        for uid, each in history.transitions
    )


def _actions(history: History) -> tuple[ActionResult, ...]:
    outcomes = {
        (event.fact.decided_position, event.fact.ordinal): msgspec.to_builtins(event.fact.outcome)
        for event in history.events
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
        for event in history.events
        if isinstance(event.fact, Decided)
        for ordinal, action in enumerate(event.fact.actions)
    )


def _words(event: Event | None) -> str:
    return ": ".join(described(event)) if event else ""
