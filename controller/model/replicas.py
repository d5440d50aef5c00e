"""The words for who does what in a job: replica types and slots (RULES §1)."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class ReplicaType(StrEnum):
    """A replica type in its canonical case; the order here is the order in which failures are named (RULES §4.4)."""

    CHIEF = "Chief"
    MASTER = "Master"
    PS = "PS"
    WORKER = "Worker"
    EVALUATOR = "Evaluator"

    @property
    def label(self) -> str:
        """As it stands in pod names, labels and TF_CONFIG."""
        return self.value.lower()


TYPE_ORDER: dict[ReplicaType, int] = {kind: place for place, kind in enumerate(ReplicaType)}
_BY_LOWER: dict[str, ReplicaType] = {kind.value.lower(): kind for kind in ReplicaType}


def replica_type_of(text: str) -> ReplicaType | None:
    """The type that a manifest's key or a label names, in any case; None for an unknown one."""
    return _BY_LOWER.get(text.lower())


class SlotId(NamedTuple):
    """One (type, index) of a job, `0 ≤ index < replicas` (RULES §1)."""

    type: ReplicaType
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs of a slot

    def __str__(self) -> str:
        return f"{self.type.label}-{self.index}"

    def order(self) -> tuple[int, int]:
        """The place in every list of slots: Chief, Master, PS, Worker, Evaluator, then index."""
        return TYPE_ORDER[self.type], self.index


@lru_cache(maxsize=16384)
def slot_id_of(kind: ReplicaType, index: int) -> SlotId:
    """The slot with that type and index; made once, since it is asked for at every event."""
    return SlotId(kind, index)


@lru_cache(maxsize=16384)
def slot_of(text: str) -> SlotId | None:
    """The slot that `worker-0` names; None when it names none."""
    kind, dash, index = text.rpartition("-")
    found = replica_type_of(kind)
    if not dash or found is None or not index.isascii() or not index.isdigit():
        return None
    return SlotId(found, int(index))
