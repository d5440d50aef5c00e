"""The part that every object has: names, labels, owner references, and what only the server may write.

In: the metadata of a request's body. Out: a cleaned copy, the fields the server fills in, causes for what breaks rules.

Rules: k8s.io/apimachinery/pkg/api/validation/objectmeta.go and k8s.io/apiserver/pkg/registry/rest of 1.36.
"""

from __future__ import annotations

import re
from typing import Any

from controller.local.apiserver.builtin import node_of
from controller.local.apiserver.failures import Cause, bad_request, forbidden_field, invalid_value, required
from controller.local.apiserver.schema import drop_nulls, prune
from controller.local.apiserver.violations import shown, violations

Json = dict[str, Any]

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_DNS1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
ANNOTATIONS_LIMIT_BYTES = 256 * 1024


def name_problem(name: str, form: str) -> str | None:
    """Why `name` is no name of that form (`subdomain`, `label`, `dns1035`), None when it is one."""
    pattern, text, longest = {
        "subdomain": (SUBDOMAIN, _SUBDOMAIN_TEXT, 253),
        "label": (LABEL, _LABEL_TEXT, 63),
        "dns1035": (DNS1035, _DNS1035_TEXT, 63),
    }[form]
    if not pattern.fullmatch(name):
        return "must not contain dots" if form == "label" and SUBDOMAIN.fullmatch(name) else text
    if len(name) > longest:
        return f"must be no more than {longest} characters"
    return None


def cleaned(metadata: Any, unknown: list[str], path: str = "metadata", head: str = "") -> Json:
    """Metadata as the server reads it: unknown and empty fields dropped (`unknown` gets the paths).

    Raises `ApiFailure` 400, its message behind `head`, where a field has the wrong type.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise bad_request(f"{path} must be an object")
    node = node_of("V1ObjectMeta")
    prune(metadata, node, path, unknown)
    drop_nulls(metadata, node)
    wrong = violations(metadata, node, path)
    if wrong:
        raise bad_request(head + cannot_unmarshal(wrong[0], "ObjectMeta"))
    for key in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if key in metadata and not metadata[key]:
            del metadata[key]
    for key in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if metadata.get(key) == "":
            del metadata[key]
    metadata.pop("selfLink", None)
    return metadata


_GO_NAMES = {"integer": "number", "boolean": "bool"}
_GO_TYPES = {"boolean": "bool", "integer": "int64", "object": "map", "array": "slice", "number": "float64"}


def cannot_unmarshal(cause: Cause, owner: str) -> str:
    """A wrong type in the words of Go's JSON decoder; the name of the owning type is approximate."""
    got, wanted = re.findall(r'"(\w+)"|type (\w+)', cause.message)[0][0], re.findall(r"type (\w+)", cause.message)
    kind = wanted[0] if wanted else "string"
    field = re.sub(r"\[\d+\]", "", cause.field)
    told = f"json: cannot unmarshal {_GO_NAMES.get(got, got)} into Go struct field {owner}.{field}"
    return f"{told} of type {_GO_TYPES.get(kind, kind)}"


def causes_of(metadata: Json, name_form: str, *, namespaced: bool) -> list[Cause]:
    """What is wrong with the metadata of an object that is to be created or written."""
    found: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    elif problem := name_problem(name, name_form):
        found.append(invalid_value("metadata.name", shown(name), problem))
    if not namespaced and metadata.get("namespace"):
        found.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    for key, value in (metadata.get("labels") or {}).items():
        if problem := _key_problem(key):
            found.append(invalid_value("metadata.labels", shown(key), problem))
        if not _LABEL_VALUE.fullmatch(value):
            found.append(invalid_value("metadata.labels", shown(value), _LABEL_VALUE_TEXT))
        elif len(value) > 63:
            found.append(invalid_value("metadata.labels", shown(value), "must be no more than 63 bytes"))
    found += _annotation_causes(metadata.get("annotations") or {})
    found += _owner_causes(metadata.get("ownerReferences") or [])
    for finalizer in metadata.get("finalizers") or []:
        if problem := _key_problem(finalizer):
            found.append(invalid_value("metadata.finalizers", shown(finalizer), problem))
    return found


def _key_problem(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and (not SUBDOMAIN.fullmatch(prefix) or len(prefix) > 253):
        return f"prefix part {_SUBDOMAIN_TEXT}" if prefix else "prefix part must be non-empty"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _QUALIFIED_NAME.fullmatch(name) else _QUALIFIED_TEXT


def _annotation_causes(annotations: dict[str, str]) -> list[Cause]:
    found = []
    for key in annotations:
        if problem := _key_problem(key.lower()):
            found.append(invalid_value("metadata.annotations", shown(key), problem))
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT_BYTES:
        text = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        found.append(Cause("metadata.annotations", "FieldValueTooLong", text))
    return found


def _owner_causes(owners: list[Json]) -> list[Cause]:
    found = []
    controllers: list[str] = []
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]" if index else "metadata.ownerReferences"
        if not owner.get("apiVersion"):
            found.append(invalid_value(f"{path}.apiVersion", '""', "version must not be empty"))
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                found.append(invalid_value(f"{path}.{key}", '""', "must not be empty"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    if len(controllers) > 1:
        text = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        found.append(invalid_value("metadata.ownerReferences", shown(owners), text))
    return found


_KNOWN_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")


def finalizer_warnings(metadata: Json) -> list[str]:
    """What the server says of finalizers without a domain."""
    return [
        f"metadata.finalizers: {shown(finalizer)}: prefer a domain-qualified finalizer name to avoid accidental "
        "conflicts with other finalizer writers"
        for finalizer in metadata.get("finalizers") or []
        if "/" not in finalizer and finalizer not in _KNOWN_FINALIZERS
    ]


def update_causes(new: Json, old: Json) -> list[Cause]:
    """What an update may not do to metadata: another uid, new finalizers on an object that is being deleted."""
    found = []
    if old.get("deletionTimestamp"):
        added = [f for f in new.get("finalizers") or [] if f not in (old.get("finalizers") or [])]
        if added:
            listed = ", ".join(shown(f) for f in added)
            text = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            found.append(forbidden_field("metadata.finalizers", text))
    for key in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(key) != old.get(key):
            found.append(invalid_value(f"metadata.{key}", shown(new.get(key)), "field is immutable"))
    return found


_KEPT = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def keep_server_fields(new: Json, old: Json) -> None:
    """Fills in place what a writer may leave out of an update and never changes."""
    for key in _KEPT:
        if key in old and (key not in new or key != "uid"):
            new[key] = old[key]
    new["creationTimestamp"] = old["creationTimestamp"]
    new.setdefault("name", old["name"])
    if "namespace" in old:
        new.setdefault("namespace", old["namespace"])
    new.pop("generation", None)
    if "generation" in old:
        new["generation"] = old["generation"]
    if "generateName" in old:
        new.setdefault("generateName", old["generateName"])
