"""A state as it is kept: JSON without what is derived (DESIGN §2).

In: a state, or bytes. Out: bytes, or a state whose counts are made anew; `decide.restored` makes the rest.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.fold.counts import count_slots
from controller.fold.state import JobState, Slot
from controller.model.actions import Action

DERIVED = ("tallies", "retried", "told", "status_digest", "agendas", "stalls", "stalled")


def encode_state(state: JobState) -> bytes:
    """The snapshot of a state: JSON without what is derived."""
    plain = {name: getattr(state, name) for name in JobState.__struct_fields__ if name not in DERIVED}
    plain["slots"] = list(state.slots.values())
    plain["asked"] = [(position, ordinal, action) for (position, ordinal), action in state.asked.items()]
    return msgspec.json.encode(plain)


class _Asked(msgspec.Struct, array_like=True):
    position: int
    ordinal: int
    action: Action


class _Snapshot(msgspec.Struct):
    slots: list[Slot]
    asked: list[_Asked]


_PLAIN = msgspec.defstruct(
    "_Plain",
    [
        (name, field.type, msgspec.UNSET)
        for field in msgspec.structs.fields(JobState)
        if (name := field.name) not in (*DERIVED, "slots", "asked")
    ],
)


def decode_state(data: bytes) -> JobState:
    """The state of a snapshot. Fields that an older snapshot lacks have their defaults."""
    parts = msgspec.json.decode(data, type=_Snapshot)
    plain: Any = msgspec.json.decode(data, type=_PLAIN)
    values = {name: getattr(plain, name) for name in _PLAIN.__struct_fields__}
    values["slots"] = {slot.id: slot for slot in parts.slots}
    values["asked"] = {(each.position, each.ordinal): each.action for each in parts.asked}
    state = JobState(**{name: value for name, value in values.items() if value is not msgspec.UNSET})
    count_slots(state)
    return state
