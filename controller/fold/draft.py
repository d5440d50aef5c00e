"""The working copy in which one event is folded: writes go to a copy, tallies follow each slot (DESIGN §5).

In: a state. Out: the next state. Never: a change of the state that came in, or of a dict that it shares.
"""

from __future__ import annotations

from functools import lru_cache
from operator import add

import msgspec

from controller.fold.state import JobState, Slot, Tally, Verdict
from controller.model.actions import EmitNotice
from controller.model.replicas import ReplicaType, SlotId

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
        slot_id = slot.id
        before = self.state.slots.get(slot_id)
        if before is slot:
            return
        self.own("slots")[slot_id] = slot
        if self.touched is not None:
            self.touched.add(slot_id)
        if before is None or before.attempts != slot.attempts or before.verdict is not slot.verdict:
            self.has_moved = self.state.is_status_dirty = True
        elif before.attempt is slot.attempt and before.retry is slot.retry:
            # Its service, or what is in flight: no condition and no count rests on that.
            return
        elif before.retry is not slot.retry or _crash_of(before) != _crash_of(slot):
            self.has_moved = True
        old, new = (_face(before) if before is not None else 0), _face(slot)
        if old != new:
            self.has_moved = True
            tally = self.state.tallies.get(slot.type)
            if tally is not None and slot.index < tally.total:
                self.own("tallies")[slot.type] = _moved(tally, old, new)
                self.state.is_status_dirty = True

    def touch_all(self) -> None:
        """Everything derived is made anew: the spec, suspension or the end changed."""
        self.touched = None
        self.has_moved = True

    def notify(self, kind: str, reason: str, message: str) -> None:
        """A core/v1 Event that the job's user should see, once."""
        self.state.notices = (*self.state.notices, EmitNotice(kind, reason, message))

    def retally(self) -> None:
        """Counts every slot anew, after the replicas changed."""
        self.state.tallies = tallies_of(self.state)


def tallies_of(state: JobState) -> dict[ReplicaType, Tally]:
    """The tallies of all types of the spec."""
    found: dict[ReplicaType, Tally] = {each.type: Tally(total=each.count) for each in state.spec.replicas}
    for slot in state.slots.values():
        if slot.type in found and slot.index < found[slot.type].total:
            found[slot.type] = _moved(found[slot.type], 0, _face(slot))
    return found


def _moved(tally: Tally, old: int, new: int) -> Tally:
    """The tally after one slot's face changed from `old` to `new`."""
    return Tally(*map(add, msgspec.structs.astuple(tally), _difference(old, new)))


@lru_cache(maxsize=1024)
def _difference(old: int, new: int) -> tuple[int, ...]:
    """What is added to each field of a tally."""
    bits = range(len(Tally.__struct_fields__) - 1)
    return (0, *((new >> bit & 1) - (old >> bit & 1) for bit in bits))


def _crash_of(slot: Slot) -> tuple[bool, int | None, int]:
    """What a message says of a slot that restarts in place."""
    attempt = slot.attempt
    return (attempt.is_crashing, attempt.crash_code, attempt.restarts_seen) if attempt else (False, None, 0)


def _face(slot: Slot) -> int:
    """What a slot adds to its type's tally: a bit for each field after `total`, in their order (RULES §4.2, §5)."""
    attempt, retry = slot.attempt, slot.retry
    face = 256 if slot.attempts else 0
    is_live = attempt is not None and attempt.ending is None and not attempt.is_gone
    if attempt is not None and is_live and attempt.is_crashing:
        face |= 32 | 64
    elif retry is not None:
        face |= 32
    elif attempt is not None and is_live and attempt.phase == "Running":
        face |= 1 | 128
        if attempt.terminating_at is None and not attempt.stop_asked_at:
            face |= 2
    if slot.verdict is Verdict.SUCCEEDED:
        face |= 4 | 128
    elif slot.verdict is Verdict.FAILED:
        face |= 8 | 16
    if retry is not None and not retry.is_replaced:
        face |= 8
    return face
