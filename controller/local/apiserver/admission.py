"""The project's own rules for TFJobs at the local API server, where a real one evaluates the CRD's CEL rules.

In: a TFJob that fits its schema, and the one that it replaces. Out: causes as the API server gives them.
"""

from __future__ import annotations

from typing import Any

from controller.fold.admission import problems_of
from controller.local.apiserver.failures import Cause, invalid_value
from controller.local.apiserver.schema import type_name_of

Json = dict[str, Any]


def tfjob_causes(new: Json, old: Json | None) -> list[Cause]:
    """What is wrong with a TFJob. An update that leaves the spec and annotations alone is not checked (ratcheting)."""
    if old is not None and new.get("spec") == old.get("spec") and _annotations(new) == _annotations(old):
        return []
    found = [invalid_value(each.path, _shown(new, each.path), each.message) for each in problems_of(new)]
    if old is not None and _manager(new) != _manager(old):
        path = "spec.runPolicy.managedBy"
        found.append(invalid_value(path, _shown(new, path), "the field is immutable"))
    return found


def _annotations(body: Json) -> Any:
    return body["metadata"].get("annotations")


def _manager(body: Json) -> Any:
    return ((body.get("spec") or {}).get("runPolicy") or {}).get("managedBy") or ""


def _shown(body: Json, path: str) -> str:
    value: Any = body
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return f'"{type_name_of(type(value))}"'
