"""API server → observations: the one way out of all watches, which knows what was put and stamps when it was read.

In: observations of every resource. Out: the sink, in order.
Never: the same object version twice; a time that runs back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.model.instants import Instant
from controller.watch.heads import Heads
from controller.watch.notices import Notices
from controller.watch.observation import Observation, Sink, Watched
from controller.watch.resources import PODS


class Stamp:
    """The time at which something was read. It never runs back, whatever the clock does."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        self._last: Instant = 0

    def now(self) -> Instant:
        self._last = max(self._last, self._clock())
        return self._last


class Outlet:
    """Puts what is news, and keeps the heads with it."""

    def __init__(self, sink: Sink, heads: Mapping[str, Heads], stamp: Stamp) -> None:
        self._sink = sink
        self._heads = heads
        self._notices = Notices(heads[PODS.name])
        self.stamp = stamp

    async def put(self, item: Watched) -> None:
        """A mark or a gap's row."""
        await self._sink.put(item)

    async def observe(self, seen: Observation, *, after_restore: bool = False) -> None:
        """One object version, if it is news. Waits while the sink is full."""
        heads = self._heads[seen.resource]
        if not heads.is_news(seen, after_restore=after_restore):
            return
        heads.take(seen)
        await self._sink.put(seen)
        if seen.resource == PODS.name:
            for notice in self._notices.released(seen):
                await self._sink.put(notice)

    async def notice(self, seen: Observation) -> None:
        """One core/v1 Event, if it is about one of our objects."""
        routed = self._notices.routed(seen)
        if routed is not None:
            await self._sink.put(routed)
