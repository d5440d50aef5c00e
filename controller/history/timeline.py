"""A job's events in order, each with the conditions that it changed.

In: events and transitions of one job. Out: rows. Never: I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from controller.history.describe import described
from controller.model.events import Event, Transition
from controller.model.instants import micro_text_of


class Row(msgspec.Struct, frozen=True):
    """One event of a job's history in words; `changed` has the conditions that it changed: `Type=Status (Reason)`."""

    position: int
    at: str
    op: str
    subject: str
    what: str
    changed: tuple[str, ...] = ()
    by_gap: bool = False


def timeline(events: Iterable[Event], transitions: Iterable[Transition]) -> list[Row]:
    """The rows of a job's history in the order of the log."""
    caused: dict[int, list[Transition]] = defaultdict(list)
    for transition in sorted(transitions, key=lambda each: (each.position, each.ordinal)):
        caused[transition.position].append(transition)
    return [_row(event, caused.get(event.position, [])) for event in events]


def _row(event: Event, caused: list[Transition]) -> Row:
    subject, what = described(event)
    return Row(
        position=event.position,
        at=micro_text_of(event.observed_at),
        op=event.op.value,
        subject=subject,
        what=what,
        changed=tuple(f"{each.type}={each.status} ({each.reason})" for each in caused),
        by_gap=any(each.by_gap for each in caused),
    )
