"""Which rules of its schema a body breaks, in the words of the API server.

In: a pruned and defaulted body and its compiled schema.
Out: causes with field paths (`failures.Cause`), empty when the body is fine.

The wording is that of k8s.io/kube-openapi/pkg/validation as apiextensions-apiserver 1.36 turns it into field errors.
"""

from __future__ import annotations

import json
import re
from typing import Any

from controller.local.apiserver.failures import Cause, invalid_value, required
from controller.local.apiserver.schema import MISSING, Node, type_name_of


def shown(value: Any) -> str:
    """A value as field errors print it: JSON, strings in quotes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def violations(value: Any, node: Node, path: str = "", old: Any = MISSING) -> list[Cause]:
    """All the rules that `value` breaks, in the order in which the walk meets them.

    What equals its counterpart in `old` is not checked: an update need not mend what it leaves alone (ratcheting).
    """
    found: list[Cause] = []
    _check(value, node, path, found, old)
    return found


def _type_fits(value: Any, node: Node) -> bool:
    if node.int_or_string:
        is_whole = isinstance(value, (int, str)) or (isinstance(value, float) and value.is_integer())
        return is_whole and not isinstance(value, bool)
    match node.types:
        case "":
            return True
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            is_integer = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return is_integer and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
    return True


def _wrong_type(value: Any, node: Node, path: str) -> Cause:
    got = type_name_of(type(value))
    wanted = "integer,string" if node.int_or_string else node.types
    message = f'Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"'
    return Cause(path, "FieldValueTypeInvalid", message)


def _check(value: Any, node: Node, path: str, found: list[Cause], old: Any = MISSING) -> None:
    if (value is None and node.nullable) or (old is not MISSING and value == old):
        return
    if not _type_fits(value, node):
        found.append(_wrong_type(value, node, path))
        return
    if node.enum is not None and value not in node.enum:
        options = ", ".join(shown(o if isinstance(o, str) else shown(o)) for o in node.enum)
        text = f"Unsupported value: {shown(value)}: supported values: {options}"
        found.append(Cause(path, "FieldValueNotSupported", text))
    if isinstance(value, str):
        _check_string(value, node, path, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, node, path, found)
    elif isinstance(value, list):
        _check_list(value, node, path, found, old)
    elif isinstance(value, dict):
        _check_object(value, node, path, found, old)
    _check_junctors(value, node, path, found)


def _check_string(value: str, node: Node, path: str, found: list[Cause]) -> None:
    raw = node.raw
    longest, shortest = raw.get("maxLength"), raw.get("minLength")
    if longest is not None and len(value) > longest:
        found.append(Cause(path, "FieldValueTooLong", f"Too long: may not be more than {longest} bytes"))
    if shortest is not None and len(value) < shortest:
        text = f"{path} in body should be at least {shortest} chars long"
        found.append(invalid_value(path, shown(value), text))
    if node.pattern is not None and not node.pattern.search(value):
        found.append(invalid_value(path, shown(value), f"{path} in body should match '{node.pattern.pattern}'"))
    check = _FORMATS.get(raw.get("format", ""))
    if check is not None and not check.fullmatch(value):
        text = f"{path} in body must be of type {raw['format']}: {shown(value)}"
        found.append(invalid_value(path, shown(value), text))


_FORMATS = {
    "date-time": re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})"),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
}
_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _check_number(value: int | float, node: Node, path: str, found: list[Cause]) -> None:
    raw = node.raw
    low, high = raw.get("minimum"), raw.get("maximum")
    if low is not None:
        exclusive = bool(raw.get("exclusiveMinimum"))
        if value < low or (exclusive and value == low):
            words = "greater than" if exclusive else "greater than or equal to"
            found.append(invalid_value(path, shown(value), f"{path} in body should be {words} {_plain(low)}"))
    if high is not None:
        exclusive = bool(raw.get("exclusiveMaximum"))
        if value > high or (exclusive and value == high):
            words = "less than" if exclusive else "less than or equal to"
            found.append(invalid_value(path, shown(value), f"{path} in body should be {words} {_plain(high)}"))
    step = raw.get("multipleOf")
    if step and value % step:
        found.append(invalid_value(path, shown(value), f"{path} in body should be a multiple of {_plain(step)}"))
    bounds = _BOUNDS.get(raw.get("format", ""))
    if bounds and not bounds[0] <= value <= bounds[1]:
        text = f'Checked value must be of type integer with format {raw["format"]} in "{path}"'
        found.append(invalid_value(path, shown(value), text))


def _plain(number: int | float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _check_list(value: list[Any], node: Node, path: str, found: list[Cause], old: Any) -> None:
    most, fewest = node.raw.get("maxItems"), node.raw.get("minItems")
    if most is not None and len(value) > most:
        text = f"Too many: {len(value)}: must have at most {most} items"
        found.append(Cause(path, "FieldValueTooMany", text))
    if fewest is not None and len(value) < fewest:
        text = f"{path} in body should have at least {fewest} items"
        found.append(invalid_value(path, str(len(value)), text))
    if node.items is not None:
        for index, inner in enumerate(value):
            _check(inner, node.items, f"{path}[{index}]", found, _same_element(inner, old, node))
    _check_keyed_list(value, node, path, found)


def _same_element(element: Any, old: Any, node: Node) -> Any:
    keys = node.raw.get("x-kubernetes-list-map-keys") or []
    if not isinstance(old, list) or not keys or not isinstance(element, dict):
        return MISSING
    identity = [element.get(key) for key in keys]
    return next((e for e in old if isinstance(e, dict) and [e.get(key) for key in keys] == identity), MISSING)


def _check_keyed_list(value: list[Any], node: Node, path: str, found: list[Cause]) -> None:
    kind = node.raw.get("x-kubernetes-list-type")
    # a built-in object's own checks (pods.py) say it in the words of its kind
    if kind not in ("map", "set") or node.is_builtin:
        return
    keys = node.raw.get("x-kubernetes-list-map-keys") or []
    seen: set[str] = set()
    for index, inner in enumerate(value):
        if kind == "map" and isinstance(inner, dict):
            identity: Any = {key: inner[key] for key in keys if key in inner}
        else:
            identity = inner
        if (text := shown(identity)) in seen:
            found.append(Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {text}"))
        seen.add(text)


def _check_object(value: dict[str, Any], node: Node, path: str, found: list[Cause], old: Any) -> None:
    for key in node.required:
        if key not in value:
            found.append(required(f"{path}.{key}" if path else key))
    most, fewest = node.raw.get("maxProperties"), node.raw.get("minProperties")
    if most is not None and len(value) > most:
        text = f"Too many: {len(value)}: must have at most {most} items"
        found.append(Cause(path, "FieldValueTooMany", text))
    if fewest is not None and len(value) < fewest:
        text = f"{path} in body should have at least {fewest} properties"
        found.append(invalid_value(path, str(len(value)), text))
    for key, inner in value.items():
        if node.root and key in ("apiVersion", "kind", "metadata"):
            continue
        child = node.child_of(key)
        if child is not None:
            before = old.get(key, MISSING) if isinstance(old, dict) else MISSING
            _check(inner, child, f"{path}.{key}" if path else key, found, before)


def _check_junctors(value: Any, node: Node, path: str, found: list[Cause]) -> None:
    if node.int_or_string:
        return
    for part in node.parts("allOf"):
        _check(value, part, path, found)
    if (choices := node.parts("anyOf")) and not any(not violations(value, part, path) for part in choices):
        text = f"{path} in body must validate at least one schema (anyOf)"
        found.append(invalid_value(path, shown(value), text))
        found.extend(violations(value, choices[0], path))
    if choices := node.parts("oneOf"):
        fits = sum(not violations(value, part, path) for part in choices)
        if fits != 1:
            tail = "Found none valid" if fits == 0 else f"Found {fits} valid alternatives"
            text = f"{path} in body must validate one and only one schema (oneOf). {tail}"
            found.append(invalid_value(path, shown(value), text))
    for part in node.parts("not"):
        if not violations(value, part, path):
            found.append(invalid_value(path, shown(value), f"{path} in body must not validate the schema (not)"))
