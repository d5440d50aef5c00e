"""WHICH: the slots that a step's pattern names, and the pod that a slot has.

In: a pattern, the world, the job's name. Out: slots and objects. Never: changes anything.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any

from controller.model.names import object_name
from controller.model.replicas import SlotId, replica_type_of, slot_of
from controller.scenario.world import Held, World, slot_of_held


def slots_of(which: str, known: Iterable[SlotId]) -> list[SlotId]:
    """The slots that a pattern names, in the order written; a star names known ones, in the order Chief, Master, PS,
    Worker, Evaluator, then index."""
    ordered = sorted(set(known), key=SlotId.order)
    chosen: dict[SlotId, None] = {}
    for part in (each.strip() for each in which.split(",")):
        if part == "*" or part.endswith("-*"):
            found = [slot for slot in ordered if fnmatch.fnmatch(str(slot), part)]
        else:
            kind, _, span = part.rpartition("-")
            low, _, high = span.partition("..")
            found = [slot for i in range(int(low), int(high or low) + 1) if (slot := slot_of(f"{kind}-{i}"))]
        chosen |= dict.fromkeys(found)
    return list(chosen)


def slots_wanted(manifest: dict[str, Any]) -> set[SlotId]:
    """The slots that a manifest asks for, as far as it can be read."""
    replicas = (manifest.get("spec") or {}).get("tfReplicaSpecs")
    found: set[SlotId] = set()
    for key, replica in replicas.items() if isinstance(replicas, dict) else ():
        kind = replica_type_of(str(key))
        count = replica.get("replicas", 1) if isinstance(replica, dict) else 0
        if kind is not None and isinstance(count, int):
            found |= {SlotId(kind, index) for index in range(count)}
    return found


class OwnObjects:
    """The pods and services of a job and of older jobs of its name; never foreign ones."""

    def __init__(self, world: World, namespace: str, name: str) -> None:
        self._world, self._namespace, self._name = world, namespace, name

    def slots_with_pods(self) -> set[SlotId]:
        return {slot for held in self._of_kind("Pod") if (slot := slot_of_held(held)) is not None}

    def newest_pod(self, slot: SlotId) -> Held | None:
        """The newest existing pod of a slot, terminating or not; one that has the slot's name goes before others."""
        named = self._world.find("Pod", self._namespace, object_name(self._name, slot))
        if named is not None and self._is_own(named) and slot_of_held(named) == slot:
            return named
        # The world keeps objects in the order in which they were made.
        others = [held for held in self._of_kind("Pod") if slot_of_held(held) == slot]
        return others[-1] if others else None

    def not_terminating(self, kind: str) -> dict[SlotId, Held]:
        """Pods or services that are not being deleted, by slot."""
        found = {slot_of_held(held): held for held in self._of_kind(kind) if not held.is_terminating}
        return {slot: held for slot, held in found.items() if slot is not None}

    def _of_kind(self, kind: str) -> list[Held]:
        return [held for held in self._world.of_kind(kind) if self._is_own(held)]

    def _is_own(self, held: Held) -> bool:
        return self._world.jobs.get(held.owner_uid or "") == (self._namespace, self._name)
