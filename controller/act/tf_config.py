"""TF_CONFIG: how the replicas of a job find each other (RULES §10, §12).

In: a job's spec, a slot, ports. Out: the value as JSON text, or None where there is to be none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from controller.fold.spec import JobSpec
from controller.model.names import object_name
from controller.model.replicas import ReplicaType, SlotId


def tf_config(
    job: str, namespace: str, spec: JobSpec, rules: str, slot: SlotId, ports: Mapping[ReplicaType, int], domain: str
) -> str | None:
    """TF_CONFIG of one slot; None for a job of one replica. Keys in the order that the peers emit."""
    if spec.total() <= 1:
        return None

    def address(kind: ReplicaType, index: int) -> str:
        name = object_name(job, SlotId(kind, index))
        return f"{name}.{namespace}.svc{'.' + domain if domain else ''}:{ports[kind]}"

    counts = {each.type: each.count for each in spec.replicas if each.count > 0}
    if rules == "v1alpha2":
        counts.pop(ReplicaType.EVALUATOR, None)
    cluster: dict[str, Any]
    if spec.dynamic_workers and slot.type in (ReplicaType.WORKER, ReplicaType.PS):
        cluster = _sparse(slot, counts, address)
    else:
        cluster = {
            kind.label: [address(kind, index) for index in range(counts[kind])]
            for kind in sorted(counts, key=lambda each: each.label)
        }
    return json.dumps({"cluster": cluster, "task": _task(slot), "environment": "cloud"}, separators=(",", ":"))


def _task(slot: SlotId) -> dict[str, Any]:
    return {"type": slot.type.label, "index": slot.index}


def _sparse(
    slot: SlotId, counts: Mapping[ReplicaType, int], address: Callable[[ReplicaType, int], str]
) -> dict[str, Any]:
    """What a slot of a job with dynamic workers sees: a PS itself only; a worker all PS, and itself by its index."""
    if slot.type is ReplicaType.PS:
        return {"ps": [address(slot.type, slot.index)]}
    cluster: dict[str, Any] = {}
    if ReplicaType.PS in counts:
        cluster["ps"] = [address(ReplicaType.PS, index) for index in range(counts[ReplicaType.PS])]
    cluster["worker"] = {str(slot.index): address(slot.type, slot.index)}
    return cluster
