"""Watches: the changes of one resource to one reader, as the lines of a watch response.

In: changes from `Revisions`, the reader's selectors and representation. Out: encoded lines, each built once however
many readers ask for the same one.
Never: HTTP; the handler writes what `lines()` yields.

Rules: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.local.apiserver.failures import ApiFailure, expired
from controller.local.apiserver.resources import ApiVersion, Resource
from controller.local.apiserver.revisions import Change, Stored
from controller.local.apiserver.selectors import Predicate
from controller.local.apiserver.store import Store

Json = dict[str, Any]
_encode = msgspec.json.Encoder().encode
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# A reader that is this many changes behind is cut off, as the API server does; it resumes or relists.
BACKLOG_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Representation:
    """How a reader wants objects: `key` tells encodings apart, `encode` makes the bytes of a body."""

    key: Any
    encode: Callable[[Json, Stored], bytes]


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a watch asks for; `since` None is "the state now, then what changes"."""

    resource: Resource
    version: ApiVersion
    namespace: str
    selects: Predicate | None
    since: int | None
    representation: Representation
    wants_bookmarks: bool = False
    sends_initial_events: bool | None = None
    timeout_seconds: float | None = None
    # Set where the watch can only say why it cannot be served.
    failure: ApiFailure | None = None
    bookmark_interval_seconds: float = 5.0
    bookmark: Callable[[int, dict[str, str] | None], Json] = field(default=lambda _r, _a: {})


def line_of(kind: str, payload: bytes) -> bytes:
    """One line of a watch response."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), payload)


def failure_line(failure: ApiFailure) -> bytes:
    """The ERROR line that ends a watch."""
    return line_of("ERROR", _encode(failure.status()))


class Watch:
    """One reader. Changes queue up here from the moment it is made; `lines()` yields them."""

    def __init__(self, store: Store, request: WatchRequest) -> None:
        self._store = store
        self._request = request
        self._shelf = store.revisions.shelf(request.resource.key)
        self._queue: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._is_cut_off = False
        self._is_stopped = False
        self._started_at = store.revisions.current
        self._failure = request.failure or self._expiry()
        self._first: list[bytes] = [] if self._failure else self._initial_lines()
        self._shelf.listeners.append(self._hear)

    def _expiry(self) -> ApiFailure | None:
        since = self._request.since
        horizon = self._shelf.horizon
        if since is not None and since < horizon:
            return expired(f"too old resource version: {since} ({horizon})")
        return None

    def _initial_lines(self) -> list[bytes]:
        request = self._request
        revisions = self._store.revisions
        if request.sends_initial_events is not True and request.since is not None:
            changes = revisions.changes_since(request.resource.key, request.since)
            return [line for change in changes if (line := self._line(change))]
        if request.sends_initial_events is False:
            return []
        lines = []
        for key in sorted(self._shelf.objects):
            stored = self._shelf.objects[key]
            if self._is_ours(key[0]) and self._selects(stored):
                lines.append(line_of("ADDED", self._payload(stored)))
        if request.sends_initial_events and request.wants_bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        return lines

    def _hear(self, change: Change) -> None:
        if len(self._queue) >= BACKLOG_LIMIT:
            self._is_cut_off = True
        elif self._is_ours(change.key[0]):
            self._queue.append(change)
        else:
            return
        self._wake.set()

    def _is_ours(self, namespace: str) -> bool:
        return not self._request.namespace or namespace == self._request.namespace

    def _selects(self, stored: Stored) -> bool:
        selects = self._request.selects
        return selects is None or selects(self._body(stored))

    def _body(self, stored: Stored) -> Json:
        return self._store.body_in(stored, self._request.resource, self._request.version)

    def _payload(self, stored: Stored) -> bytes:
        key = (self._request.representation.key, id(self._request.resource))
        payload: bytes | None = stored.encodings.get(key)
        if payload is None:
            payload = self._request.representation.encode(self._body(stored), stored)
            stored.encodings[key] = payload
        return payload

    def _line(self, change: Change) -> bytes | None:
        if not self._is_ours(change.key[0]):
            return None
        kind, stored = change.kind, change.now
        if self._request.selects is not None:
            was = change.before is not None and self._selects(change.before)
            is_now = change.kind != "DELETED" and self._selects(change.now)
            if not was and not is_now:
                return None
            if was and is_now:
                kind = "MODIFIED"
            elif is_now:
                kind = "ADDED"
            else:
                kind, stored = "DELETED", self._left(change)
        key = (kind, self._request.representation.key, id(self._request.resource), stored is change.now)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = line_of(kind, self._payload(stored))
        return line

    def _left(self, change: Change) -> Stored:
        # An object that leaves the selection is shown as it last was inside it, with the revision of the change.
        if change.kind == "DELETED" or change.before is None:
            return change.now
        left: Stored | None = change.now.encodings.get("left")
        if left is None:
            metadata = change.before.body["metadata"] | {"resourceVersion": str(change.revision)}
            left = Stored(change.before.body | {"metadata": metadata}, change.revision)
            change.now.encodings["left"] = left
        return left

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        return line_of("BOOKMARK", _encode(self._request.bookmark(self._store.revisions.current, annotations)))

    async def lines(self) -> AsyncIterator[bytes]:
        """The watch's lines, several changes at once where they have queued up; ends by timeout, failure, `stop()`."""
        loop = asyncio.get_running_loop()
        request = self._request
        ends_at = None if request.timeout_seconds is None else loop.time() + request.timeout_seconds
        if self._failure:
            yield failure_line(self._failure)
            return
        if self._first:
            yield b"".join(self._first)
            self._first = []
        bookmark_at = loop.time() + request.bookmark_interval_seconds
        while not self._is_stopped:
            self._wake.clear()
            batch = [line for _ in range(len(self._queue)) if (line := self._line(self._queue.popleft()))]
            if batch:
                yield b"".join(batch)
                continue
            if self._is_cut_off and not self._queue:
                return
            now = loop.time()
            if ends_at is not None and now >= ends_at:
                if request.wants_bookmarks:
                    yield self._bookmark()
                return
            if request.wants_bookmarks and now >= bookmark_at:
                bookmark_at = now + request.bookmark_interval_seconds
                yield self._bookmark()
                continue
            deadlines = [t for t in (ends_at, bookmark_at if request.wants_bookmarks else None) if t is not None]
            timeout = min(deadlines) - now if deadlines else None
            try:
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                continue

    def stop(self) -> None:
        """Ends the watch; `lines()` returns soon after."""
        self._is_stopped = True
        if self._hear in self._shelf.listeners:
            self._shelf.listeners.remove(self._hear)
        self._wake.set()
