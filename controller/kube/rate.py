"""How fast this client may send: so many requests a second, and so many at once after a quiet time.

In: monotonic times of requests. Out: how long each waits. Never: a clock, a wait of its own.
"""

from __future__ import annotations


class Rate:
    """A bucket of `burst` requests that fills by `per_second`. First come, first served."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._step_seconds = 1.0 / per_second
        self._burst_seconds = burst * self._step_seconds
        self._full_at = float("-inf")
        """When the bucket will be full again, if nothing more is taken out of it."""

    def reserve(self, now: float) -> float:
        """Takes one request's place; seconds that it waits, from `now` (monotonic) on."""
        self._full_at = max(self._full_at, now) + self._step_seconds
        return max(0.0, self._full_at - now - self._burst_seconds)
