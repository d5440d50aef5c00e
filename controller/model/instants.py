"""The words for time: an instant is an `int`, microseconds since 1970 UTC, as exact as Postgres' timestamptz.

In: RFC 3339 text as the API server writes it. Out: instants and text. Never: a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

Instant = int
"""Microseconds since the epoch, UTC."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@lru_cache(maxsize=4096)
def instant_of(text: str) -> Instant:
    """The instant that an RFC 3339 text names. Raises ValueError when it names none."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    delta = moment - datetime.fromtimestamp(0, UTC)
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


def text_of(instant: Instant) -> str:
    """RFC 3339 with whole seconds (metav1.Time); the fraction is cut, as Kubernetes does."""
    return _text_of_second(instant // SECOND)


@lru_cache(maxsize=4096)
def _text_of_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_text_of(instant: Instant) -> str:
    """RFC 3339 with microseconds (metav1.MicroTime)."""
    whole = datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{instant % SECOND:06d}Z"
