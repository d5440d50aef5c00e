"""The data itself: every object by its name, one rising revision for all of them, and the recent past.

In: whole objects that are ready to be kept (store.py decides what they hold).
Out: `Stored` objects, `Change` values in order to whoever listens, the state at an earlier revision.
Never: a rule of the Kubernetes API, a clock, a socket.

An object that was handed in is never changed afterwards, so it is encoded once for all its readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

Json = dict[str, Any]
ResourceKey = tuple[str, str]
ObjectKey = tuple[str, str]

_encode = msgspec.json.Encoder().encode


class Stored:
    """One version of one object. `body` must not be changed; `encodings` caches its bytes by representation."""

    __slots__ = ("body", "encodings", "revision")

    def __init__(self, body: Json, revision: int) -> None:
        self.body = body
        self.revision = revision
        self.encodings: dict[Any, Any] = {}

    @property
    def raw(self) -> bytes:
        """The body as kept, as JSON."""
        raw: bytes | None = self.encodings.get("raw")
        if raw is None:
            raw = self.encodings["raw"] = _encode(self.body)
        return raw


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One step of the data: `kind` is ADDED, MODIFIED or DELETED; `before` is None for ADDED.

    After DELETED `now` is the last body with the deletion's revision.
    """

    resource: ResourceKey
    key: ObjectKey
    kind: str
    now: Stored
    before: Stored | None
    lines: dict[Any, bytes] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        """The revision that this change made."""
        return self.now.revision


Listener = Callable[[Change], None]


class Shelf:
    """The objects of one resource, its recent changes, and who listens to them."""

    def __init__(self, since: int) -> None:
        self.objects: dict[ObjectKey, Stored] = {}
        self.changes: deque[Change] = deque()
        # Changes up to and including this revision are not kept.
        self.horizon = since
        self.listeners: list[Listener] = []


class Revisions:
    """All shelves under one counter. `window` is how many changes each resource keeps (None: all of them)."""

    def __init__(self, window: int | None = 20_000, first: int = 100) -> None:
        self.current = first
        self.window = window
        self._shelves: dict[ResourceKey, Shelf] = {}
        self.observers: list[Listener] = []

    def shelf(self, resource: ResourceKey) -> Shelf:
        """The shelf of a resource; it is made when first asked for."""
        found = self._shelves.get(resource)
        if found is None:
            found = self._shelves[resource] = Shelf(self.current)
        return found

    def get(self, resource: ResourceKey, key: ObjectKey) -> Stored | None:
        """The current version of an object, None where there is none."""
        return self.shelf(resource).objects.get(key)

    def put(self, resource: ResourceKey, key: ObjectKey, body: Json) -> Stored:
        """Keeps `body` as the object's newest version; sets its metadata.resourceVersion."""
        shelf = self.shelf(resource)
        self.current += 1
        body["metadata"]["resourceVersion"] = str(self.current)
        stored = Stored(body, self.current)
        before = shelf.objects.get(key)
        shelf.objects[key] = stored
        self._tell(shelf, Change(resource, key, "MODIFIED" if before else "ADDED", stored, before))
        return stored

    def remove(self, resource: ResourceKey, key: ObjectKey) -> Stored:
        """Takes an object away; the answer is its last body with the deletion's revision. KeyError if absent."""
        shelf = self.shelf(resource)
        before = shelf.objects.pop(key)
        self.current += 1
        body = before.body | {"metadata": before.body["metadata"] | {"resourceVersion": str(self.current)}}
        last = Stored(body, self.current)
        self._tell(shelf, Change(resource, key, "DELETED", last, before))
        return last

    def _tell(self, shelf: Shelf, change: Change) -> None:
        shelf.changes.append(change)
        if self.window is not None:
            while len(shelf.changes) > self.window:
                shelf.horizon = shelf.changes.popleft().revision
        for listener in (*shelf.listeners, *self.observers):
            listener(change)

    def compact(self) -> int:
        """Forgets all changes so far, so that every older watch and continue token expires; gives the revision."""
        for shelf in self._shelves.values():
            shelf.changes.clear()
            shelf.horizon = self.current
        return self.current

    def changes_since(self, resource: ResourceKey, revision: int) -> Iterator[Change]:
        """The changes after `revision`, oldest first. The caller has compared `revision` with the horizon."""
        recent = []
        for change in reversed(self.shelf(resource).changes):
            if change.revision <= revision:
                break
            recent.append(change)
        return reversed(recent)

    def objects_at(self, resource: ResourceKey, revision: int) -> dict[ObjectKey, Stored]:
        """The objects as they were at `revision` (not below the horizon): the newer changes are undone."""
        shelf = self.shelf(resource)
        if revision >= self.current:
            return shelf.objects
        objects = dict(shelf.objects)
        for change in reversed(shelf.changes):
            if change.revision <= revision:
                break
            if change.before is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.before
        return objects

    def history(self, resource: ResourceKey, key: ObjectKey | None = None) -> list[Change]:
        """The kept changes of a resource, or of one object of it, oldest first."""
        changes = self.shelf(resource).changes
        return [change for change in changes if key is None or change.key == key]
