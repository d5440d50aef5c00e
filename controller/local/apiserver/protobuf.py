"""Bodies in Kubernetes' protobuf form, for the few kinds that `kubectl create` sends that way.

In: the bytes of a request's body. Out: the same object as decoded JSON. `ApiFailure` 415 for a kind without a table.
Never: answers; they are JSON, which such clients accept as well.

Field numbers: the generated.proto files of k8s.io/api and k8s.io/apimachinery. Envelope:
https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from controller.local.apiserver.failures import bad_request, unsupported_media_type

Json = dict[str, Any]
# field number → (name, type); types: s text, i integer, b boolean, y bytes, t time, m map of texts, a message's name,
# each with a leading * where the field repeats
Table = dict[int, tuple[str, str]]

_MAGIC = b"k8s\x00"
_TABLES: dict[str, Table] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "y")},
    "TypeMeta": {1: ("apiVersion", "s"), 2: ("kind", "s")},
    "ObjectMeta": {
        1: ("name", "s"), 2: ("generateName", "s"), 3: ("namespace", "s"), 5: ("uid", "s"),
        6: ("resourceVersion", "s"), 7: ("generation", "i"), 8: ("creationTimestamp", "t"),
        9: ("deletionTimestamp", "t"), 10: ("deletionGracePeriodSeconds", "i"), 11: ("labels", "m"),
        12: ("annotations", "m"), 13: ("ownerReferences", "*OwnerReference"), 14: ("finalizers", "*s"),
    },
    "OwnerReference": {
        1: ("kind", "s"), 3: ("name", "s"), 4: ("uid", "s"), 5: ("apiVersion", "s"), 6: ("controller", "b"),
        7: ("blockOwnerDeletion", "b"),
    },
    "Preconditions": {1: ("uid", "s"), 2: ("resourceVersion", "s")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "i"), 2: ("preconditions", "Preconditions"), 3: ("orphanDependents", "b"),
        4: ("propagationPolicy", "s"), 5: ("dryRun", "*s"),
    },
    "Namespace": {
        1: ("metadata", "ObjectMeta"), 2: ("spec", "NamespaceSpec"), 3: ("status", "NamespaceStatus"),
    },
    "NamespaceSpec": {1: ("finalizers", "*s")},
    "NamespaceStatus": {1: ("phase", "s")},
    "ConfigMap": {1: ("metadata", "ObjectMeta"), 2: ("data", "m"), 3: ("binaryData", "m"), 4: ("immutable", "b")},
    "Service": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ServiceSpec")},
    "ServiceSpec": {
        1: ("ports", "*ServicePort"), 2: ("selector", "m"), 3: ("clusterIP", "s"), 4: ("type", "s"),
        5: ("externalIPs", "*s"), 7: ("sessionAffinity", "s"), 10: ("externalName", "s"),
        13: ("publishNotReadyAddresses", "b"), 17: ("ipFamilyPolicy", "s"), 18: ("clusterIPs", "*s"),
        19: ("ipFamilies", "*s"), 22: ("internalTrafficPolicy", "s"),
    },
    "ServicePort": {
        1: ("name", "s"), 2: ("protocol", "s"), 3: ("port", "i"), 4: ("targetPort", "IntOrString"),
        5: ("nodePort", "i"), 6: ("appProtocol", "s"),
    },
    "IntOrString": {1: ("type", "i"), 2: ("intVal", "i"), 3: ("strVal", "s")},
    "Time": {1: ("seconds", "i")},
}  # fmt: skip
_KINDS = ("ConfigMap", "DeleteOptions", "Namespace", "Service")


def read_protobuf(raw: bytes) -> Json:
    """The object of a protobuf body."""
    if not raw.startswith(_MAGIC):
        raise bad_request("the body is not in Kubernetes' protobuf form")
    try:
        envelope = _message(raw[len(_MAGIC) :], "Unknown")
        kind = envelope.get("typeMeta", {}).get("kind", "")
        if kind not in _KINDS:
            raise unsupported_media_type(
                f"the local API server reads {', '.join(_KINDS)} as protobuf, not {kind or 'this'}; send JSON"
            )
        return dict(envelope["typeMeta"]) | _message(envelope.get("raw", b""), kind)
    except (IndexError, UnicodeDecodeError) as error:
        raise bad_request(f"the protobuf body is damaged: {error}") from None


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(raw):
        key, place = _varint(raw, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(raw, place)
            yield number, value
        elif wire == 2:
            size, place = _varint(raw, place)
            if place + size > len(raw):
                raise IndexError("a field is longer than the body")
            yield number, raw[place : place + size]
            place += size
        else:
            place += 8 if wire == 1 else 4


def _message(raw: bytes, name: str) -> Json:
    found: Json = {}
    for number, value in _fields(raw):
        field, kind = _TABLES[name].get(number, ("", ""))
        if not field:
            continue
        if kind == "m":
            pair = dict(_fields(value)) if isinstance(value, bytes) else {}
            found.setdefault(field, {})[_text(pair.get(1, b""))] = _text(pair.get(2, b""))
        elif kind.startswith("*"):
            found.setdefault(field, []).append(_value(value, kind[1:]))
        else:
            read = _value(value, kind)
            if read not in ("", None):
                found[field] = read
    return found


def _text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _value(value: int | bytes, kind: str) -> Any:
    match kind:
        case "s":
            return _text(value)
        case "i":
            number = int(value) if isinstance(value, int) else 0
            return number - 2**64 if number >= 2**63 else number
        case "b":
            return bool(value)
        case "y":
            return value
    assert isinstance(value, bytes), kind
    if kind == "t":
        seconds = _message(value, "Time").get("seconds")
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    inner = _message(value, kind)
    if kind == "IntOrString":
        return inner.get("strVal", "") if inner.get("type") == 1 else inner.get("intVal", 0)
    return inner
