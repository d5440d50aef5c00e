"""What a request is about: its path as a target, its body decoded, its Accept header as a form of answer.

In: the parts of an HTTP request (text and bytes). Out: `Target`, decoded bodies, `Form`.
Never: a server or a store; http.py joins them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from controller.local.apiserver.failures import (
    ApiFailure,
    bad_request,
    no_such_resource,
    not_found,
    not_implemented,
    unsupported_media_type,
)
from controller.local.apiserver.protobuf import read_protobuf
from controller.local.apiserver.resources import ABSENT_CORE, ApiVersion, Registry, Resource, is_absent_group

Json = dict[str, Any]

PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+json": "apply",
}
_TRUE = frozenset({"1", "true", "t", "True", "TRUE", "T"})


@dataclass(frozen=True, slots=True)
class Target:
    """What a resource path names; name and subresource are "" where the path has none."""

    resource: Resource
    version: ApiVersion
    namespace: str
    name: str
    subresource: str


class NoSuchPath(Exception):
    """The path leads nowhere: answered with the server's plain 404."""


def is_true(text: str | None) -> bool:
    """A boolean query parameter, as Go's strconv.ParseBool reads it (Python clients send `True`)."""
    return text in _TRUE


def _nowhere(path: str) -> Exception:
    return no_such_resource() if path.startswith("/api/") else NoSuchPath()


def target_of(registry: Registry, path: str) -> Target:
    """The target of /api/… or /apis/…; `NoSuchPath`, or `ApiFailure` 501 for a kind of Kubernetes that is left out."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version_name, rest = "", parts[1] if len(parts) > 1 else "", parts[2:]
    else:
        group, version_name, rest = parts[1] if len(parts) > 1 else "", parts[2] if len(parts) > 2 else "", parts[3:]
        if not group:
            raise NoSuchPath
    if rest and rest[0] == "watch":
        raise not_implemented("the deprecated /watch/ paths; use ?watch=true")
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 3 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3 or not all(rest):
        raise _nowhere(path)
    plural, name, subresource = [*rest, "", ""][:3]
    resource = registry.get(group, plural)
    version = resource.version_of(version_name) if resource else None
    if resource is None or version is None or not version.served:
        _refuse_absent(registry, group, version_name, plural)
        raise _nowhere(path)
    if bool(namespace) and not resource.namespaced:
        raise _nowhere(path)
    if name and resource.namespaced and not namespace:
        raise _nowhere(path)
    if subresource and subresource not in resource.subresources:
        if subresource in resource.absent_subresources:
            raise not_implemented(f"the subresource {subresource} of {resource.qualified}")
        if resource.is_custom:
            raise not_found(resource.plural, resource.group, name)
        raise no_such_resource()
    return Target(resource, version, namespace, name, subresource)


def _refuse_absent(registry: Registry, group: str, version_name: str, plural: str) -> None:
    full = f"{plural}.{group}/{version_name}" if group else plural
    if group == "" and version_name == "v1" and plural in ABSENT_CORE:
        raise not_implemented(f"the resource {full}")
    if group and is_absent_group(group):
        raise not_implemented(f"the resource {full}")


# --- bodies ------------------------------------------------------------------------------------------------------


def decoded(raw: bytes, content_type: str, wanted_kind: str = "") -> Any:
    """A body as JSON values. `ApiFailure` 400 for text that is none, 415 for a form that is not read."""
    kind = content_type.partition(";")[0].strip() or "application/json"
    if kind == "application/vnd.kubernetes.protobuf":
        return read_protobuf(raw)
    if kind not in ("application/json", "application/yaml"):
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml"
        )
    try:
        if kind.endswith("yaml"):
            return yaml.safe_load(raw)
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        if wanted_kind:
            head = f"the object provided is unrecognized (must be of type {wanted_kind}): "
            raise bad_request(f"{head}couldn't get version/kind; json parse error: {error}") from None
        raise bad_request(f"error decoding patch: {error}") from None


class _WithTwins(dict[str, Any]):
    """An object whose text gives some keys twice."""

    twins: tuple[str, ...] = ()


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(items)
    if len(found) == len(items):
        return found
    marked = _WithTwins(found)
    keys = [key for key, _ in items]
    marked.twins = tuple(key for key in found if keys.count(key) > 1)
    return marked


def duplicate_fields(raw: bytes) -> list[str]:
    """The paths of keys that a JSON text gives twice in one object."""
    try:
        body = json.loads(raw, object_pairs_hook=_pairs)
    except ValueError:
        return []
    found: list[str] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, dict):
            if isinstance(value, _WithTwins):
                found.extend(f"{path}.{key}".lstrip(".") for key in value.twins)
            for key, inner in value.items():
                visit(inner, f"{path}.{key}")
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                visit(inner, f"{path}[{index}]")

    visit(body, "")
    return found


def patch_kind(content_type: str, resource: Resource) -> str:
    """Which of `json`, `merge`, `strategic`, `apply` a PATCH is; `ApiFailure` 415 for one this resource lacks."""
    found = PATCH_TYPES.get(content_type.partition(";")[0].strip())
    accepted = [kind for kind, name in PATCH_TYPES.items() if kind != "application/apply-patch+json"]
    if resource.is_custom:
        accepted.remove("application/strategic-merge-patch+json")
    if found is None or (found == "strategic" and resource.is_custom):
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
        )
    return found


# --- answers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: `shape` is "" (the objects), `Table`, `PartialObjectMetadata` or `…List`."""

    shape: str = ""
    is_yaml: bool = False


def form_of(accept: str) -> Form:
    """The first form of an Accept header that is served; `ApiFailure` 406 if there is none."""
    for part in accept.split(",") if accept else ["*/*"]:
        kind, *parameters = [piece.strip() for piece in part.split(";")]
        said = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if kind not in ("application/json", "*/*", "application/*", "application/yaml"):
            continue
        shape = said.get("as", "")
        if shape and (said.get("g") != "meta.k8s.io" or said.get("v") != "v1"):
            continue
        if shape not in ("", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            continue
        return Form(shape, kind == "application/yaml")
    raise ApiFailure(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    )


def wants_aggregated(accept: str) -> bool:
    """Whether a discovery request accepts the aggregated form."""
    return re.search(r"g=apidiscovery\.k8s\.io;\s*v=v2;\s*as=APIGroupDiscoveryList", accept) is not None
