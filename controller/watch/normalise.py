"""API server → observations: an object as the server sent it → what the log keeps of it, and whose it is.

In: an object's raw parts. Out: an `Observation`; the same object always gives the same bytes.
Never: managedFields, last-applied, env values; I/O, a clock.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from controller.kube.live import Live
from controller.model.events import (
    DELETIONS,
    JobObserved,
    NoticeObserved,
    ObjectFact,
    Op,
    PodGroupObserved,
    PodObserved,
    ServiceObserved,
)
from controller.model.instants import Instant
from controller.model.names import GROUP, JOB_NAME_LABEL
from controller.model.objects import Notice, ObjectMeta, Pod, PodGroup, Service, TFJob
from controller.watch.lines import BadLine, RawObject, plain
from controller.watch.observation import OVERHEAD_BYTES, Observation
from controller.watch.redact import (
    MESSAGE_CHARACTERS,
    Redaction,
    clean_annotations,
    clean_message,
    clean_messages,
    without_nul,
)
from controller.watch.resources import Resource

SPECS_REMEMBERED = 8192
"""Specs whose hash is kept: about three entries a pod, which share 3 KB."""

_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_POD = msgspec.json.Decoder(Pod)
_SERVICE = msgspec.json.Decoder(Service)
_POD_GROUP = msgspec.json.Decoder(PodGroup)
_NOTICE = msgspec.json.Decoder(Notice)
_TFJOB = msgspec.json.Decoder(TFJob)
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_MESSAGES = re.compile(rb'"message":\s*"((?:[^"\\]|\\.)*)"')


_NUL = b"\\u0000"


def _json(parts: Mapping[str, object]) -> bytes:
    text = _encode(parts)
    return _encode(without_nul(msgspec.json.decode(text))) if _NUL in text else text


class _PlacedSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """What stays of a pod's spec in every body: all that changes or decides (model.objects.PodSpecFacts)."""

    node_name: str | None = None
    restart_policy: str | None = None


_PLACED = msgspec.json.Decoder(_PlacedSpec)


class _Spec(NamedTuple):
    hash: str
    json: bytes
    placed: msgspec.Raw


class Owner(NamedTuple):
    """Whose an object is: the uid of its TFJob, and the job's name as the object has it."""

    job_uid: str | None
    job_name: str | None


class Normaliser:
    """Makes observations. It remembers specs only to hash each once; what it answers does not depend on it."""

    def __init__(self, redaction: Redaction, live: Live | None = None) -> None:
        """TFJobs are handed to `live` whole."""
        self._redaction = redaction
        self._live = live or Live()
        self._specs: OrderedDict[bytes, _Spec] = OrderedDict()

    def observation(self, resource: Resource, op: Op, raw: RawObject, observed_at: Instant) -> Observation:
        """One object version as the log keeps it. Raises BadLine when it is no object of this resource."""
        try:
            return self._observation(resource, op, raw, observed_at)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, ValueError, RecursionError) as error:
            raise BadLine(f"no {resource.kind}: {type(error).__name__} {error}") from error

    def _observation(self, resource: Resource, op: Op, raw: RawObject, observed_at: Instant) -> Observation:
        metadata = clean_metadata(raw["metadata"])
        spec: _Spec | None = None
        fact: ObjectFact
        match resource.kind:
            case "Pod":
                spec = self._spec(raw, is_pod=True)
                kept = {"metadata": metadata, "spec": spec.placed, "status": clean_status(raw.get("status"))}
                body = _json(kept)
                fact = PodObserved(_POD.decode(body))
                meta = fact.pod.metadata
            case "TFJob":
                spec = self._spec(raw)
                version = raw.get("apiVersion") or msgspec.Raw(f'"{GROUP}/v1"'.encode())
                kept = {"apiVersion": version, "metadata": metadata, "status": clean_status(raw.get("status"))}
                body = _json(kept)
                kept["spec"] = msgspec.Raw(spec.json)
                fact = JobObserved(_TFJOB.decode(_json(kept)))
                meta = fact.job.metadata
                self._hand_over(op, meta, raw)
            case "Service":
                spec = self._spec(raw)
                body = _json({"metadata": metadata})
                fact = ServiceObserved(_SERVICE.decode(body))
                meta = fact.service.metadata
            case "PodGroup":
                spec = self._spec(raw)
                body = _json({"metadata": metadata, "status": clean_status(raw.get("status"))})
                fact = PodGroupObserved(_POD_GROUP.decode(body))
                meta = fact.group.metadata
            case "Event":
                body = _json({**raw, "metadata": metadata, "message": clean_notice(raw.get("message"))})
                fact = NoticeObserved(_NOTICE.decode(body))
                meta = fact.notice.metadata
            case other:
                raise ValueError(f"unknown kind {other}")
        if not meta.uid or not meta.name:
            raise ValueError("it has no uid or no name")
        owner = owner_of(resource, meta)
        return Observation(
            op=op,
            resource=resource.name,
            fact=fact,
            observed_at=observed_at,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=int(meta.resource_version),
            job_uid=owner.job_uid,
            job_name=owner.job_name,
            spec_hash=spec.hash if spec else None,
            body=body,
            spec=spec.json if spec else None,
            size=len(body) + OVERHEAD_BYTES,
        )

    def _hand_over(self, op: Op, meta: ObjectMeta, raw: RawObject) -> None:
        if op in DELETIONS:
            self._live.forget_job(meta.uid)
        else:
            self._live.see_job(meta.uid, meta.generation, _encode(raw))

    def _spec(self, raw: RawObject, *, is_pod: bool = False) -> _Spec:
        source = bytes(raw.get("spec") or b"null")
        key = _digest(source)
        found = self._specs.get(key)
        if found is not None:
            self._specs.move_to_end(key)
            return found
        placed = msgspec.Raw(b"{}")
        if is_pod and source.startswith(b"{"):
            placed, source = _placed_apart(source)
        # Binding a pod changes nothing but what stands apart: its spec is known already.
        rest = self._specs.get(_digest(source)) or spec_of(source, self._redaction)
        self._remember(_digest(source), rest)
        found = rest._replace(placed=placed)
        self._remember(key, found)
        return found

    def _remember(self, key: bytes, spec: _Spec) -> None:
        self._specs[key] = spec
        if len(self._specs) > SPECS_REMEMBERED:
            self._specs.popitem(last=False)


