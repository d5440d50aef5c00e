"""Which slot a pod or a service is in: the one that its name says, else whichever knows its uid.

In: a state, an object's name and uid. Out: the slot, or None. A name is asked first: it costs the same in any job.
"""

from __future__ import annotations

from controller.fold.state import JobState, Slot
from controller.model.names import slot_of_name


def slot_of_pod(state: JobState, name: str, uid: str) -> Slot | None:
    """The slot whose newest attempt is this pod."""
    slot = slot_named(state, name)
    if slot is not None and slot.attempt is not None and slot.attempt.uid == uid:
        return slot
    # Found by its labels, a pod may have any name.
    return next((slot for slot in state.slots.values() if slot.attempt and slot.attempt.uid == uid), None)


def slot_of_service(state: JobState, name: str, uid: str) -> Slot | None:
    """The slot that has this service."""
    slot = slot_named(state, name)
    if slot is not None and slot.service is not None and slot.service.uid == uid:
        return slot
    return next((slot for slot in state.slots.values() if slot.service and slot.service.uid == uid), None)


def slot_named(state: JobState, name: str) -> Slot | None:
    """The slot whose pod and service would have that name."""
    slot_id = slot_of_name(state.name, name)
    return state.slots.get(slot_id) if slot_id is not None else None
