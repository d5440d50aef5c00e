"""Sets of fields: which paths of a body a manager can own, in the form of FieldsV1.

In: bodies and schemas; FieldsV1 trees. Out: paths (`f:` a field, `k:` an element of a keyed list, `v:` of a set).

https://github.com/kubernetes-sigs/structured-merge-diff
"""

from __future__ import annotations

import json
from typing import Any

from controller.local.apiserver.builtin import node_of
from controller.local.apiserver.resources import ApiVersion
from controller.local.apiserver.schema import Node

Json = dict[str, Any]
Path = tuple[str, ...]
Leaves = dict[Path, Any]

_UNTRACKED_METADATA = frozenset({
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds",
})  # fmt: skip
_KEY_DEFAULTS = {"protocol": "TCP"}


def element_of(item: Any, node: Node) -> str:
    """How a path names an element of a keyed list or a set."""
    keys = node.raw.get("x-kubernetes-list-map-keys")
    if keys and isinstance(item, dict):
        chosen = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
        return "k:" + json.dumps(
            {k: v for k, v in chosen.items() if v is not None}, sort_keys=True, separators=(",", ":")
        )
    return "v:" + json.dumps(item, sort_keys=True, separators=(",", ":"))


def child_of(node: Node | None, key: str) -> Node | None:
    """The schema of a field, metadata included."""
    if node is None:
        return None
    if key == "metadata" and (node.root or node.embedded):
        return node_of("V1ObjectMeta")
    return node.child_of(key)


def is_keyed(node: Node | None) -> bool:
    """Whether a list is owned element by element."""
    return node is not None and node.raw.get("x-kubernetes-list-type") in ("map", "set")


# What every built-in object has, if empty, so that no writer is the one who made it.
_ALWAYS_THERE = (("f:spec",), ("f:status",), ("f:source",), ("f:spec", "f:containers"))


def _collect(value: Any, node: Node | None, path: Path, leaves: Leaves) -> None:
    atomic = node is not None and node.raw.get("x-kubernetes-map-type") == "atomic"
    if isinstance(value, dict) and value and not atomic:
        for key, inner in value.items():
            _collect(inner, child_of(node, key), (*path, f"f:{key}"), leaves)
        _own(path, node, leaves)
    elif isinstance(value, list) and value and node is not None and is_keyed(node):
        _own(path, node, leaves)
        for item in value:
            here = (*path, element_of(item, node))
            if isinstance(item, dict):
                _collect(item, node.items, here, leaves)
            else:
                leaves[here] = item
    else:
        leaves[path] = value


def _own(path: Path, node: Node | None, leaves: Leaves) -> None:
    is_always_there = node is not None and node.is_builtin and path in _ALWAYS_THERE
    if path != ("f:metadata",) and not is_always_there:
        leaves[(*path, ".")] = None


def leaves_of(body: Json, version: ApiVersion) -> Leaves:
    """Every owned path of a body with its value; what only the server writes is left out."""
    leaves: Leaves = {}
    for key, value in body.items():
        if key in ("apiVersion", "kind") or value == {}:
            continue
        if key == "metadata":
            value = {k: v for k, v in value.items() if k not in _UNTRACKED_METADATA}
            if not value:
                continue
        _collect(value, child_of(version.schema, key), (f"f:{key}",), leaves)
    return leaves


def nested(paths: set[Path]) -> Json:
    """Paths as a FieldsV1 tree."""
    tree: Json = {}
    for path in sorted(paths):
        place = tree
        for part in path:
            place = place.setdefault(part, {})
    return tree


def paths_of(tree: Json) -> set[Path]:
    """The paths of a FieldsV1 tree."""
    found: set[Path] = set()

    def visit(place: Json, path: Path) -> None:
        if not place and path:
            found.add(path)
        for part, inner in place.items():
            visit(inner, (*path, part))

    visit(tree, ())
    return found
