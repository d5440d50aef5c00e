"""API server → observations: when something could have been missed, and when all of it has been looked at again.

In: resources that begin and finish a relist. Out: GapOpened before the first row of a relist, Synced when every
resource that was relisting is through (RULES §11). Never: Synced while one of them is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from controller.model.events import GapOpened, GapReason, Op, Synced
from controller.model.instants import Instant
from controller.watch.observation import StreamFact


class Gaps:
    """One for all resources of a cluster."""

    def __init__(self, put: Callable[[StreamFact], Awaitable[None]], now: Callable[[], Instant]) -> None:
        self._put = put
        self._now = now
        self._relisting: set[str] = set()
        self._through: set[str] = set()
        self._order = asyncio.Lock()
        """Held while a row waits for room: the next gap's beginning must not overtake the last one's end."""

    @property
    def is_open(self) -> bool:
        return bool(self._relisting)

    def concerns(self, resource: str) -> bool:
        """The resource is relisting: its gap is open already."""
        return resource in self._relisting

    async def open(self, resources: Iterable[str], reason: GapReason, from_at: Instant | None) -> None:
        """These begin a relist: the gap's row goes before it."""
        named = tuple(resources)
        async with self._order:
            self._relisting.update(named)
            self._through.difference_update(named)
            now = self._now()
            await self._put(StreamFact(Op.GAP, GapOpened(named, reason, from_at, now), now))

    async def close(self, resource: str) -> None:
        """This one is through; with the last of them the gap ends."""
        async with self._order:
            if resource not in self._relisting:
                return
            self._relisting.discard(resource)
            self._through.add(resource)
            if not self._relisting:
                through, self._through = tuple(sorted(self._through)), set()
                await self._put(StreamFact(Op.SYNCED, Synced(through), self._now()))
