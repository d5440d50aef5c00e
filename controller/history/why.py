"""Why a job is what it is: what failed first, on which attempt, with which code, who ended it, and what came of it.

In: one job's folded history (`Evidence`). Out: an `Answer`, for people (answer_text.py) and programs. Never: I/O; a
guess where a gap hid what happened: that stands under `doubts`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.decide.reasons import CREATED, DEADLINE_EXCEEDED, FAILED, STALLED, SUCCEEDED
from controller.fold import JobState
from controller.fold.state import Condition, End
from controller.history.after import doubts_of, then_of, warnings_of
from controller.history.describe import plain
from controller.history.ends import Ended, asked_in, ends_of
from controller.history.waits import waits_of
from controller.log import AttemptRow
from controller.model.events import Event, Transition
from controller.model.instants import instant_of, text_of
from controller.model.settings import PolicySettings

FAILURES = frozenset((End.FAILED.value, End.DISRUPTED.value))


class Evidence(msgspec.Struct, frozen=True):
    """What is asked: a job's last folded state, the changes of its conditions, the ends of its attempts, and its events
    (at least: what was decided, refused outcomes, notices, gaps; more does no harm). All in the order of the log."""

    state: JobState
    transitions: Sequence[Transition] = ()
    attempts: Sequence[AttemptRow] = ()
    events: Sequence[Event] = ()
    settings: PolicySettings = PolicySettings()
    parked: str | None = None


class Link(msgspec.Struct, frozen=True):
    """One step of the way from the cause to the condition; `position` is its place in the log."""

    at: str
    position: int
    what: str


class Answer(msgspec.Struct, frozen=True):
    """`state` is the current condition's type; `reason` and `message` are that condition's.

    `cause` is the attempt whose end failed the job (of one that goes on: the last that is being retried); `first` the
    first of the ends that nothing made good, when that was another. `then` is what the controller did afterwards,
    `waits` what a job that has not ended waits for, `doubts` what is only known with a gap.
    """

    namespace: str
    name: str
    uid: str
    state: str
    at: str
    reason: str
    message: str
    summary: str
    is_stalled: bool = False
    exists: bool = True
    cause: Ended | None = None
    first: Ended | None = None
    retries: int = 0
    chain: tuple[Link, ...] = ()
    then: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def why_of(evidence: Evidence) -> Answer:
    """The answer for one job."""
    state = evidence.state
    current = _current(state)
    ends = ends_of(evidence.attempts, state, asked_in(evidence.events))
    is_failed = current.type == FAILED
    cause = _cause(current, ends) if is_failed else None
    first = _first(ends, cause, current) if is_failed else None
    focus = cause or first or (_retried(state, ends) if not state.has_ended() else None)
    doubts = doubts_of(evidence.events, evidence.transitions, focus, state)
    if evidence.parked:
        doubts.insert(0, f"parked, no longer folded, a person has to look: {plain(evidence.parked)}")
    return Answer(
        namespace=state.namespace,
        name=state.name,
        uid=state.uid,
        state=current.type,
        at=text_of(current.last_transition_time) if current.last_transition_time else "",
        reason=current.reason,
        message=current.message,
        summary=_summary(state, current, cause),
        is_stalled=any(each.type == STALLED and each.is_true for each in state.conditions),
        exists=not state.is_deleted,
        cause=focus if not is_failed else cause,
        first=first if first != cause else None,
        retries=sum(state.retries.values()),
        chain=_chain(evidence.transitions, ends, focus, current),
        then=tuple(then_of(state, evidence.events, _since(state, focus, evidence.transitions))),
        waits=tuple(waits_of(state, evidence.settings)),
        warnings=tuple(warnings_of(evidence.events)),
        doubts=tuple(doubts),
    )


def _current(state: JobState) -> Condition:
    """The job's state: the last condition that is true, of ours; of an end found on the API server, what was found."""
    if state.conditions:
        return state.conditions[-1]
    for entry in reversed((state.adopted_status or {}).get("conditions") or ()):
        if isinstance(entry, dict) and entry.get("status") == "True":
            at = _instant(entry.get("lastTransitionTime"))
            kind, reason, message = (str(entry.get(key) or "") for key in ("type", "reason", "message"))
            return Condition(kind, "True", reason, message, at, at)
    return Condition(state.verdict or "", "True", "", "", 0, 0)


