"""The loops' way in: what was observed, fell due or came back from the API server, until the next commit takes it.

In: observations from watch/ (bounded by bytes: `put` waits), own facts (never refused: their number is bounded by what
was decided). Out: batches in order of arrival. Never: drops anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes that the item holds in memory, about."""


Item = TypeVar("Item", bound=Sized)


class Inbox(Generic[Item]):
    """A queue bounded by bytes, with one reader that takes all there is."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._items)

    def first(self) -> Item | None:
        """The oldest item, which stays; None when there is none."""
        return self._items[0] if self._items else None

    async def put(self, item: Item) -> None:
        """Hands over one observation; waits while the limit is reached, so that the watch stops reading."""
        while self._bytes >= self._limit:
            self._room.clear()
            await self._room.wait()
        self.put_now(item)

    def put_now(self, item: Item) -> None:
        """Hands over a fact about the controller itself, whatever the limit."""
        self._items.append(item)
        self._bytes += item.size
        self._arrived.set()

    def wake(self) -> None:
        """Lets the reader look up although nothing arrived (it has something of its own to write)."""
        self._arrived.set()

    async def wait(self, timeout_seconds: float | None) -> None:
        """Returns when something is there, the reader was woken, or the time is over."""
        if not self._items:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._arrived.wait()
            except TimeoutError:
                pass
        self._arrived.clear()

    def take(self, at_most: int) -> list[Item]:
        """The oldest items, at most that many, at once."""
        taken = [self._items.popleft() for _ in range(min(at_most, len(self._items)))]
        self._bytes -= sum(item.size for item in taken)
        if self._bytes < self._limit:
            self._room.set()
        return taken
