"""The working copy in which one event is folded: writes go to a copy, tallies follow each slot (DESIGN §5).

In: a state. Out: the next state. Never: a change of the state that came in, or of a dict that it shares.
"""

from __future__ import annotations

import copy

import msgspec

from controller.fold.state import JobState, Slot, Tally, Verdict, plain_state
from controller.model.actions import EmitNotice
from controller.model.replicas import ReplicaType, SlotId

_replace = msgspec.structs.replace


class Draft:
    """`state` may be written to; dict fields only through `own`. `touched` are the slots that changed, None: all."""

    __slots__ = ("_owned", "judged", "state", "touched")

    def __init__(self, state: JobState) -> None:
        self.state: JobState = copy.copy(state)
        self.touched: set[SlotId] | None = set()
        self.judged: list[SlotId] = []
        """Slots whose newest attempt's end was judged in this draft."""
        self._owned: set[str] = set()

    def own(self, field: str) -> dict[object, object]:
        """A dict field, copied once in this draft, to be written to."""
        held: dict[object, object] = getattr(self.state, field)
        if field not in self._owned:
            held = dict(held)
            setattr(self.state, field, held)
            self._owned.add(field)
        return held

    def slot(self, slot_id: SlotId) -> Slot:
        """The slot, as it is now; a new one when nothing was known of it."""
        found = self.state.slots.get(slot_id)
        return found if found is not None else Slot(slot_id.type, slot_id.index)

    def put(self, slot: Slot) -> None:
        """Stores a slot and keeps its type's tally right."""
        slot_id = slot.id
        before = self.state.slots.get(slot_id)
        if before == slot:
            return
        self.own("slots")[slot_id] = slot
        if self.touched is not None:
            self.touched.add(slot_id)
        if slot.index < self.state.spec.count(slot.type):
            tallies = self.own("tallies")
            tally = self.state.tallies.get(slot.type, Tally())
            moved = _moved(tally, before, slot)
            if moved is not tally:
                tallies[slot.type] = moved
                self.state.is_status_dirty = True
        if before is None or before.attempts != slot.attempts or before.verdict is not slot.verdict:
            self.state.is_status_dirty = True

    def touch_all(self) -> None:
        """Everything derived is made anew: the spec, suspension or the end changed."""
        self.touched = None

    def notify(self, kind: str, reason: str, message: str) -> None:
        """A core/v1 Event that the job's user should see, once."""
        self.state.notices = (*self.state.notices, EmitNotice(kind, reason, message))

    def retally(self) -> None:
        """Counts every slot anew, after the replicas changed."""
        self.state.tallies = tallies_of(self.state)
        self._owned.add("tallies")


def tallies_of(state: JobState) -> dict[ReplicaType, Tally]:
    """The tallies of all types of the spec."""
    found: dict[ReplicaType, Tally] = {each.type: Tally(total=each.count) for each in state.spec.replicas}
    for slot in state.slots.values():
        if slot.type in found and slot.index < found[slot.type].total:
            found[slot.type] = _moved(found[slot.type], None, slot)
    return found


def decode_state(data: bytes) -> JobState:
    """A state from its snapshot, tallies made anew; the first event that it folds makes the rest."""
    state = plain_state(data)
    state.tallies = tallies_of(state)
    return state


def _moved(tally: Tally, before: Slot | None, after: Slot) -> Tally:
    old, new = (_face(before) if before is not None else _NOTHING), _face(after)
    if old == new:
        return tally
    counts = [count - o + n for count, o, n in zip(msgspec.structs.astuple(tally)[1:], old, new, strict=True)]
    return Tally(tally.total, *counts)


_NOTHING = (0,) * 9


def _face(slot: Slot) -> tuple[int, ...]:
    """What a slot adds to its type's tally, in the order of Tally's fields after `total` (RULES §4.2, §5)."""
    attempt = slot.attempt
    is_retried = slot.is_retried()
    is_live = attempt is not None and attempt.is_live()
    runs = is_live and attempt is not None and attempt.phase == "Running" and not is_retried
    active = runs and attempt is not None and attempt.terminating_at is None and not attempt.stop_asked_at
    succeeded = slot.verdict is Verdict.SUCCEEDED
    for_good = slot.verdict is Verdict.FAILED
    waits = slot.retry is not None and not slot.retry.is_replaced
    return (
        int(runs),
        int(active),
        int(succeeded),
        int(for_good or waits),
        int(for_good),
        int(is_retried),
        int(is_live and attempt is not None and attempt.is_crashing),
        int(runs or succeeded),
        int(slot.attempts > 0),
    )


def replace_slot(slot: Slot, **changes: object) -> Slot:
    """A slot with some fields changed."""
    return _replace(slot, **changes)
