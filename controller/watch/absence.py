"""API server → observations: proof that an object is gone, or the object when it is not (DESIGN §3).

In: objects by namespace, name and uid. Out: those that still exist. Consistent reads only.
Never: an absence concluded from silence, from a proxy's 404, or from a list with a selector.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import msgspec

from controller.errors import Temporary
from controller.kube.client import KubeClient
from controller.kube.errors import NotFound
from controller.watch.heads import Head
from controller.watch.lines import Page, RawObject, object_of, page_of
from controller.watch.resources import Resource

LIST_FROM = 4
"""From so many objects of one namespace on, one list of names and uids is cheaper than a GET for each."""

PAGE_LIMIT = 500

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class NoProof(Temporary):
    """What was answered proves neither presence nor absence; it is asked again later."""


class Listed(NamedTuple):
    """Names only: uid → resourceVersion, and the list's own."""

    versions: dict[str, int]
    resource_version: int


class _Version(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str


_VERSION = msgspec.json.Decoder(_Version)


class _Identity(msgspec.Struct):
    uid: str = ""
    name: str = ""


_IDENTITY = msgspec.json.Decoder(_Identity)


def identity_of(raw: RawObject) -> str:
    """An object's uid. Raises NoProof when it has none."""
    try:
        uid = _IDENTITY.decode(raw["metadata"]).uid
    except (msgspec.DecodeError, KeyError) as error:
        raise NoProof(f"an object without metadata: {error}") from error
    if not uid:
        raise NoProof("an object without uid")
    return uid


async def pages(
    client: KubeClient,
    resource: Resource,
    namespace: str | None,
    *,
    label_selector: str | None,
    accept: str | None = None,
    page_limit: int = PAGE_LIMIT,
) -> AsyncIterator[Page]:
    """The pages of one consistent list (no resourceVersion: the newest there is). Raises Gone when it took too long."""
    go_on = ""
    while True:
        answer = await client.request(
            "GET",
            resource.path(namespace),
            query={
                "labelSelector": label_selector,
                "fieldSelector": resource.field_selector,
                "limit": page_limit,
                "continue": go_on or None,
            },
            accept=accept,
            timeout_seconds=60.0,
        )
        page = page_of(answer.body)
        yield page
        go_on = page.metadata.go_on
        if not go_on:
            return


async def listed(client: KubeClient, resource: Resource, namespace: str | None, label_selector: str | None) -> Listed:
    """A consistent list of uids and resourceVersions. Raises ApiError, BadLine; NoProof where an object has none."""
    versions: dict[str, int] = {}
    at = 0
    async for page in pages(client, resource, namespace, label_selector=label_selector, accept=METADATA_ONLY):
        at = at or int(page.metadata.resource_version)
        for raw in page.items or ():
            try:
                version = _VERSION.decode(raw["metadata"])
                versions[version.uid] = int(version.resource_version)
            except (msgspec.DecodeError, KeyError, ValueError) as error:
                raise NoProof(f"a list of {resource.name} with an object without uid or version") from error
    return Listed(versions, at)


async def present(
    client: KubeClient, resource: Resource, wanted: Iterable[Head], not_below: int
) -> dict[str, RawObject]:
    """uid → the object as it is now, of those that still exist; of the others it is proven that they do not.

    `not_below` is the highest resourceVersion seen: an older answer proves nothing (NoProof). Raises ApiError.
    """
    groups: dict[str, list[Head]] = defaultdict(list)
    for head in wanted:
        groups[head.namespace].append(head)
    found: dict[str, RawObject] = {}
    for namespace, group in groups.items():
        asked = group
        if len(group) >= LIST_FROM:
            uids = await _uids(client, resource, namespace, not_below)
            asked = [head for head in group if head.uid in uids]
        for head in asked:
            raw = await _get(client, resource, head)
            if raw is not None:
                found[head.uid] = raw
    return found


async def _uids(client: KubeClient, resource: Resource, namespace: str, not_below: int) -> set[str]:
    uids: set[str] = set()
    async for page in pages(client, resource, namespace, label_selector=None, accept=METADATA_ONLY):
        if int(page.metadata.resource_version) < not_below:
            raise NoProof(f"a list of {resource.name} at {page.metadata.resource_version}, below {not_below}")
        uids.update(identity_of(raw) for raw in page.items or ())
    return uids


async def _get(client: KubeClient, resource: Resource, head: Head) -> RawObject | None:
    try:
        answer = await client.request("GET", resource.path(head.namespace, head.name))
    except NotFound as error:
        if error.status.reason != "NotFound" or (error.status.details or {}).get("name") != head.name:
            raise NoProof(f"a 404 that does not name {head.namespace}/{head.name}: {error}") from error
        return None
    raw = object_of(answer.body)
    return raw if identity_of(raw) == head.uid else None
