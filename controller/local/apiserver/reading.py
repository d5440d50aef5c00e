"""From a request's body to an object that may be written: kind, metadata, unknown fields, defaults, rules.

In: a decoded JSON body that nobody else holds, and the resource and version of the request.
Out: the body cleaned in place, warnings, causes. Raises `ApiFailure` 400 for what cannot be read.
Never: storage.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller.local.apiserver.failures import Cause, bad_request, invalid, invalid_value, required
from controller.local.apiserver.metadata import cannot_unmarshal, cleaned, finalizer_warnings
from controller.local.apiserver.resources import ApiVersion, Resource
from controller.local.apiserver.schema import MISSING, apply_defaults, drop_nulls, prune, walk
from controller.local.apiserver.violations import violations

Json = dict[str, Any]
# Checks beyond a schema's own: (new body, old body or None) → causes.
Validator = Callable[[Json, Json | None], list[Cause]]


@dataclass(slots=True)
class WriteOptions:
    """How a write is to be done; `warnings` collects what goes into the response's Warning headers."""

    dry_run: bool = False
    field_validation: str = "Warn"
    manager: str = "unknown"
    force: bool = False
    warnings: list[str] = field(default_factory=list)


def read_body(
    resource: Resource,
    version: ApiVersion,
    body: Any,
    options: WriteOptions,
    *,
    is_patched: bool = False,
    with_defaults: bool = True,
) -> Json:
    """Cleans a whole object in place and gives it back; `is_patched` says that a patch made it."""
    if not isinstance(body, dict):
        raise bad_request("the body of the request must be an object")
    if not (is_patched and resource.is_custom and body.get("kind")):
        _check_type(resource, version, body)
    text = json.dumps(body, separators=(",", ":"), sort_keys=True) if is_patched and is_strict(options) else ""
    unknown: list[str] = []
    head = f'{resource.kind} in version "{version.name}" cannot be handled as a {resource.kind}: '
    body["metadata"] = cleaned(body.get("metadata"), unknown, head=head)
    options.warnings.extend(finalizer_warnings(body["metadata"]))
    prune(body, version.schema, "", unknown)
    _report_unknown(resource, version, unknown, options, text)
    if resource.is_custom:
        drop_nulls(body, version.schema)
        if with_defaults:
            apply_defaults(body, version.schema)
        _read_embedded(body, version)
    else:
        drop_nulls(body, version.schema)
        _check_builtin_types(resource, version, body)
    return body


def is_strict(options: WriteOptions) -> bool:
    """Whether unknown and twice given fields are refused."""
    return options.field_validation == "Strict"


def _check_type(resource: Resource, version: ApiVersion, body: Json) -> None:
    wanted = resource.api_version_of(version.name)
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if resource.is_custom:
        if not kind:
            text = json.dumps(body)
            raise bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind}): "
                f"Object 'Kind' is missing in '{text}' ({text})"
            )
        if api_version != wanted:
            text = (
                f"the API version in the data ({api_version or ''}) does not match the expected API version ({wanted})"
            )
            raise bad_request(text)
        return
    head = f'{kind or resource.kind} in version "{version.name}" cannot be handled as a {resource.kind}: '
    if api_version not in (None, "", wanted):
        raise bad_request(head + f'no kind "{resource.kind}" is registered for version "{api_version}"')
    if kind not in (None, "", resource.kind):
        raise bad_request(head + f"converting ({version.name}.{kind}) to (core.{resource.kind}): unknown conversion")
    body["kind"], body["apiVersion"] = resource.kind, wanted


def _report_unknown(
    resource: Resource, version: ApiVersion, unknown: list[str], options: WriteOptions, patch: str
) -> None:
    if not unknown or options.field_validation == "Ignore":
        return
    words = [f'unknown field "{path}"' for path in sorted(unknown)]
    if not is_strict(options):
        options.warnings.extend(words)
        return
    text = f"strict decoding error: {', '.join(words)}"
    if patch:
        raise invalid("", "", "", [invalid_value("patch", json.dumps(patch), text)])
    raise bad_request(f'{resource.kind} in version "{version.name}" cannot be handled as a {resource.kind}: {text}')


def _check_builtin_types(resource: Resource, version: ApiVersion, body: Json) -> None:
    wrong = violations(body, version.schema)
    if wrong:
        head = f'{resource.kind} in version "{version.name}" cannot be handled as a {resource.kind}: '
        raise bad_request(head + cannot_unmarshal(wrong[0], resource.kind))


def _read_embedded(body: Json, version: ApiVersion) -> None:
    """Cleans the metadata of objects inside the object (x-kubernetes-embedded-resource)."""

    def visit(value: Any, node: Any) -> None:
        if isinstance(value, dict):
            if node.embedded and isinstance(value.get("metadata"), dict):
                value["metadata"] = cleaned(value["metadata"], [])
            for key, inner in value.items():
                if isinstance(inner, (dict, list)) and (child := node.child_of(key)) is not None:
                    visit(inner, child)
        elif isinstance(value, list) and node.items is not None:
            for inner in value:
                visit(inner, node.items)

    visit(body, version.schema)


def schema_causes(
    resource: Resource, version: ApiVersion, body: Json, old: Json | None, validators: list[Validator]
) -> list[Cause]:
    """What a custom object breaks: its schema first, then the further checks, which need a body that has its shape."""
    if not resource.is_custom:
        return []
    api_version = resource.api_version_of(version.name)
    if body["apiVersion"] != api_version:
        return [invalid_value("apiVersion", json.dumps(body["apiVersion"]), f"must be {api_version}")]
    if body["kind"] != resource.kind:
        return [invalid_value("kind", json.dumps(body["kind"]), f"must be {resource.kind}")]
    found = violations(body, version.schema, "", MISSING if old is None else old)
    found += _embedded_causes(body, version)
    for validator in validators if not found else []:
        found += validator(body, old)
    return found


def _embedded_causes(body: Json, version: ApiVersion) -> list[Cause]:
    found = []
    for path, value, node in walk(body, version.schema):
        if node.embedded and isinstance(value, dict):
            found += [required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in value]
    return found


def storage_form(resource: Resource, version_name: str, body: Json) -> Json:
    """The body as it is kept: in the storage version, without what that version does not know (conversion None)."""
    storage = resource.storage
    if resource.is_custom and version_name != storage.name:
        body["apiVersion"] = resource.api_version_of(storage.name)
        prune(body, storage.schema)
        apply_defaults(body, storage.schema)
    return body
