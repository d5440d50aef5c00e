"""What waits before it tries again, and how long: the same series for the watches and for the log.

In: how often it failed in a row, what the server asked for, luck. Out: seconds. Never: a clock, a luck of its own.
"""

from __future__ import annotations

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
"""A controller that waits longer is slower to come back than an API server that restarts."""


def delay_seconds(failures: int, luck: float = 0.5, retry_after_seconds: float = 0.0) -> float:
    """The wait before the next try after `failures` in a row (0: none, go on at once).

    It doubles from 0.5 s to 30 s and is spread over its upper half by `luck` in [0, 1), so that many who failed
    together do not come back together; a server's Retry-After is the least that is waited, spread upwards.
    """
    wished = retry_after_seconds * (1 + 0.25 * luck)
    if failures <= 0:
        return wished
    top = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 16))
    return max(wished, top * (0.5 + 0.5 * luck))
