"""Reading the log at a start, for as long as Postgres is away: an outage at that moment must not end a leader.

In: an event log. Out: heads and marks for the watches. Never: gives up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from controller.errors import Temporary
from controller.kube.backoff import delay_seconds
from controller.log import EventLog, Head, SessionMark

log = structlog.get_logger("supervise")
Found = TypeVar("Found")


class PatientHeads:
    """The log's heads and marks, asked for until Postgres answers."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log

    async def heads(self, resource: str) -> dict[str, Head]:
        """uid → head of every object of `resource` that is not deleted."""
        return await _patiently(lambda: self._log.heads(resource))

    async def marks(self, scope: str) -> dict[str, SessionMark]:
        """resource → how far it was read."""
        return await _patiently(lambda: self._log.marks(scope))


async def _patiently(read: Callable[[], Awaitable[Found]]) -> Found:
    failures = 0
    while True:
        try:
            return await read()
        except Temporary as error:
            failures += 1
            log.warning("the log cannot be read", error=str(error))
            await asyncio.sleep(delay_seconds(failures))
