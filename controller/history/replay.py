"""A recorded job folded again with the code that runs now, beside what was decided then.

In: a recorded job, edits of its spec. Out: its moments (event, state before and after), the transitions, and the first
event after which they differ. The order is the live projector's: what was observed of a job's objects before the job
is folded right after its first event. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from controller.decide import advance, is_over, reasons
from controller.decide.advance import Step
from controller.fold import Context, JobState, context_after
from controller.history.describe import described, plain
from controller.history.replay_rules import rule_of
from controller.history.tape import Recorded
from controller.model.events import (
    DELETIONS,
    ClusterFact,
    Event,
    JobObserved,
    OwnedFact,
    Transition,
)

Change = Callable[[Event], Event]
"""What is asked with: the event as it would have been."""

_WEIGHT = (reasons.FAILED, reasons.SUCCEEDED, reasons.SUSPENDED, reasons.RESTARTING, reasons.RUNNING)


class Moment(NamedTuple):
    """One event folded; `before` is None at the job's first."""

    event: Event
    before: JobState | None
    step: Step

    @property
    def after(self) -> JobState:
        return self.step.state


class Verdict(NamedTuple):
    """One transition as it was recorded and as it comes now; None where the one or the other has none."""

    recorded: Transition | None
    now: Transition | None

    @property
    def is_same(self) -> bool:
        """All but the ordinal, which says how many others changed beside it."""
        then, now = self.recorded, self.now
        return (
            then is not None and now is not None and structs.replace(then, ordinal=0) == structs.replace(now, ordinal=0)
        )

    @property
    def position(self) -> int:
        found = self.recorded or self.now
        return found.position if found else 0


class Difference(NamedTuple):
    """The first event after which the conditions differ, and both lists of conditions (type → words)."""

    position: int
    event: str
    what: str
    rule: str
    recorded: dict[str, str]
    now: dict[str, str]


class Replayed(NamedTuple):
    """A whole replay. `error` is what the fold raised, at `difference.position`."""

    namespace: str
    name: str
    uid: str
    events: int
    transitions: list[Verdict]
    difference: Difference | None
    error: str = ""


def fold_job(recorded: Recorded, change: Change | None = None) -> Iterator[Moment]:
    """Folds a job's events one after another."""
    uid, context = recorded.job.uid, Context()
    state: JobState | None = None
    early: list[Event] = []
    for event in recorded.events:
        context = context_after(context, event)
        if change is not None:
            event = change(event)
        if state is None and not (isinstance(event.fact, JobObserved) and event.uid == uid):
            early = _waiting(early, event, uid)
            continue
        waiting, early = ([], early) if state is not None else (early, [])
        for each in (event, *waiting):
            step = advance(state, each, context)
            if step is None:
                continue
            yield Moment(each, state, step)
            state = step.state
            if is_over(state):
                return


def replay(recorded: Recorded, *, upto: int | None = None, change: Change | None = None) -> Replayed:
    """Folds a job and compares. Up to position `upto`, and no further than it was folded then."""
    end = recorded.job.folded if upto is None else min(upto, recorded.job.folded)
    then = [each for each in recorded.transitions if each.position <= end]
    now: list[Transition] = []
    seen: dict[int, Event] = {}
    error, at, count = "", 0, 0
    try:
        for moment in fold_job(recorded, change):
            at = moment.event.position
            if at > end:
                continue
            count += 1
            if moment.step.transitions:
                now += moment.step.transitions
                seen[at] = moment.event
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
        at = next((event.position for event in recorded.events if event.position > at), at)
    verdicts = paired(then, now)
    difference = _difference(recorded, verdicts, error, at)
    job = recorded.job
    return Replayed(job.namespace, job.name, job.uid, count, verdicts, difference, error)