def _digest(source: bytes) -> bytes:
    return hashlib.blake2b(source, digest_size=16).digest()


def _placed_apart(source: bytes) -> tuple[msgspec.Raw, bytes]:
    """What stays in the body, and the spec without nodeName: binding a pod must not store its spec again."""
    parts = _PARTS.decode(source)
    parts.pop("nodeName", None)
    return msgspec.Raw(_encode(_PLACED.decode(source))), _encode(parts)


def spec_of(source: bytes, redaction: Redaction) -> _Spec:
    """A spec's canonical redacted JSON and its hash (BLAKE2b, 128 bits, hex)."""
    spec = redaction.clean_spec(msgspec.json.decode(source))
    text = _encode_sorted(spec)
    if _NUL in text:
        text = _encode_sorted(without_nul(spec))
    return _Spec(_digest(text).hex(), text, msgspec.Raw(b"{}"))


def clean_metadata(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Metadata whole, apart from managedFields and what annotations may not carry."""
    metadata = _PARTS.decode(raw)
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations is not None:
        found = plain(annotations)
        metadata["annotations"] = msgspec.Raw(_encode(clean_annotations(found) if isinstance(found, dict) else None))
    return metadata


def clean_status(raw: msgspec.Raw | None) -> msgspec.Raw:
    """A status whole, its messages cleaned and cut. Most have none that needs it and are passed on as they are."""
    if raw is None:
        return msgspec.Raw(b"{}")
    text = bytes(raw)
    if text == b"null":
        return msgspec.Raw(b"{}")
    for found in _MESSAGES.findall(text):
        message = msgspec.json.decode(b'"' + found + b'"', type=str)
        if clean_message(message) != message:
            return msgspec.Raw(_encode(clean_messages(msgspec.json.decode(text))))
    return raw


def clean_notice(raw: msgspec.Raw | None) -> msgspec.Raw:
    """A notice's message, cleaned and cut."""
    found = plain(raw) if raw is not None else ""
    return msgspec.Raw(_encode(clean_message(found if isinstance(found, str) else "")))


def owner_of(resource: Resource, meta: ObjectMeta) -> Owner:
    """Whose an object is. Only a controller owner reference to a TFJob counts; labels do not (RULES §9)."""
    if resource.kind == "TFJob":
        return Owner(meta.uid, meta.name)
    reference = meta.controller()
    is_ours = reference is not None and reference.kind == "TFJob" and reference.api_version.startswith(GROUP + "/")
    return Owner(reference.uid if reference and is_ours else None, (meta.labels or {}).get(JOB_NAME_LABEL))


def lost(
    resource: Resource, head: tuple[str, str, str], owner: Owner, resource_version: int, observed_at: Instant
) -> Observation:
    """The SYNC_DELETED of an object whose absence is proven; `head` is (namespace, name, uid)."""
    namespace, name, uid = head
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version=str(resource_version))
    fact: ObjectFact
    match resource.kind:
        case "Pod":
            fact = PodObserved(Pod(metadata=meta))
        case "TFJob":
            fact = JobObserved(TFJob(metadata=meta))
        case "Service":
            fact = ServiceObserved(Service(metadata=meta))
        case "PodGroup":
            fact = PodGroupObserved(PodGroup(metadata=meta))
        case other:
            raise ValueError(f"the absence of {other} is not recorded")
    body = _encode(
        {"metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(resource_version)}}
    )
    return Observation(
        op=Op.SYNC_DELETED,
        resource=resource.name,
        fact=fact,
        observed_at=observed_at,
        namespace=namespace,
        name=name,
        uid=uid,
        resource_version=resource_version,
        job_uid=owner.job_uid,
        job_name=owner.job_name,
        spec_hash=None,
        body=body,
        spec=None,
        size=len(body) + OVERHEAD_BYTES,
    )


__all__ = ["MESSAGE_CHARACTERS", "Normaliser", "Owner", "lost", "owner_of", "spec_of"]
