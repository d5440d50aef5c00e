"""Structural schemas: what a body may hold, what it gets when it says nothing, and what is dropped.

In: an OpenAPI v3 structural schema (of a CRD's served version, or made from a built-in type's fields).
Out: `Node`, the schema compiled once, and three walks over a body: `prune`, `apply_defaults`, `violations`.
Never: a reading of metadata (metadata.py does that) or a CEL rule (rules.py).

Rules: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]
MISSING: Any = object()


class Node:
    """One place of a compiled schema. `raw` is the schema as written; children are compiled on first use."""

    __slots__ = (
        "_additional", "_items", "_parts", "_properties", "default", "embedded", "enum", "has_default", "int_or_string",
        "is_builtin", "nullable", "pattern", "preserve", "raw", "required", "resolve", "root", "types",
    )  # fmt: skip

    def __init__(
        self, raw: Json, *, root: bool = False, resolve: Callable[[str], Node] | None = None, is_builtin: bool = False
    ) -> None:
        self.raw = raw
        self.root = root
        self.resolve = resolve
        self.is_builtin = is_builtin
        self.types: str = raw.get("type", "")
        self.preserve: bool = bool(raw.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded: bool = bool(raw.get("x-kubernetes-embedded-resource"))
        self.int_or_string: bool = bool(raw.get("x-kubernetes-int-or-string"))
        self.nullable: bool = bool(raw.get("nullable"))
        self.has_default: bool = "default" in raw
        self.default: Any = raw.get("default")
        self.enum: list[Any] | None = raw.get("enum")
        self.pattern: re.Pattern[str] | None = re.compile(raw["pattern"]) if raw.get("pattern") else None
        self.required: list[str] = raw.get("required") or []
        self._properties: dict[str, Node] | None = None
        self._additional: Node | bool | None = None
        self._items: Node | bool | None = None
        self._parts: dict[str, list[Node]] = {}

    def _child(self, raw: Any) -> Node:
        reference = raw.get("$ref")
        if reference and self.resolve:
            return self.resolve(reference)
        return Node(raw, resolve=self.resolve, is_builtin=self.is_builtin)

    @property
    def properties(self) -> dict[str, Node]:
        """The named fields of an object."""
        if self._properties is None:
            self._properties = {k: self._child(v) for k, v in (self.raw.get("properties") or {}).items()}
        return self._properties

    @property
    def additional(self) -> Node | None:
        """The schema of an object's other values, if it has one."""
        if self._additional is None:
            raw = self.raw.get("additionalProperties")
            self._additional = self._child(raw) if isinstance(raw, dict) else False
        return self._additional if isinstance(self._additional, Node) else None

    @property
    def items(self) -> Node | None:
        """The schema of an array's elements, if it has one."""
        if self._items is None:
            raw = self.raw.get("items")
            self._items = self._child(raw) if isinstance(raw, dict) else False
        return self._items if isinstance(self._items, Node) else None

    def parts(self, word: str) -> list[Node]:
        """The schemas under `allOf`, `anyOf`, `oneOf` or `not`."""
        if word not in self._parts:
            raw = self.raw.get(word) or []
            self._parts[word] = [self._child(part) for part in (raw if isinstance(raw, list) else [raw])]
        return self._parts[word]

    def child_of(self, key: str) -> Node | None:
        """The schema of the field `key` of an object, None where the schema says nothing of it."""
        return self.properties.get(key) or self.additional