def _instant(text: object) -> int:
    try:
        return instant_of(text) if isinstance(text, str) else 0
    except ValueError:
        return 0


def _since(state: JobState, focus: Ended | None, transitions: Sequence[Transition]) -> int:
    """From where on it is told what the controller did."""
    if state.has_ended():
        return state.end_position
    if focus is not None:
        return focus.position
    return max((each.position for each in transitions if each.status == "True"), default=state.position)


def _cause(current: Condition, ends: list[Ended]) -> Ended | None:
    """The attempt that the Failed condition names; of an end that names none, no attempt failed the job."""
    named = [each for each in ends if each.who() in current.message]
    return min(named, key=Ended.order) if named else None


def _first(ends: list[Ended], cause: Ended | None, current: Condition) -> Ended | None:
    """The first end that was no success and that no later attempt of its slot made good, before the job ended."""
    newest = {each.slot: each.attempt for each in ends}
    until = cause.order() if cause else (current.last_transition_time, (0, 0), 0)
    for each in ends:
        if each.how in FAILURES and each.attempt == newest[each.slot] and each.order() <= until:
            return each
    return cause


def _retried(state: JobState, ends: list[Ended]) -> Ended | None:
    """Of a job that goes on: the last failure or disruption of a slot that is being retried."""
    retried = {str(slot) for slot in state.retried}
    found = [each for each in ends if each.how in FAILURES and each.slot in retried]
    return found[-1] if found else None


def _summary(state: JobState, current: Condition, cause: Ended | None) -> str:
    who = f"{state.namespace}/{state.name}"
    when = f" at {text_of(current.last_transition_time)}" if current.last_transition_time else ""
    gone = ""
    if state.is_deleted:
        gone = "; the TFJob has been deleted since" if state.has_ended() else "; then the TFJob was deleted"
    if state.is_adopted_end:
        return f"{who} had ended ({current.type}) before this log knew it{gone}: {plain(current.message)}"
    if current.type == FAILED:
        what = _short(cause) if cause else current.message.partition(f"TFJob {who} ")[2] or current.message
        return f"{who} failed{when} ({current.reason}): {plain(what, 600)}{gone}"
    if current.type == SUCCEEDED:
        return f"{who} succeeded{when}{gone}"
    if not current.type:
        return f"{who} has no condition yet{gone}"
    stall = next((each for each in state.conditions if each.type == STALLED and each.is_true), None)
    if stall is not None and not state.is_deleted:
        return f"{who} is stalled ({stall.reason}) since {text_of(stall.last_transition_time)}: {plain(stall.message)}"
    words = "is created and does not run yet," if current.type == CREATED else f"is {current.type}"
    return f"{who} {words} since{when.removeprefix(' at')}{gone}"


def _short(end: Ended) -> str:
    """The end with the last line of its last words."""
    lines = end.last_lines()
    return end.words(has_message=False) + (f": {lines[-1].strip()}" if lines else "")


def _chain(
    transitions: Sequence[Transition], ends: list[Ended], focus: Ended | None, current: Condition
) -> tuple[Link, ...]:
    """Earlier attempts of the slot, its end, and the conditions that became true from there on."""
    if focus is None:
        begin = 0 if current.reason != DEADLINE_EXCEEDED else None
        shown = [each for each in transitions if each.status == "True" and (begin == 0 or each.type == FAILED)]
        return tuple(_link(each) for each in shown[-4:])
    earlier = [
        each for each in ends if each.slot == focus.slot and each.how in FAILURES and each.order() < focus.order()
    ]
    links = [Link(_at(each), each.position, plain(each.words())) for each in earlier[-3:]]
    links.append(Link(_at(focus), focus.position, plain(focus.words(has_message=False))))
    since = [each for each in transitions if each.position >= focus.position and each.status == "True"]
    return tuple(links + [_link(each) for each in since[:4]])


def _link(each: Transition) -> Link:
    gap = ", seen only by a relist" if each.by_gap else ""
    return Link(text_of(each.at), each.position, f"{each.type} became true ({each.reason}{gap})")


def _at(end: Ended) -> str:
    return text_of(end.finished_at) if end.finished_at else ""
