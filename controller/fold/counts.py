"""What is known of all slots together, so that no event has to look through them (RULES §4.2, §4.3, §5).

In: a slot before and after a change, or all slots of a state. Out: tallies by type, the slots that are being retried,
those that the status names. Never: a change of what was given out before.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from operator import add

import msgspec

from controller.fold.state import JobState, Slot, Tally, Verdict
from controller.model.replicas import ReplicaType, SlotId

RETRIED = 32
"""The bit of a face that says that its slot is being retried."""


def face_of(slot: Slot) -> int:
    """What a slot adds to its type's tally: a bit for each field after `total`, in their order (RULES §4.2, §5)."""
    attempt, retry = slot.attempt, slot.retry
    face = 256 if slot.attempts else 0
    is_live = attempt is not None and attempt.ending is None and not attempt.is_gone
    if attempt is not None and is_live and attempt.is_crashing:
        face |= RETRIED | 64
    elif retry is not None:
        face |= RETRIED
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


def moved(tally: Tally, old: int, new: int) -> Tally:
    """The tally after one slot's face changed from `old` to `new`."""
    return Tally(*map(add, msgspec.structs.astuple(tally), _difference(old, new)))


def is_told(slot: Slot) -> bool:
    """The status names it: it is done, or its pod is not its first (RULES §5)."""
    return slot.attempts > 1 or slot.verdict is not Verdict.OPEN


def with_slot(slots: tuple[SlotId, ...], slot_id: SlotId, *, is_in: bool) -> tuple[SlotId, ...]:
    """Slots in order, with or without one of them."""
    place = bisect_left(slots, slot_id.order(), key=SlotId.order)
    rest = place + (slots[place : place + 1] == (slot_id,))
    return (*slots[:place], slot_id, *slots[rest:]) if is_in else slots[:place] + slots[rest:]


def count_slots(state: JobState) -> None:
    """Counts every slot of a state of one's own anew: the first time, and after the replicas changed."""
    tallies: dict[ReplicaType, Tally] = {each.type: Tally(total=each.count) for each in state.spec.replicas}
    retried: list[SlotId] = []
    for slot_id, slot in state.slots.items():
        face = face_of(slot)
        if slot.type in tallies and slot.index < tallies[slot.type].total:
            tallies[slot.type] = moved(tallies[slot.type], 0, face)
        if face & RETRIED:
            retried.append(slot_id)
    state.tallies = tallies
    state.retried = tuple(sorted(retried, key=SlotId.order))
    state.told = tuple(sorted((slot_id for slot_id, slot in state.slots.items() if is_told(slot)), key=SlotId.order))


@lru_cache(maxsize=1024)
def _difference(old: int, new: int) -> tuple[int, ...]:
    """What is added to each field of a tally."""
    bits = range(len(Tally.__struct_fields__) - 1)
    return (0, *((new >> bit & 1) - (old >> bit & 1) for bit in bits))
