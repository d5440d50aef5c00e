"""The clock that the loops are given: wall time for what is written down, monotonic time for waiting."""

from __future__ import annotations

import time
from typing import Protocol

from controller.model.instants import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """Microseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds from some fixed point; never runs back."""


class SystemClock:
    """This machine's clocks. `now` never runs back within the process: observed_at must not (DESIGN §3)."""

    def __init__(self) -> None:
        self._last = 0

    def now(self) -> Instant:
        self._last = max(self._last, time.time_ns() // 1000)
        return self._last

    def monotonic(self) -> float:
        return time.monotonic()
