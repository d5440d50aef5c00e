"""Patches: a new body from an old one and a list of changes.

In: the current body (never changed) and a decoded patch. Out: a new body that shares nothing it changed with the old.
Raises `ApiFailure` 400 for a patch that is none, 422 for one that cannot be applied.

JSON merge patch: RFC 7386. JSON patch: RFC 6902 as evanphx/json-patch v4 reads it. Strategic merge patch:
https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
"""

from __future__ import annotations

import copy
from typing import Any

from controller.local.apiserver.failures import bad_request, rejected_patch
from controller.local.apiserver.schema import Node, type_name_of

Json = dict[str, Any]


def merge_patched(current: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result


# --- JSON patch --------------------------------------------------------------------------------------------------


def json_patched(current: Json, operations: Any) -> Json:
    """RFC 6902. A `test` that fails, or a path that is not there, answers 422 with no cause, as the server does."""
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        got = "array" if isinstance(operations, list) else type_name_of(type(operations))
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {got} into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > 10_000:
        raise bad_request(f"The allowed maximum operations in a JSON patch is 10000, got {len(operations)}")
    document: Any = copy.deepcopy(current)
    for operation in operations:
        document = _applied(document, operation)
    if not isinstance(document, dict):
        raise rejected_patch()
    return document


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise rejected_patch()
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


_ABSENT: Any = object()


def _applied(document: Any, operation: Json) -> Any:
    path = _tokens(operation.get("path"))
    if not path and operation.get("op") != "test":
        raise rejected_patch()
    match operation.get("op"):
        case "add":
            return _with_value(document, path, copy.deepcopy(_value_of(operation)), may_insert=True)
        case "replace":
            # a missing key of a map is added, as evanphx/json-patch v4 does
            return _with_value(document, path, copy.deepcopy(_value_of(operation)), may_insert=False)
        case "remove":
            return _without(document, path)
        case "test":
            found, wanted = _value_at(document, path), operation.get("value")
            if found is _ABSENT and wanted is None:
                return document
            if found is _ABSENT or not _equal(found, wanted):
                raise rejected_patch()
            return document
        case "move":
            source = _tokens(operation.get("from"))
            value = _value_at(document, source)
            if value is _ABSENT:
                raise rejected_patch()
            return _with_value(_without(document, source), path, value, may_insert=True)
        case "copy":
            value = _value_at(document, _tokens(operation.get("from")))
            if value is _ABSENT:
                raise rejected_patch()
            return _with_value(document, path, copy.deepcopy(value), may_insert=True)
    raise rejected_patch()


def _value_of(operation: Json) -> Any:
    return operation.get("value")


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _index(token: str, length: int) -> int:
    try:
        index = int(token)
    except ValueError:
        raise rejected_patch() from None
    if index < 0:
        index += length
    return index


def _value_at(document: Any, path: list[str]) -> Any:
    for token in path:
        if isinstance(document, dict):
            document = document.get(token, _ABSENT)
        elif isinstance(document, list):
            index = _index(token, len(document))
            document = document[index] if 0 <= index < len(document) else _ABSENT
        else:
            return _ABSENT
        if document is _ABSENT:
            return _ABSENT
    return document


def _with_value(document: Any, path: list[str], value: Any, *, may_insert: bool) -> Any:
    parent = _value_at(document, path[:-1])
    token = path[-1]
    if isinstance(parent, dict):
        parent[token] = value
    elif isinstance(parent, list):
        if token == "-" and may_insert:
            parent.append(value)
            return document
        index = _index(token, len(parent) + (1 if may_insert else 0))
        if not 0 <= index <= len(parent) - (0 if may_insert else 1):
            raise rejected_patch()
        if may_insert:
            parent.insert(index, value)
        else:
            parent[index] = value
    else:
        raise rejected_patch()
    return document


def _without(document: Any, path: list[str]) -> Any:
    parent, token = _value_at(document, path[:-1]), path[-1]
    if isinstance(parent, dict) and token in parent:
        del parent[token]
    elif isinstance(parent, list) and 0 <= (index := _index(token, len(parent))) < len(parent):
        del parent[index]
    else:
        raise rejected_patch()
    return document


# --- strategic merge patch ---------------------------------------------------------------------------------------


def strategic_patched(current: Any, patch: Any, node: Node | None) -> Any:
    """Kubernetes' merge of built-in kinds: as RFC 7386, but lists with a merge key are merged element by element.

    Reads the directives `$patch: delete|replace|merge`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…` (an order
    only, so it is dropped) and `$retainKeys`.
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result = dict(current) if isinstance(current, dict) else {}
    kept = patch.get("$retainKeys")
    if isinstance(kept, list):
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key in ("$patch", "$retainKeys") or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field) or [] if item not in value]
        elif value is None:
            result.pop(key, None)
        else:
            child = node.child_of(key) if node else None
            result[key] = _merged_field(result.get(key), value, child)
    return result


def _merged_field(current: Any, value: Any, node: Node | None) -> Any:
    if isinstance(value, dict):
        return strategic_patched(current, value, node)
    if not isinstance(value, list) or node is None or node.raw.get("x-kubernetes-patch-strategy") != "merge":
        return copy.deepcopy(value)
    existing = list(current) if isinstance(current, list) else []
    merge_key = node.raw.get("x-kubernetes-patch-merge-key")
    if merge_key is None:
        return existing + [item for item in value if item not in existing]
    return _merged_list(existing, value, merge_key, node.items)


def _merged_list(existing: list[Any], patch: list[Any], merge_key: str, items: Node | None) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(i) for i in patch if not (isinstance(i, dict) and "$patch" in i)]
    result = list(existing)
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        place = next((i for i, have in enumerate(result) if have.get(merge_key) == item[merge_key]), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(strategic_patched({}, item, items))
        else:
            result[place] = strategic_patched(result[place], item, items)
    return result
