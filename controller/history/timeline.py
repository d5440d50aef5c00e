"""A job's events in order, each with the conditions that it changed; and which of them somebody wants to see.

In: events and transitions of one job. Out: rows. Never: I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from controller.history.describe import described
from controller.model import actions, events
from controller.model.events import Event, Transition
from controller.model.instants import Instant, instant_of, micro_text_of
from controller.model.names import slot_of_name
from controller.model.replicas import SlotId

KINDS = ("TFJob", "Pod", "Service", "PodGroup", "Notice", "Controller", "Watch")
"""What a row is about: objects, other people's Events (Notice), what the controller did, what the watch missed."""
ALL = "*"


class Row(msgspec.Struct, frozen=True):
    """One event of a job's history in words; `changed` has the conditions that it changed: `Type=Status (Reason)`.
    `kind` is one of `KINDS`; `slots` are those that it concerns, `*` all of them."""

    position: int
    at: str
    op: str
    subject: str
    what: str
    changed: tuple[str, ...] = ()
    by_gap: bool = False
    kind: str = ""
    slots: tuple[str, ...] = ()


class Wanted(msgspec.Struct, frozen=True):
    """Which rows to show; empty: all. Rows at `since` and later, before `until`."""

    slots: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    since: Instant | None = None
    until: Instant | None = None

    def has(self, row: Row) -> bool:
        """Whether this row is to be shown; what concerns all slots is shown with any."""
        if self.slots and not (self.slots | {ALL}) & set(row.slots):
            return False
        if self.kinds and row.kind.lower() not in self.kinds:
            return False
        if self.since is None and self.until is None:
            return True
        at = instant_of(row.at)
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def timeline(events: Iterable[Event], transitions: Iterable[Transition], job_name: str = "") -> list[Row]:
    """The rows of a job's history in the order of the log. Without the job's name, no row has slots by object names."""
    caused: dict[int, list[Transition]] = defaultdict(list)
    for transition in sorted(transitions, key=lambda each: (each.position, each.ordinal)):
        caused[transition.position].append(transition)
    return [_row(event, caused.get(event.position, []), job_name) for event in events]


def _row(event: Event, caused: list[Transition], job_name: str) -> Row:
    subject, what = described(event)
    return Row(
        position=event.position,
        at=micro_text_of(event.observed_at),
        op=event.op.value,
        subject=subject,
        what=what,
        changed=tuple(f"{each.type}={each.status} ({each.reason})" for each in caused),
        by_gap=any(each.by_gap for each in caused),
        kind=_kind(event),
        slots=_slots(event, job_name),
    )


def _kind(event: Event) -> str:
    match event.fact:
        case events.JobObserved():
            return "TFJob"
        case events.PodObserved():
            return "Pod"
        case events.ServiceObserved():
            return "Service"
        case events.PodGroupObserved():
            return "PodGroup"
        case events.NoticeObserved():
            return "Notice"
        case events.GapOpened() | events.Synced():
            return "Watch"
        case _:
            return "Controller"


def _slots(event: Event, job_name: str) -> tuple[str, ...]:
    match event.fact:
        case events.PodObserved() | events.ServiceObserved():
            found = [_named(job_name, event.name)]
        case events.NoticeObserved(notice=notice):
            found = [_named(job_name, notice.involved_object.name)]
        case events.TimerFired(type=kind, index=index) if kind is not None and index is not None:
            found = [SlotId(kind, index)]
        case events.Decided(actions=asked):
            found = [_of_action(action, job_name) for action in asked]
            if any(isinstance(action, actions.DeleteOwned) for action in asked):
                return (ALL,)
        case events.ActionSettled(action=action):
            found = [_of_action(action, job_name)]
            if isinstance(action, actions.DeleteOwned):
                return (ALL,)
        case events.GapOpened() | events.Synced():
            return (ALL,)
        case _:
            found = []
    return tuple(str(slot) for slot in sorted({slot for slot in found if slot is not None}, key=SlotId.order))


def _of_action(action: actions.Action, job_name: str) -> SlotId | None:
    match action:
        case actions.CreatePod(type=kind, index=index) | actions.CreateService(type=kind, index=index):
            return SlotId(kind, index)
        case actions.DeletePod(name=name) | actions.DeleteService(name=name) | actions.ReleasePod(name=name):
            return _named(job_name, name)
        case _:
            return None


def _named(job_name: str, name: str) -> SlotId | None:
    return slot_of_name(job_name, name) if job_name else None
