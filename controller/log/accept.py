"""A batch → the events that it adds: what the log has already is dropped, the rest is numbered (DESIGN §3).

In: new events, the heads and keys that the log has of them, the head of the log. Out: numbered events.
Rules: an object's version counts if its resourceVersion is above its head's, a disappearance once per uid; op is no
part of identity. Of a resource whose cluster was set back any other resourceVersion counts until SYNCED. A fact
with a key counts once. Never: I/O, a clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.log.facts import KIND_OF_RESOURCE, Stored, stored_of
from controller.log.records import NewEvent
from controller.model.events import DELETIONS, Event, GapOpened, GapReason, Synced
from controller.model.instants import Instant

UID_CHARACTERS = 256
"""A longer owner's uid is nobody's: whoever makes a pod writes its owner references, and no API server checks their
length. Postgres has no index entries over 2.7 KB, and one pod must not keep everything after it out of the log."""


class LogHead(NamedTuple):
    """The row of log_head, as far as a writer compares and changes it."""

    position: int
    epoch: int
    incarnation: int
    commit_hash: bytes
    observed_at: Instant
    restoring: frozenset[str]


class Known(NamedTuple):
    """A head: the newest version of an object in the log, and whether it is gone."""

    resource_version: int
    is_deleted: bool


class Accepted(NamedTuple):
    """One event with what its row needs beside it."""

    event: Event
    stored: Stored
    key: str | None


class Batch(NamedTuple):
    """What a commit adds, and the log's head after it."""

    accepted: list[Accepted]
    heads: dict[str, Accepted]
    """uid → the event that is its head now."""
    head: LogHead

    @property
    def events(self) -> list[Event]:
        return [each.event for each in self.accepted]


def accepted_of(
    head: LogHead, news: Iterable[NewEvent], known: Mapping[str, Known], keys: Iterable[str], nonce: bytes
) -> Batch:
    """The events of `news` that are new, in order, numbered from `head`. `nonce` makes the commit's hash its own."""
    versions = dict(known)
    seen = set(keys)
    restoring = set(head.restoring)
    position, observed_at = head.position, head.observed_at
    accepted: list[Accepted] = []
    heads: dict[str, Accepted] = {}
    digest = hashlib.blake2b(head.commit_hash + nonce, digest_size=16)
    for new in news:
        if new.key is not None:
            if new.key in seen:
                continue
            seen.add(new.key)
        stored = stored_of(new)
        is_object = new.resource_version > 0
        if is_object and not _is_news(new, versions.get(new.uid), stored.kind in _kinds(restoring)):
            continue
        position += 1
        observed_at = max(observed_at, new.observed_at)
        row = Accepted(_event_of(new, position, observed_at, stored.spec_hash), stored, new.key)
        accepted.append(row)
        digest.update(f"{position} {new.op} {new.uid} {new.resource_version} {new.key}\n".encode(errors="replace"))
        if is_object:
            versions[new.uid] = Known(new.resource_version, new.op in DELETIONS)
            heads[new.uid] = row
        elif isinstance(new.fact, GapOpened) and new.fact.reason == GapReason.CLUSTER_RESTORED:
            restoring.update(new.fact.resources)
        elif isinstance(new.fact, Synced):
            restoring.clear()
    after = head._replace(
        position=position, commit_hash=digest.digest(), observed_at=observed_at, restoring=frozenset(restoring)
    )
    return Batch(accepted, heads, after)


def _kinds(resources: set[str]) -> set[str]:
    return {KIND_OF_RESOURCE.get(each, each) for each in resources} if resources else resources


def _is_news(new: NewEvent, known: Known | None, is_restoring: bool) -> bool:
    if known is None:
        return True
    is_deletion = new.op in DELETIONS
    if is_restoring:
        return known != Known(new.resource_version, is_deletion) and not (known.is_deleted and is_deletion)
    if known.is_deleted:
        return False
    return is_deletion or new.resource_version > known.resource_version


def _event_of(new: NewEvent, position: int, observed_at: Instant, spec_hash: str | None) -> Event:
    return Event(
        position=position,
        observed_at=observed_at,
        op=new.op,
        fact=new.fact,
        namespace=new.namespace,
        name=new.name,
        uid=new.uid,
        resource_version=new.resource_version,
        job_uid=new.job_uid if new.job_uid is None or len(new.job_uid) <= UID_CHARACTERS else None,
        job_name=new.job_name,
        spec_hash=spec_hash,
    )
