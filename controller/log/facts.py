"""Facts ↔ rows: what a fact's row says about it, and the fact that a stored row tells, whatever code wrote it.

In: facts; bodies as Postgres gives them back. Out: kinds, bodies; facts. Stored rows are never rewritten: a row of an
older schema number goes through the upcasters first (DESIGN §3). Never: I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, assert_never

import msgspec

from controller.log.escape import read_json
from controller.log.records import NewEvent
from controller.model.events import (
    EVENT_SCHEMA,
    ActionSettled,
    AnyFact,
    ClockJumped,
    Decided,
    GapOpened,
    JobObserved,
    LeaderElected,
    NoticeObserved,
    Op,
    PodGroupObserved,
    PodObserved,
    ServiceObserved,
    SettingsRecorded,
    Synced,
    TimerFired,
)
from controller.model.objects import Notice, Pod, PodGroup, Service, TFJob

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTERS: dict[tuple[str, str, int], Upcaster] = {}
"""(op or "" for objects, kind, schema number) → the body as the next schema number has it. Frozen once released: a
setting that an old event lacks has the value that stands here, never today's default."""

KIND_OF_RESOURCE = {
    "tfjobs": "TFJob",
    "pods": "Pod",
    "services": "Service",
    "podgroups": "PodGroup",
    "events": "Notice",
}
"""Plural, as watches name them → the kind of its rows."""

_SPECS_REMEMBERED = 1024
_FLOATS_FROM = 10**21
_encode = msgspec.json.encode
_OBJECT_OPS = frozenset({Op.ADDED, Op.MODIFIED, Op.DELETED, Op.SYNC_ADDED, Op.SYNC_MODIFIED, Op.SYNC_DELETED})
_OWN: dict[Op, msgspec.json.Decoder[Any]] = {
    Op.GAP: msgspec.json.Decoder(GapOpened),
    Op.SYNCED: msgspec.json.Decoder(Synced),
    Op.TIMER: msgspec.json.Decoder(TimerFired),
    Op.DECIDED: msgspec.json.Decoder(Decided),
    Op.ACTION: msgspec.json.Decoder(ActionSettled),
    Op.SETTINGS: msgspec.json.Decoder(SettingsRecorded),
    Op.LEADER: msgspec.json.Decoder(LeaderElected),
    Op.CLOCK: msgspec.json.Decoder(ClockJumped),
}
_TFJOB = msgspec.json.Decoder(TFJob)
_POD = msgspec.json.Decoder(Pod)
_SERVICE = msgspec.json.Decoder(Service)
_POD_GROUP = msgspec.json.Decoder(PodGroup)
_NOTICE = msgspec.json.Decoder(Notice)


class Stored(NamedTuple):
    """What of an event's row is made from its fact."""

    kind: str
    body: bytes
    spec: bytes | None
    spec_hash: str | None


def kind_of(fact: AnyFact) -> str:
    """The kind that a fact's row has; facts about one job are of kind TFJob, those about every job Cluster."""
    match fact:
        case JobObserved() | TimerFired() | Decided() | ActionSettled():
            return "TFJob"
        case PodObserved():
            return "Pod"
        case ServiceObserved():
            return "Service"
        case PodGroupObserved():
            return "PodGroup"
        case NoticeObserved():
            return "Notice"
        case GapOpened() | Synced() | SettingsRecorded() | LeaderElected() | ClockJumped():
            return "Cluster"
        case _:
            assert_never(fact)


def stored_of(new: NewEvent) -> Stored:
    """Body and spec as given, or made from the fact: the same fact is read from them."""
    kind = kind_of(new.fact)
    if new.body is not None:
        return Stored(kind, new.body, new.spec, new.spec_hash)
    match new.fact:
        case JobObserved(job=job):
            text = _encode({"apiVersion": job.api_version, "metadata": job.metadata, "status": job.status})
            if job.spec is None:
                return Stored(kind, text, None, new.spec_hash)
            spec = new.spec or _encode(job.spec, order="sorted")
            return Stored(kind, text, spec, new.spec_hash or hashlib.blake2b(spec, digest_size=16).hexdigest())
        case PodObserved(pod=seen) | ServiceObserved(service=seen) | PodGroupObserved(group=seen):
            return Stored(kind, _encode(seen), new.spec, new.spec_hash)
        case NoticeObserved(notice=notice):
            return Stored(kind, _encode(notice), None, None)
        case fact:
            return Stored(kind, _encode(fact), None, None)


def fact_of(op: Op, kind: str, schema_number: int, body: str, spec: str | None) -> AnyFact:
    """The fact of a stored row. `spec` is that of a TFJob. Raises msgspec's errors for a row that cannot be one."""
    text = read_json(body)
    if schema_number != EVENT_SCHEMA:
        text = _upcast(op, kind, schema_number, text)
    if op not in _OBJECT_OPS:
        fact: AnyFact = _OWN[op].decode(text)
        return fact
    match kind:
        case "Pod":
            return PodObserved(_POD.decode(text))
        case "TFJob":
            job = _TFJOB.decode(text)
            return JobObserved(job if spec is None else msgspec.structs.replace(job, spec=_spec_of(spec)))
        case "Service":
            return ServiceObserved(_SERVICE.decode(text))
        case "PodGroup":
            return PodGroupObserved(_POD_GROUP.decode(text))
        case "Notice":
            return NoticeObserved(_NOTICE.decode(text))
        case _:
            raise ValueError(f"no object is of kind {kind}")


@lru_cache(maxsize=_SPECS_REMEMBERED)
def _spec_of(text: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = _as_observed(msgspec.json.decode(read_json(text)))
    return found


def _as_observed(value: Any) -> Any:
    """What jsonb changed is put back, so that a replay sees the spec that was decided on: keys in the order in which
    the watch sorts them, and 1e+21 and above as the floats that an API server writes so (Go knows no such integers)."""
    match value:
        case dict():
            return {key: _as_observed(value[key]) for key in sorted(value)}
        case list():
            return [_as_observed(each) for each in value]
        case int() if abs(value) >= _FLOATS_FROM:
            return float(value)
        case _:
            return value


def _upcast(op: Op, kind: str, schema_number: int, text: bytes) -> bytes:
    if schema_number > EVENT_SCHEMA:
        raise ValueError(f"an event of schema number {schema_number}; this code reads up to {EVENT_SCHEMA}")
    body: dict[str, Any] = msgspec.json.decode(text)
    for number in range(schema_number, EVENT_SCHEMA):
        upcaster = UPCASTERS.get(("" if op in _OBJECT_OPS else op, kind, number))
        body = upcaster(body) if upcaster else body
    return _encode(body)
