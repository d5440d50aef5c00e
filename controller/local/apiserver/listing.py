"""Lists: which objects, at which revision, in which pages.

In: the list parameters of a request and the kept objects. Out: `Page`. `ApiFailure` 400, 410, 422 or 504.

Rules: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.local.apiserver.failures import (
    ApiFailure,
    Cause,
    bad_request,
    expired,
    forbidden_field,
    internal,
    invalid,
    too_large_resource_version,
)
from controller.local.apiserver.resources import ApiVersion, Resource
from controller.local.apiserver.revisions import ObjectKey, Revisions, Stored
from controller.local.apiserver.selectors import Predicate, both, field_selector, label_selector

Json = dict[str, Any]
BodyOf = Callable[[Stored], Json]

_EXPIRED_TOKEN = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListParameters:
    """What a list or watch asks for."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ListParameters:
        """Parameters from a request's query. `ApiFailure` 400 for a number that is none."""
        try:
            limit = int(query.get("limit") or 0)
        except ValueError:
            raise bad_request(f"strconv.ParseInt: parsing {json.dumps(query['limit'])}: invalid syntax") from None
        return cls(
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            limit=limit,
            continue_token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            resource_version_match=query.get("resourceVersionMatch", ""),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list: `revision` is the list's resourceVersion."""

    items: list[Stored]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


def predicate_of(resource: Resource, version: ApiVersion, labels: str, fields: str) -> Predicate | None:
    """The predicate of both selectors over bodies of that version."""
    known = resource.field_paths | version.selectable
    described = "field label not supported"
    return both(label_selector(labels), field_selector(fields, known, described))


def revision_of(text: str, *, watching: bool = False) -> int:
    """A resourceVersion as a number; `ApiFailure` 400 where it is none (500 for a watch)."""
    if not text:
        return 0
    if not text.isdecimal():
        problem = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        if watching:
            raise internal(f"resourceVersion: {problem}")
        raise bad_request(f"invalid resource version: resourceVersion: {problem}")
    return int(text)


def selected(
    objects: Mapping[ObjectKey, Stored], namespace: str, after: str, selects: Predicate | None, body_of: BodyOf
) -> list[Stored]:
    """The objects of a namespace ("" is all) that are selected, by namespace and name, those behind `after` only."""
    keys = [key for key in objects if not namespace or key[0] == namespace]
    keys.sort(key=_place)
    found = []
    for key in keys:
        stored = objects[key]
        if (not after or _place(key) > after) and (selects is None or selects(body_of(stored))):
            found.append(stored)
    return found


def _place(key: ObjectKey) -> str:
    return f"{key[0]}/{key[1]}"


def page_of(
    revisions: Revisions,
    resource: Resource,
    namespace: str,
    asked: ListParameters,
    selects: Predicate | None,
    body_of: BodyOf,
) -> Page:
    """One page of a list."""
    _check_parameters(asked)
    after = ""
    revision, current = revisions.current, revisions.current
    wanted = revision_of(asked.resource_version)
    if asked.continue_token:
        revision, after = _read_token(asked.continue_token)
        if revision < 0:
            revision = current
        elif revision < revisions.shelf(resource.key).horizon:
            raise _expired_token(asked.continue_token)
    elif wanted > current:
        raise too_large_resource_version(wanted, current)
    elif asked.resource_version_match == "Exact":
        if wanted < revisions.shelf(resource.key).horizon:
            raise expired(f"The resourceVersion for the provided list is too old: {wanted}")
        revision = wanted
    objects = revisions.objects_at(resource.key, revision)
    found = selected(objects, namespace, after, selects, body_of)
    if not asked.limit or len(found) <= asked.limit:
        return Page(found, revision)
    kept = found[: asked.limit]
    metadata = kept[-1].body["metadata"]
    token = _token(revision, _place((metadata.get("namespace", ""), metadata["name"])))
    remaining = None if selects is not None else len(found) - len(kept)
    return Page(kept, revision, token, remaining)


def _check_parameters(asked: ListParameters) -> None:
    match = asked.resource_version_match
    causes: list[Cause] = []
    path = "resourceVersionMatch"
    if match and match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        causes.append(Cause(path, "FieldValueNotSupported", text))
    elif match and not asked.resource_version:
        causes.append(forbidden_field(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    elif match and asked.continue_token:
        causes.append(forbidden_field(path, "resourceVersionMatch is forbidden when continue is provided"))
    elif match == "Exact" and asked.resource_version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(forbidden_field(path, text))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
    if asked.continue_token and asked.resource_version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def _token(revision: int, place: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{place}\0"}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(read["rv"]), str(read["start"]).removesuffix("\0")
    except (ValueError, KeyError, TypeError):
        raise bad_request("invalid continue token: continue key is not valid: illegal base64 data") from None


def _expired_token(token: str) -> ApiFailure:
    failure = expired(_EXPIRED_TOKEN)
    _, place = _read_token(token)
    failure.list_metadata = {"continue": _token(-1, place)}
    return failure
