"""What goes wrong in a simulated world, drawn from its seed, and how often each did.

In: a random source, a rate. Out: yes or no, and how long. Never: a fault once the world is to come to rest.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from controller.errors import Temporary

KINDS = {
    "lost request": 0.02,
    "lost answer": 0.02,
    "server fault": 0.02,
    "server fault after it took effect": 0.02,
    "busy server": 0.02,
    "slow request": 0.05,
    "conflict": 0.02,
    "stale list": 0.05,
    "expired watch": 0.03,
    "cut watch": 0.02,
    "delayed delivery": 0.15,
    "repeated delivery": 0.05,
    "failed commit": 0.03,
    "commit without answer": 0.03,
    "slow commit": 0.05,
}
"""How likely each is, each time that it could happen."""


class Faults:
    """Counts what it has done. `rate` scales all of it; 0 from `stop` on."""

    def __init__(self, luck: random.Random, rate: float) -> None:
        self.luck = luck
        self.counts: Counter[str] = Counter()
        self._rate = rate

    def stop(self) -> None:
        """Nothing goes wrong any more."""
        self._rate = 0.0

    def happens(self, kind: str) -> bool:
        """Whether it does, this time."""
        is_due = self._rate > 0 and self.luck.random() < KINDS[kind] * self._rate
        self.counts[kind] += is_due
        return is_due

    def note(self, kind: str) -> None:
        """Somebody else made it happen."""
        self.counts[kind] += 1

    async def before_commit(self) -> bool:
        if self.happens("slow commit"):
            await asyncio.sleep(self.luck.uniform(0.1, 8.0))
        if self.happens("failed commit"):
            raise Temporary("the simulated Postgres is away")
        await asyncio.sleep(self.luck.uniform(0.0005, 0.004))
        return False

    async def after_commit(self) -> bool:
        if self.happens("commit without answer"):
            raise Temporary("the simulated Postgres gave no answer")
        return False
