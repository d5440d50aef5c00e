"""TF_CONFIG: how the replicas of a job find each other (RULES §10, §12).

In: a job's spec, a slot, ports. Out: the value as JSON text, or None where there is to be none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
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
        return _address(job, namespace, kind, index, ports[kind], domain)

    counts = {each.type: each.count for each in spec.replicas if each.count > 0}
    if rules == "v1alpha2":
        counts.pop(ReplicaType.EVALUATOR, None)
    if spec.dynamic_workers and slot.type in (ReplicaType.WORKER, ReplicaType.PS):
        cluster = _text(_sparse(slot, counts, address))
    else:
        shape = tuple((kind, count, ports[kind]) for kind, count in counts.items())
        cluster = _whole_cluster(job, namespace, shape, domain)
    return f'{{"cluster":{cluster},"task":{_text(_task(slot))},"environment":"cloud"}}'


@lru_cache(maxsize=32)
def _whole_cluster(job: str, namespace: str, shape: tuple[tuple[ReplicaType, int, int], ...], domain: str) -> str:
    """The cluster as every replica but a sparse one sees it: made once for a job, whose pods are created together."""
    return _text(
        {
            kind.label: [_address(job, namespace, kind, index, port, domain) for index in range(count)]
            for kind, count, port in sorted(shape, key=lambda each: each[0].label)
        }
    )


def _address(job: str, namespace: str, kind: ReplicaType, index: int, port: int, domain: str) -> str:
    name = object_name(job, SlotId(kind, index))
    return f"{name}.{namespace}.svc{'.' + domain if domain else ''}:{port}"


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


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