def paired(then: Sequence[Transition], now: Sequence[Transition]) -> list[Verdict]:
    """Recorded and present transitions side by side: those of the same event and condition face each other."""
    rest = {(each.position, each.type): each for each in now}
    found = []
    for each in then:
        found.append(Verdict(each, rest.pop((each.position, each.type), None)))
    found += [Verdict(None, each) for each in rest.values()]
    # Observed before the job and folded after it: the order of folding is that of the list, per position.
    return sorted(found, key=lambda one: one.position)


def conditions_of(transitions: Iterable[Transition]) -> dict[str, str]:
    """Type → status, reason and message, after these transitions."""
    return {each.type: f"{each.status} ({each.reason}: {plain(each.message)})" for each in transitions}


def _waiting(early: list[Event], event: Event, uid: str) -> list[Event]:
    """What waits for the job's first event."""
    if event.job_uid != uid or isinstance(event.fact, ClusterFact):
        return early
    if event.op in DELETIONS or not isinstance(event.fact, OwnedFact):
        return []
    return [*early, event]


def _difference(recorded: Recorded, verdicts: list[Verdict], error: str, at: int) -> Difference | None:
    first = next((each for each in verdicts if not each.is_same), None)
    if first is None and not error:
        return None
    position = first.position if first else at
    event = next((each for each in recorded.events if each.position == position), None)
    subject = ": ".join(described(event)) if event else ""
    here = [each for each in verdicts if each.position == position and not each.is_same]
    then = [each.recorded for each in verdicts if each.recorded and each.position <= position]
    now = [each.now for each in verdicts if each.now and each.position <= position]
    if first is None:
        return Difference(position, subject, f"the fold raised {error}", "", conditions_of(then), conditions_of(now))
    what = "; ".join(_words(each) for each in here)
    by = min((one for each in here for one in each if one is not None), key=_weight)
    return Difference(position, subject, what, rule_of(by), conditions_of(then), conditions_of(now))


def _weight(transition: Transition) -> int:
    """Of several conditions that one event changed, the one that is the job's state says by which rule."""
    return _WEIGHT.index(transition.type) if transition.type in _WEIGHT else len(_WEIGHT)


def _words(verdict: Verdict) -> str:
    then, now = verdict.recorded, verdict.now
    left = f"{then.type} {then.status} ({then.reason})" if then else "nothing"
    right = f"{now.type} {now.status} ({now.reason})" if now else "nothing"
    if left == right and then and now:
        names = [
            name
            for name in structs.fields(then)
            if getattr(then, name.name) != getattr(now, name.name) and name.name != "ordinal"
        ]
        return f"{left}: {', '.join(name.name for name in names)} differs"
    return f"was {left}, is {right}"


def edited(path: str, value: Any) -> Change:
    """The job as it would have been with another value at a path (`spec.runPolicy.backoffLimit`). Raises ValueError
    for a path outside spec and metadata.annotations."""
    parts = path.split(".")
    if parts[0] == "spec" and len(parts) > 1:
        return lambda event: _with_job(event, lambda job: structs.replace(job, spec=_put(job.spec, parts[1:], value)))
    if parts[:2] == ["metadata", "annotations"] and len(parts) > 2:
        return annotated(".".join(parts[2:]), str(value))
    raise ValueError(f"{path}: what can be edited begins with spec. or metadata.annotations.")


def annotated(name: str, value: str) -> Change:
    """The job as it would have been with an annotation."""

    def change(job: Any) -> Any:
        annotations = {**(job.metadata.annotations or {}), name: value}
        return structs.replace(job, metadata=structs.replace(job.metadata, annotations=annotations))

    return lambda event: _with_job(event, change)


def _with_job(event: Event, change: Callable[[Any], Any]) -> Event:
    if not isinstance(event.fact, JobObserved):
        return event
    return structs.replace(event, fact=JobObserved(change(event.fact.job)))


def _put(value: Any, parts: list[str], new: Any) -> Any:
    inner = value if isinstance(value, dict) else {}
    return {**inner, parts[0]: new if len(parts) == 1 else _put(inner.get(parts[0]), parts[1:], new)}
