"""How objects, lists and watch lines are put into bytes, each object once for all who read it.

In: kept versions, the form asked for. Out: bytes, and `Representation` values for watches.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controller.local.apiserver.listing import Page
from controller.local.apiserver.requests import Form, Target
from controller.local.apiserver.revisions import Stored
from controller.local.apiserver.store import Store
from controller.local.apiserver.tables import partial_of, table_of
from controller.local.apiserver.watches import Representation

Json = dict[str, Any]
encoded = msgspec.json.Encoder().encode


def object_bytes(store: Store, target: Target, stored: Stored, form: Form, include: str = "Metadata") -> bytes:
    """One object in the form asked for."""
    body = store.body_in(stored, target.resource, target.version)
    match form.shape:
        case "Table":
            return encoded(_table(target, [body], store.clock(), include, body["metadata"]["resourceVersion"]))
        case "PartialObjectMetadata":
            return encoded(partial_of(body))
    return stored.raw if body is stored.body else encoded(body)


def _table(target: Target, bodies: list[Json], now: datetime, include: str, revision: str) -> Json:
    table = table_of(target.resource, target.version, bodies, now, include=include)
    table["metadata"] = {"resourceVersion": revision}
    return table


def page_bytes(store: Store, target: Target, page: Page, form: Form, include: str = "Metadata") -> bytes:
    """A list in the form asked for."""
    metadata: Json = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    resource = target.resource
    if resource.is_custom and not form.shape:
        metadata.setdefault("continue", "")
    if form.shape == "Table":
        bodies = [store.body_in(stored, resource, target.version) for stored in page.items]
        table = table_of(resource, target.version, bodies, store.clock(), include=include)
        return encoded(table | {"metadata": metadata})
    if form.shape:
        head: Json = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        items = [encoded(partial_of(store.body_in(s, resource, target.version))) for s in page.items]
    else:
        api_version = resource.api_version_of(target.version.name)
        head = {"kind": resource.list_kind, "apiVersion": api_version, "metadata": metadata}
        items = [_item_bytes(store, target, stored) for stored in page.items]
    return encoded(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"


def _item_bytes(store: Store, target: Target, stored: Stored) -> bytes:
    if target.resource.is_custom:
        return object_bytes(store, target, stored, Form())
    # items of built-in lists carry no kind and apiVersion, as a real server leaves them out
    item: bytes | None = stored.encodings.get("item")
    if item is None:
        item = encoded({k: v for k, v in stored.body.items() if k not in ("kind", "apiVersion")})
        stored.encodings["item"] = item
    return item


def representation_of(store: Store, target: Target, form: Form, include: str = "Metadata") -> Representation:
    """How a watch in that form encodes its objects."""
    version_name = target.version.name
    if form.shape == "Table":
        is_first = True

        def as_table(body: Json, _: Stored) -> bytes:
            nonlocal is_first
            revision = body["metadata"]["resourceVersion"]
            table = table_of(target.resource, target.version, [body], store.clock(), include=include, columns=is_first)
            is_first = False
            return encoded(table | {"metadata": {"resourceVersion": revision}})

        # ages change with the clock, so rows are not shared: the key is this reader's own
        return Representation(("table", id(as_table)), as_table)
    if form.shape:
        return Representation(("partial", version_name), lambda body, _: encoded(partial_of(body)))
    return Representation(
        ("full", version_name), lambda body, stored: stored.raw if body is stored.body else encoded(body)
    )


# What empty objects of built-in kinds show in a bookmark beside their metadata.
_EMPTY: dict[str, Json] = {
    "pods": {"spec": {"containers": None}, "status": {}},
    "services": {"spec": {}, "status": {"loadBalancer": {}}},
    "namespaces": {"spec": {}, "status": {}},
    "events": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
}


def bookmark_body(target: Target, form: Form, revision: int, annotations: dict[str, str] | None) -> Json:
    """The object of a BOOKMARK line."""
    metadata: Json = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    if form.shape == "Table":
        row = {"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}}
        row["object"]["metadata"] = metadata  # type: ignore[index]
        head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(revision)}}
        return head | {"columnDefinitions": [], "rows": [row]}
    if form.shape:
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    api_version = target.resource.api_version_of(target.version.name)
    body: Json = {"kind": target.resource.kind, "apiVersion": api_version, "metadata": metadata}
    if not target.resource.group:
        body |= _EMPTY.get(target.resource.plural, {})
    return body
