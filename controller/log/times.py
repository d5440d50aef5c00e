"""Instants ↔ Postgres' timestamptz, exact to the microsecond.

In: instants (microseconds since 1970 UTC); datetimes of the driver. Out: the other. Never: a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controller.model.instants import Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def datetime_of(instant: Instant) -> datetime:
    """The datetime that the driver writes."""
    return _EPOCH + timedelta(microseconds=instant)


def instant_of_datetime(moment: datetime) -> Instant:
    """The instant that the driver read."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
