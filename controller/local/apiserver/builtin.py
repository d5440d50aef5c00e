"""The fields of the built-in kinds, as schemas of the same form as a CRD's.

In: the field tables of kubernetes_asyncio's generated models (names and types from Kubernetes' own OpenAPI document).
Out: `Node` values for pruning, unknown-field warnings and type checks; component schemas for /openapi/v3.
Never: required fields or defaults; kinds.py has those that matter here.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from kubernetes_asyncio.client import models

from controller.local.apiserver.schema import Node

Json = dict[str, Any]

# The key by which lists of a built-in object are merged (patchMergeKey / listMapKey in Kubernetes' types), by the
# model whose field it is. Lists of plain values that are merged as sets have an empty key.
MERGE_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    ("V1PodSpec", "containers"): ("name",),
    ("V1PodSpec", "initContainers"): ("name",),
    ("V1PodSpec", "ephemeralContainers"): ("name",),
    ("V1PodSpec", "volumes"): ("name",),
    ("V1PodSpec", "imagePullSecrets"): ("name",),
    ("V1PodSpec", "hostAliases"): ("ip",),
    ("V1PodSpec", "schedulingGates"): ("name",),
    ("V1PodSpec", "resourceClaims"): ("name",),
    ("V1PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("V1Container", "env"): ("name",),
    ("V1Container", "ports"): ("containerPort", "protocol"),
    ("V1Container", "volumeMounts"): ("mountPath",),
    ("V1Container", "volumeDevices"): ("devicePath",),
    ("V1PodStatus", "conditions"): ("type",),
    ("V1PodStatus", "podIPs"): ("ip",),
    ("V1PodStatus", "hostIPs"): ("ip",),
    ("V1ServiceSpec", "ports"): ("port", "protocol"),
    ("V1ServiceStatus", "conditions"): ("type",),
    ("V1NamespaceStatus", "conditions"): ("type",),
    ("V1CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("V1ObjectMeta", "ownerReferences"): ("uid",),
    ("V1ObjectMeta", "finalizers"): (),
}
# Maps that are owned and replaced as one.
ATOMIC_MAPS = {("V1ServiceSpec", "selector"), ("V1PodSpec", "nodeSelector")}
# Kinds of values that are owned and replaced as one wherever they stand.
ATOMIC_MODELS = {"V1ObjectReference", "V1LocalObjectReference", "V1OwnerReference"}

_SCALARS: dict[str, Json] = {
    "str": {"type": "string"},
    "datetime": {"type": "string", "format": "date-time"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "object": {"x-kubernetes-preserve-unknown-fields": True},
}
_INT_OR_STRING = {"targetPort", "port", "maxUnavailable", "maxSurge"}
# The field types that the table gives as `object` and that are objects themselves.
_RECURSIVE = {("V1JSONSchemaProps", "items"), ("V1JSONSchemaProps", "additionalProperties")}
_NULLABLE = {("V1JSONSchemaProps", "default"), ("V1JSONSchemaProps", "example")}


def _raw_of(type_text: str) -> Json:
    if type_text in _SCALARS:
        return dict(_SCALARS[type_text])
    if found := re.fullmatch(r"list\[(.+)\]", type_text):
        return {"type": "array", "items": _raw_of(found[1])}
    if found := re.fullmatch(r"dict\(str, (.+)\)", type_text):
        return {"type": "object", "additionalProperties": _raw_of(found[1])}
    return {"$ref": type_text}


@functools.cache
def component(model_name: str) -> Json:
    """The schema of one model; other models appear as `$ref` with their bare name."""
    model = getattr(models, model_name)
    properties: Json = {}
    for attribute, type_text in model.openapi_types.items():
        name = model.attribute_map[attribute]
        if type_text == "object" and name in _INT_OR_STRING:
            raw: Json = {"x-kubernetes-int-or-string": True}
        else:
            raw = _raw_of(type_text)
        if (model_name, name) in _NULLABLE:
            raw["nullable"] = True
        keys = MERGE_KEYS.get((model_name, name))
        if keys is not None:
            raw["x-kubernetes-list-type"] = "map" if keys else "set"
            raw["x-kubernetes-patch-strategy"] = "merge"
            if keys:
                raw["x-kubernetes-list-map-keys"] = list(keys)
                raw["x-kubernetes-patch-merge-key"] = keys[0]
        if (model_name, name) in ATOMIC_MAPS:
            raw["x-kubernetes-map-type"] = "atomic"
        properties[name] = raw
    if model_name == "V1ManagedFieldsEntry":
        properties["fieldsV1"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    atomic = {"x-kubernetes-map-type": "atomic"} if model_name in ATOMIC_MODELS else {}
    return {"type": "object", "properties": properties} | atomic


@functools.cache
def node_of(model_name: str) -> Node:
    """The compiled schema of one model, below the root of a body."""
    return Node(component(model_name), resolve=node_of, is_builtin=True)


def builtin_schema(model_name: str) -> Node:
    """The compiled schema of a kind's whole body."""
    return Node(component(model_name), root=True, resolve=node_of, is_builtin=True)


def components_below(model_name: str) -> list[str]:
    """The names of all models that `model_name` is made of, itself first."""
    found: list[str] = []
    queue = [model_name]
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found.append(name)
        queue.extend(re.findall(r"'\$ref': '(\w+)'", repr(component(name))))
    return found
