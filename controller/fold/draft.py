"""The working copy in which one event is folded: writes go to a copy, counts follow each slot (DESIGN §5).

In: a state. Out: the next state. Never: a change of the state that came in, or of a dict that it shares.
"""

from __future__ import annotations

import msgspec

from controller.fold.counts import RETRIED, count_slots, face_of, is_told, moved, with_slot
from controller.fold.state import JobState, Slot
from controller.model.actions import EmitNotice
from controller.model.replicas import SlotId

_replace = msgspec.structs.replace
replace_slot = _replace
"""A slot with some fields changed."""


class Draft:
    """`state` may be written to; dict fields only through `own`. `touched` are the slots that changed, None: all."""

    __slots__ = ("_before", "has_moved", "judged", "state", "touched")

    def __init__(self, state: JobState) -> None:
        self._before = state
        self.state: JobState = _replace(state)
        self.touched: set[SlotId] | None = set()
        self.has_moved = False
        """Something changed that a condition may rest on."""
        self.judged: list[SlotId] = []
        """Slots whose newest attempt's end was judged in this draft."""

    def own(self, field: str) -> dict[object, object]:
        """A dict field to be written to: copied while it is still the one of the state that came in."""
        held: dict[object, object] = getattr(self.state, field)
        if held is getattr(self._before, field):
            held = held.copy()
            setattr(self.state, field, held)
        return held

    def slot(self, slot_id: SlotId) -> Slot:
        """The slot, as it is now; a new one when nothing was known of it."""
        found = self.state.slots.get(slot_id)
        return found if found is not None else Slot(slot_id.type, slot_id.index)

    def put(self, slot: Slot) -> None:
        """Stores a slot and keeps its type's tally right."""
        state, slot_id = self.state, slot.id
        before = state.slots.get(slot_id)
        if before is slot:
            return
        if state.slots is self._before.slots:
            state.slots = state.slots.copy()
        state.slots[slot_id] = slot
        if self.touched is not None:
            self.touched.add(slot_id)
        if before is None or before.attempts != slot.attempts or before.verdict is not slot.verdict:
            self.has_moved = True
            state.change_status()
            if is_told(slot) != (before is not None and is_told(before)):
                state.told = with_slot(state.told, slot_id, is_in=is_told(slot))
        elif before.attempt is slot.attempt and before.retry is slot.retry:
            # Its service, or what is in flight: no condition and no count rests on that.
            return
        elif before.retry is not slot.retry or _crash_of(before) != _crash_of(slot):
            self.has_moved = True
        old, new = (face_of(before) if before is not None else 0), face_of(slot)
        if old != new:
            self.has_moved = True
            tally = state.tallies.get(slot.type)
            if tally is not None and slot.index < tally.total:
                self.own("tallies")[slot.type] = moved(tally, old, new)
                state.change_status()
            if (old ^ new) & RETRIED:
                state.retried = with_slot(state.retried, slot_id, is_in=bool(new & RETRIED))

    def touch_all(self) -> None:
        """Everything derived is made anew: the spec, suspension or the end changed."""
        self.touched = None
        self.has_moved = True

    def notify(self, kind: str, reason: str, message: str) -> None:
        """A core/v1 Event that the job's user should see, once."""
        self.state.notices = (*self.state.notices, EmitNotice(kind, reason, message))

    def retally(self) -> None:
        """Counts every slot anew, after the replicas changed."""
        count_slots(self.state)
        self.state.change_status()


def _crash_of(slot: Slot) -> tuple[bool, int | None, int]:
    """What a message says of a slot that restarts in place."""
    attempt = slot.attempt
    return (attempt.is_crashing, attempt.crash_code, attempt.restarts_seen) if attempt else (False, None, 0)
