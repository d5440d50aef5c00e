"""The timers: an instant that decide named comes → a TIMER event. They fire in the order in which they fell due.

In: each job's timers, a clock, whether all watches are connected. Out: TIMER facts for the inbox. Never: fires while
something could be unseen (RULES §11): then it waits, and fires with its own due time later.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from controller.model.events import Timer


class Timers:
    """All live jobs' timers in one heap; an entry whose job has changed its mind is passed over."""

    def __init__(self, may_fire: Callable[[], bool]) -> None:
        self._may_fire = may_fire
        self._heap: list[tuple[Timer, str]] = []
        self._current: dict[str, frozenset[Timer]] = {}

    def set(self, uid: str, timers: tuple[Timer, ...]) -> None:
        """Replaces a job's timers."""
        before = self._current.pop(uid, frozenset())
        if timers:
            self._current[uid] = frozenset(timers)
        for timer in timers:
            if timer not in before:
                heapq.heappush(self._heap, (timer, uid))

    def next_due(self) -> int | None:
        """When the next timer is due; None when there is none."""
        while self._heap and self._heap[0][0] not in self._current.get(self._heap[0][1], ()):
            heapq.heappop(self._heap)
        return self._heap[0][0].due_at if self._heap else None

    def fire(self, now: int) -> list[tuple[str, Timer]]:
        """(job uid, timer) of everything due at `now`, in the order of their due times; nothing while it may not."""
        fired: list[tuple[str, Timer]] = []
        if not self._may_fire():
            return fired
        while (due := self.next_due()) is not None and due <= now:
            timer, uid = heapq.heappop(self._heap)
            self._current[uid] = self._current[uid] - {timer}
            fired.append((uid, timer))
        return fired
