"""The schemas of what is served, as OpenAPI v3 documents (one per group version) and a short v2 one.

In: the registry. Out: documents that kubectl uses for validation, patches by merge key and `explain`.
Never: descriptions of built-in fields, or the operations' full parameters; clients do not need them.
"""

from __future__ import annotations

import json
from typing import Any

from controller.local.apiserver.builtin import component, components_below
from controller.local.apiserver.discovery import VERSION
from controller.local.apiserver.resources import ApiVersion, Registry, Resource

Json = dict[str, Any]

_INFO = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_MODELS = {
    "namespaces": "V1Namespace",
    "pods": "V1Pod",
    "services": "V1Service",
    "configmaps": "V1ConfigMap",
    "events": "CoreV1Event",
    "leases": "V1Lease",
    "customresourcedefinitions": "V1CustomResourceDefinition",
}


def _root_path(group: str, version_name: str) -> str:
    return f"apis/{group}/{version_name}" if group else f"api/{version_name}"


def _group_versions(registry: Registry) -> dict[str, list[tuple[Resource, ApiVersion]]]:
    found: dict[str, list[tuple[Resource, ApiVersion]]] = {}
    for resource in registry:
        for version in resource.versions:
            if version.served:
                found.setdefault(_root_path(resource.group, version.name), []).append((resource, version))
    return found


def index(registry: Registry) -> Json:
    """/openapi/v3: the documents there are."""
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in sorted(_group_versions(registry))}}


def _with_references(raw: Any) -> Any:
    text = json.dumps(raw).replace('"$ref": "', '"$ref": "#/components/schemas/')
    return json.loads(text)


def _schemas_of(resource: Resource, version: ApiVersion) -> tuple[str, Json]:
    """The component's name of a kind, and all components that it needs."""
    kind = {"group": resource.group, "version": version.name, "kind": resource.kind}
    if not resource.is_custom:
        names = components_below(_MODELS[resource.plural])
        schemas = {name: _with_references(component(name)) for name in names}
        schemas[names[0]]["x-kubernetes-group-version-kind"] = [kind]
        return names[0], schemas
    reversed_group = ".".join(reversed(resource.group.split(".")))
    name = f"{reversed_group}.{version.name}.{resource.kind}"
    schema = json.loads(json.dumps(version.schema.raw))
    properties = schema.setdefault("properties", {})
    properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties["metadata"] = {"allOf": [{"$ref": "#/components/schemas/V1ObjectMeta"}], "default": {}}
    schema["x-kubernetes-group-version-kind"] = [kind]
    metadata = {n: _with_references(component(n)) for n in components_below("V1ObjectMeta")}
    return name, metadata | {name: schema}


def document(registry: Registry, root: str) -> Json | None:
    """/openapi/v3/{root}; None where no such version is served."""
    served = _group_versions(registry).get(root)
    if served is None:
        return None
    paths: Json = {}
    schemas: Json = {}
    for resource, version in served:
        name, needed = _schemas_of(resource, version)
        schemas |= needed
        kind = {"group": resource.group, "version": version.name, "kind": resource.kind}
        reference = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        done = {"200": {"description": "OK", "content": {"application/json": reference}}}

        def operation(action: str, kind: Json = kind, done: Json = done, **more: Any) -> Json:
            return {"responses": done, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind} | more

        place = "namespaces/{namespace}/" if resource.namespaced else ""
        collection = f"/{root}/{place}{resource.plural}"
        paths[collection] = {
            "get": operation("list"),
            "post": operation("post", parameters=_WRITE_PARAMETERS),
            "delete": operation("deletecollection"),
        }
        paths[collection + "/{name}"] = {
            "get": operation("get"),
            "put": operation("put", parameters=_WRITE_PARAMETERS),
            "patch": operation("patch", parameters=[*_WRITE_PARAMETERS, {"name": "force", "in": "query"}]),
            "delete": operation("delete"),
        }
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def swagger() -> Json:
    """/openapi/v2 as JSON: valid, and without definitions; the v3 documents have them."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
