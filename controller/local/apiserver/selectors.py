"""Which objects a list, a watch or a deletecollection is about: label and field selectors.

In: the query parameters' text. Out: predicates over decoded objects; `ApiFailure` 400 for text that is no selector.

Grammar: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from controller.local.apiserver.failures import bad_request

Json = dict[str, Any]
Predicate = Callable[[Json], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s!=(),]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=(),<>]+)\s*(?P<op>==|!=|=)\s*(?P<value>[^\s!=(),]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<not>!?)\s*(?P<key>[^\s!=(),]+)\s*$")
_ORDER = re.compile(r"^\s*(?P<key>[^\s!=(),<>]+)\s*(?P<op>[<>])\s*(?P<value>-?\d+)\s*$")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _terms(text: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            terms.append(text[start:index])
            start = index + 1
    terms.append(text[start:])
    return [term for term in terms if term.strip()]


def label_selector(text: str) -> Predicate | None:
    """The predicate of a label selector's text, None for one that selects everything."""
    tests = [_label_test(term) for term in _terms(text)]
    if not tests:
        return None

    def selects(obj: Json) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return selects


def _label_test(term: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(term):
        key, values = found["key"], frozenset(v.strip() for v in found["values"].split(","))
        _checked_key(key)
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(term):
        key, value = _checked_key(found["key"]), found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _ORDER.match(term):
        key, bound, greater = _checked_key(found["key"]), int(found["value"]), found["op"] == ">"
        return lambda labels: _ordered(labels.get(key), bound, greater)
    if found := _EXISTS.match(term):
        key, absent = _checked_key(found["key"]), bool(found["not"])
        return lambda labels: (key not in labels) == absent
    raise bad_request(f"unable to parse requirement: found '{term.strip()}', expected: identifier or '!'")


def _ordered(value: str | None, bound: int, greater: bool) -> bool:
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > bound if greater else int(value) < bound


def _checked_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": name part must be valid')
    return key


def field_selector(text: str, known: dict[str, tuple[str, ...]], described: str) -> Predicate | None:
    """The predicate of a field selector's text.

    `known` maps the fields a resource may be selected by to their path in the object; `described` is how the server
    names the resource in its refusal (`fields` of an unknown name answer 400).
    """
    tests: list[tuple[tuple[str, ...], str, bool]] = []
    for term in _terms(text):
        found = re.match(r"^\s*(?P<key>[^=!]+?)\s*(?P<op>==|!=|=)(?P<value>.*)$", term)
        if not found:
            raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
        path = known.get(found["key"])
        if path is None:
            raise bad_request(f"{described}: {found['key']}")
        tests.append((path, found["value"].strip(), found["op"] != "!="))
    if not tests:
        return None

    def selects(obj: Json) -> bool:
        return all((_text_at(obj, path) == value) == equal for path, value, equal in tests)

    return selects


def _text_at(obj: Json, path: tuple[str, ...]) -> str:
    value: Any = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def both(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    """The predicate that asks for both; None is everything."""
    if first is None or second is None:
        return first or second
    return lambda obj: first(obj) and second(obj)
