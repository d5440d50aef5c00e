"""CustomResourceDefinitions: from the object that declares a kind to the `Resource` that serves it.

In: a CRD's body. Out: its defaults, causes for what is wrong with it, its Established status, the `Resource`.

Rules: https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/
Left out: conversion webhooks (refused with 501 by the store), the scale subresource's own endpoint.
"""

from __future__ import annotations

import re
from typing import Any

from controller.local.apiserver.failures import Cause, invalid_value, required
from controller.local.apiserver.resources import ApiVersion, Resource
from controller.local.apiserver.schema import Node
from controller.local.apiserver.violations import shown

Json = dict[str, Any]

_AGE = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
}
_KUBE_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def apply_crd_defaults(crd: Json) -> None:
    """Fills in names and the conversion strategy."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def crd_causes(crd: Json) -> list[Cause]:
    """What is wrong with a CRD; the schemas' own structure is checked for a type at the root only."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    found: list[Cause] = []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    name = crd["metadata"].get("name", "")
    if name and name != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        found.append(invalid_value("metadata.name", shown(name), text))
    if not spec.get("group"):
        found.append(required("spec.group"))
    if not spec.get("scope"):
        found.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        text = f'Unsupported value: {shown(spec.get("scope", ""))}: supported values: "Cluster", "Namespaced"'
        found.append(Cause("spec.scope", "FieldValueNotSupported", text))
    versions = spec.get("versions") or []
    storing = [version for version in versions if version.get("storage")]
    if len(storing) != 1:
        text = "must have exactly one version marked as storage version"
        found.append(invalid_value("spec.versions", shown(versions), text))
    for index, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if not schema:
            found.append(required(path))
        elif not schema.get("type"):
            where = "spec.validation.openAPIV3Schema" if len(versions) == 1 else path
            found.append(required(f"{where}.type", "must not be empty at the root"))
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            found.append(required(f"spec.names.{key}"))
    strategy = (spec.get("conversion") or {}).get("strategy")
    if strategy not in ("None", "Webhook"):
        text = f'Unsupported value: {shown(strategy)}: supported values: "None", "Webhook"'
        found.append(Cause("spec.conversion.strategy", "FieldValueNotSupported", text))
    if not versions:
        text = "must have at least one stored version"
        found.append(invalid_value("status.storedVersions", "null", text))
    return found


def first_status(crd: Json) -> Json:
    """The status of a CRD that has just been created, before its names are looked at."""
    stored = [version["name"] for version in crd["spec"].get("versions") or [] if version.get("storage")]
    return {"acceptedNames": {"kind": "", "plural": ""}, "conditions": None, "storedVersions": stored}


def terminating(status: Json, now: str) -> Json:
    """The status of a CRD that is being deleted while objects of it are left."""
    kept = [c for c in status.get("conditions") or [] if c["type"] != "Terminating"]
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    condition = {"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "message": text}
    return status | {"conditions": [*kept, condition | {"lastTransitionTime": now}]}


def established_status(crd: Json, now: str) -> Json:
    """The status that the API server's own controllers give a CRD whose names are free."""
    names = {key: value for key, value in crd["spec"]["names"].items() if value}
    stored = (crd.get("status") or {}).get("storedVersions") or []
    storing = next(v["name"] for v in crd["spec"]["versions"] if v.get("storage"))
    before = {c["type"]: c for c in (crd.get("status") or {}).get("conditions") or []}
    conditions = [
        before.get(kind)
        or {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return {
        "acceptedNames": names,
        "conditions": conditions,
        "storedVersions": [*stored, *([] if storing in stored else [storing])],
    }


def _priority(name: str) -> tuple[int, int, int, str]:
    found = _KUBE_VERSION.fullmatch(name)
    if not found:
        return 1, 0, 0, name
    stability = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return 0, stability, -int(found[1]) * 1000 - int(found[3] or 0), ""


def resource_of(crd: Json) -> Resource:
    """The resource that a CRD declares; its versions in the order of discovery (GA, then beta, then alpha)."""
    spec = crd["spec"]
    names = spec["names"]
    versions = sorted(spec["versions"], key=lambda version: _priority(version["name"]))
    subresources = {sub for version in versions for sub in version.get("subresources") or {} if sub == "status"}
    return Resource(
        group=spec["group"],
        plural=names["plural"],
        singular=names["singular"],
        kind=names["kind"],
        list_kind=names["listKind"],
        namespaced=spec["scope"] == "Namespaced",
        versions=tuple(_version_of(version) for version in versions),
        storage_version=next(v["name"] for v in versions if v.get("storage")),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(sorted(subresources)),
        absent_subresources=("scale",) if any("scale" in (v.get("subresources") or {}) for v in versions) else (),
        is_custom=True,
        needs_resource_version=True,
    )


def _version_of(version: Json) -> ApiVersion:
    columns = tuple(version.get("additionalPrinterColumns") or ()) or (_AGE,)
    selectable = {}
    for field in version.get("selectableFields") or []:
        path = field["jsonPath"].removeprefix(".")
        selectable[path] = tuple(path.split("."))
    warning = None
    if version.get("deprecated"):
        warning = version.get("deprecationWarning") or ""
    return ApiVersion(
        name=version["name"],
        schema=Node(version["schema"]["openAPIV3Schema"], root=True),
        served=bool(version.get("served")),
        columns=columns,
        deprecation_warning=warning,
        selectable=selectable,
    )
