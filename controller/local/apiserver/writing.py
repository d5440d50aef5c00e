"""The writing requests of HTTP: their bodies and options read, the store's verb called, its answer handed on.

In: aiohttp requests with their targets. Out: what was written, with the status of the answer; `ApiFailure` otherwise.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from controller.local.apiserver.answers import encoded
from controller.local.apiserver.applying import apply_patch, patch_maker
from controller.local.apiserver.deletion import Deleted, DeleteOptions
from controller.local.apiserver.failures import Cause, bad_request, forbidden_field, invalid, method_not_allowed
from controller.local.apiserver.reading import WriteOptions, is_strict
from controller.local.apiserver.requests import NoSuchPath, Target, decoded, duplicate_fields, is_true, patch_kind
from controller.local.apiserver.revisions import Stored
from controller.local.apiserver.store import Store

Json = dict[str, Any]
# What was written, the status of the answer, and the options with the warnings collected.
Written = tuple[Stored, int, WriteOptions]


async def _read(request: web.Request, target: Target, options: WriteOptions) -> Any:
    raw = await request.read()
    content_type = request.headers.get("Content-Type", "")
    body = decoded(raw, content_type, target.resource.kind)
    if options.field_validation != "Ignore" and "json" in content_type:
        words = [f'duplicate field "{name}"' for name in duplicate_fields(raw)]
        if words and is_strict(options):
            kind = target.resource.kind
            head = f'{kind} in version "{target.version.name}" cannot be handled as a {kind}: strict decoding error: '
            raise bad_request(head + ", ".join(words))
        options.warnings.extend(words)
    return body


async def create(store: Store, request: web.Request, target: Target) -> Written:
    """POST to a collection."""
    options = write_options(request)
    body = await _read(request, target, options)
    if target.resource.namespaced and not target.namespace:
        raise NoSuchPath if target.resource.is_custom else method_not_allowed()
    stored = store.create_from(target.resource, target.version, target.namespace, body, options)
    return stored, 201, options


async def put(store: Store, request: web.Request, target: Target) -> Written:
    """PUT of an object or its status."""
    options = write_options(request)
    body = await _read(request, target, options)
    stored, created = store.put(
        target.resource, target.version, target.namespace, target.name, body, options, target.subresource
    )
    return stored, 201 if created else 200, options


async def patch(store: Store, request: web.Request, target: Target) -> Written:
    """PATCH of an object or its status, of any kind."""
    kind = patch_kind(request.headers.get("Content-Type", ""), target.resource)
    raw = await request.read()
    options = write_options(request)
    if kind == "apply":
        options.manager = request.query.get("fieldManager", "")
        options.force = is_true(request.query.get("force"))
        stored, created = apply_patch(store, target, decoded(raw, "application/yaml"), options)
        return stored, 201 if created else 200, options
    if "force" in request.query:
        cause = forbidden_field("force", "may not be specified for non-apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
    make = patch_maker(kind, target, decoded(raw, "application/json"))
    stored = store.patch(
        target.resource,
        target.version,
        target.namespace,
        target.name,
        make,
        options,
        subresource=target.subresource,
    )
    return stored, 200, options


async def delete_options(request: web.Request) -> DeleteOptions:
    """The options of a DELETE, from its body and query."""
    raw = await request.read()
    body = decoded(raw, request.headers.get("Content-Type", "")) if raw else {}
    if not isinstance(body, dict) or body.get("kind", "DeleteOptions") != "DeleteOptions":
        kind = body.get("kind", "") if isinstance(body, dict) else ""
        raise bad_request(f'no kind "{kind}" is registered for version "v1"')
    return DeleteOptions.of(body, dict(request.query))


def deletion_status(target: Target, done: Deleted) -> Json:
    """The Status that answers the deletion of a kind that is not shown once more."""
    metadata = done.last.body["metadata"]
    details = {"name": metadata["name"], "group": target.resource.group, "kind": target.resource.plural}
    details = {key: value for key, value in details.items() if value} | {"uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def write_options(request: web.Request) -> WriteOptions:
    """The options of a write, from its query."""
    query = request.query
    dry_run = query.getall("dryRun", [])
    causes = []
    if any(value != "All" for value in dry_run):
        text = f'Unsupported value: {encoded(dry_run).decode()}: supported values: "All"'
        causes.append(Cause("dryRun", "FieldValueNotSupported", text))
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Strict", "Warn"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        causes.append(Cause("fieldValidation", "FieldValueNotSupported", text))
    if causes:
        kind = {"POST": "CreateOptions", "PATCH": "PatchOptions"}.get(request.method, "UpdateOptions")
        raise invalid(kind, "meta.k8s.io", "", causes)
    agent = request.headers.get("User-Agent", "")
    manager = query.get("fieldManager") or agent.partition("/")[0] or "unknown"
    return WriteOptions(dry_run=bool(dry_run), field_validation=validation, manager=manager)