def open_object() -> Node:
    """A schema that keeps whatever it is given."""
    return Node({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, root=True)


# --- pruning -----------------------------------------------------------------------------------------------------

_RESOURCE_FIELDS = ("apiVersion", "kind", "metadata")


def prune(value: Any, node: Node, path: str = "", unknown: list[str] | None = None) -> None:
    """Drops from `value`, in place, what the schema does not know; the paths dropped are added to `unknown`."""
    _prune(value, node, path, unknown, is_resource=node.root or node.embedded)


def _prune(value: Any, node: Node, path: str, unknown: list[str] | None, is_resource: bool) -> None:
    if isinstance(value, dict):
        properties, additional, preserve = node.properties, node.additional, node.preserve
        for key in list(value):
            if is_resource and key in _RESOURCE_FIELDS:
                continue
            child = properties.get(key) or additional
            if child is None:
                if not preserve and not (node.is_builtin and not node.raw.get("properties")):
                    del value[key]
                    if unknown is not None:
                        unknown.append(f"{path}.{key}" if path else key)
                continue
            inner = value[key]
            if isinstance(inner, (dict, list)):
                _prune(inner, child, f"{path}.{key}" if path else key, unknown, child.embedded)
    elif isinstance(value, list):
        items = node.items
        if items is None:
            return
        for index, inner in enumerate(value):
            if isinstance(inner, (dict, list)):
                _prune(inner, items, f"{path}[{index}]", unknown, items.embedded)


# --- nulls and defaults ------------------------------------------------------------------------------------------


# Texts that a built-in kind leaves out when they are empty, of those that a client may well send empty.
_OMITTED_WHEN_EMPTY = frozenset({
    "hostIP", "hostname", "message", "nodeName", "nominatedNodeName", "podIP", "reason", "serviceAccount",
    "serviceAccountName", "subdomain", "workingDir",
})  # fmt: skip


def _is_omitted(key: str, value: Any, node: Node) -> bool:
    if value == "":
        return key in _OMITTED_WHEN_EMPTY
    return not value and (node.types == "array" or (isinstance(value, dict) and node.additional is not None))


def drop_nulls(value: Any, node: Node) -> None:
    """Drops nulls that the schema does not allow and gives no default for, in place, as the server does in silence."""
    if isinstance(value, dict):
        for key in list(value):
            child = node.child_of(key)
            if child is None:
                continue
            inner = value[key]
            is_null = inner is None and not child.nullable and (node.is_builtin or not child.has_default)
            if is_null or (node.is_builtin and _is_omitted(key, inner, child)):
                del value[key]
            elif isinstance(inner, (dict, list)):
                drop_nulls(inner, child)
    elif isinstance(value, list) and node.items is not None:
        for inner in value:
            if isinstance(inner, (dict, list)):
                drop_nulls(inner, node.items)


def apply_defaults(value: Any, node: Node) -> None:
    """Fills in the schema's defaults, in place: where a field is missing, or null and may not be."""
    if isinstance(value, dict):
        for key, child in node.properties.items():
            if not child.has_default or child.default is None:
                continue
            present = value.get(key, MISSING)
            if present is MISSING or (present is None and not child.nullable):
                value[key] = copy.deepcopy(child.default)
        for key, inner in value.items():
            grandchild = node.child_of(key)
            if grandchild is None:
                continue
            if inner is None and not grandchild.nullable and grandchild.has_default:
                value[key] = copy.deepcopy(grandchild.default)
            elif isinstance(inner, (dict, list)):
                apply_defaults(inner, grandchild)
    elif isinstance(value, list) and node.items is not None:
        for index, inner in enumerate(value):
            if inner is None and not node.items.nullable and node.items.has_default:
                value[index] = copy.deepcopy(node.items.default)
            elif isinstance(inner, (dict, list)):
                apply_defaults(inner, node.items)


def walk(value: Any, node: Node, path: str = "") -> Iterator[tuple[str, Any, Node]]:
    """Each place of `value` that the schema describes, parents first: (path, value, schema)."""
    yield path, value, node
    if isinstance(value, dict):
        for key, inner in value.items():
            child = node.child_of(key)
            if child is not None:
                inner_path = f"{path}.{key}" if key in node.properties else f"{path}[{key}]"
                yield from walk(inner, child, inner_path.removeprefix("."))
    elif isinstance(value, list) and node.items is not None:
        for index, inner in enumerate(value):
            yield from walk(inner, node.items, f"{path}[{index}]")


def type_name_of(kind: type) -> str:
    """The JSON type's name of a decoded value's Python type."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(kind, "null")
