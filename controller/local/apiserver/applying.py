"""What a PATCH makes of the current object, by its kind.

In: a decoded patch and its target. Out: the function that makes the wanted body; for an apply the written object.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from controller.local.apiserver.failures import (
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
    required,
)
from controller.local.apiserver.managers import applied
from controller.local.apiserver.patching import json_patched, merge_patched, strategic_patched
from controller.local.apiserver.reading import WriteOptions, read_body
from controller.local.apiserver.requests import Target
from controller.local.apiserver.revisions import Stored
from controller.local.apiserver.store import Store

Json = dict[str, Any]


def patch_maker(kind: str, target: Target, patch: Any) -> Callable[[Json], Any]:
    """The function from the current body to the wanted one, for `json`, `merge` and `strategic` patches."""
    if kind == "json":
        return lambda current: json_patched(current, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: the patch must be an object")
    if kind == "merge":
        return lambda current: merge_patched(current, patch)
    return lambda current: strategic_patched(current, patch, target.version.schema)


def _refuse_undeclared(target: Target, metadata: Json, warnings: list[str]) -> None:
    unknown = [w.removeprefix('unknown field "').removesuffix('"') for w in warnings if w.startswith("unknown field")]
    if not unknown:
        return
    kind = f"{target.resource.api_version_of(target.version.name)}, Kind={target.resource.kind}"
    place = f"({metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind})"
    lines = [f".{path}: field not declared in schema" for path in unknown]
    text = lines[0] if len(lines) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in lines)
    raise internal(f"failed to create typed patch object {place}: {text}")


def apply_patch(store: Store, target: Target, config: Any, options: WriteOptions) -> tuple[Stored, bool]:
    """Server-side apply: creates or merges; the second value says whether the object was created.

    `ApiFailure` 409 for fields that another manager owns, unless forced; 422 without a field manager.
    """
    resource, version = target.resource, target.version
    if not options.manager:
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
    given = config.get("metadata") if isinstance(config, dict) else None
    said = WriteOptions()
    wanted = read_body(resource, version, config, said, with_defaults=False)
    _refuse_undeclared(target, given if isinstance(given, dict) else {}, said.warnings)
    metadata = wanted["metadata"]
    if metadata.pop("managedFields", None):
        raise bad_request("metadata.managedFields must be nil")
    if metadata.setdefault("name", target.name) != target.name:
        text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        raise bad_request(text)
    found = store.revisions.get(resource.key, (target.namespace, target.name))
    if found is None:
        if metadata.get("uid"):
            why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            raise conflict(resource.plural, resource.group, target.name, why)
        if target.subresource:
            raise not_found(resource.plural, resource.group, target.name)
        body = applied(resource, version, None, wanted, options.manager, store.now_text(), force=True)
        return store.create_from(resource, version, target.namespace, body, options, applied=True), True
    live = copy.deepcopy(store.body_in(found, resource, version))
    if target.subresource != "status" and resource.has_status:
        wanted.pop("status", None)
    body = applied(
        resource,
        version,
        live,
        wanted,
        options.manager,
        store.now_text(),
        force=options.force,
        subresource=target.subresource,
    )
    cleaned = read_body(resource, version, body, options)
    return store.write_over(resource, version, found, cleaned, options, target.subresource, applied=True), False
