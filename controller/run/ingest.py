"""The commit loop: what has arrived, and what the projector wants written, go into the log in one transaction.

In: the inbox. Out: committed events to the projector, its requests to the performer. There is no waiting window: a
commit takes what has come while the one before ran (DESIGN §3). Never: a request for something uncommitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from controller.act import Request
from controller.errors import Temporary
from controller.kube.backoff import delay_seconds
from controller.log import Append, Event, EventLog, NewEvent, SessionMark
from controller.model.events import Timer
from controller.model.instants import SECOND, Instant
from controller.run.clock import Clock
from controller.run.inbox import Inbox
from controller.run.project import SNAPSHOT_EVERY_SECONDS, Projector
from controller.run.tally import Tally

BATCH_ROWS = 500
"""A commit's largest batch: beyond it the rows a second do not rise, and the lock is held for longer (DESIGN §4)."""

log = structlog.get_logger("ingest")


class Sink(Protocol):
    def submit(self, requests: Sequence[Request]) -> None:
        """Takes requests whose DECIDED event is committed."""

    def hurry(self, job_uids: Sequence[str]) -> None:
        """These jobs' statuses are urgent now."""


class Ingest:
    """One writer: nothing else in the process commits to the event log."""

    def __init__(
        self,
        event_log: EventLog,
        inbox: Inbox[NewEvent | SessionMark],
        projector: Projector,
        clock: Clock,
        *,
        performer: Sink,
        on_timers: Callable[[str, tuple[Timer, ...]], None],
        tally: Tally,
    ) -> None:
        self._log = event_log
        self._inbox = inbox
        self._projector = projector
        self._clock = clock
        self._performer = performer
        self._on_timers = on_timers
        self._tally = tally
        self._oldest_at: Instant | None = None
        """When the first observation of the commit that is under way was read."""
        self.problem: str | None = None
        """Why the log cannot be written now, in words."""

    def behind_seconds(self) -> float:
        """Age of the oldest observation that is not in the log yet; 0 when all are."""
        oldest_at = self._oldest_at
        if oldest_at is None:
            first = self._inbox.first()
            oldest_at = first.observed_at if isinstance(first, NewEvent) else None
        return 0.0 if oldest_at is None else max(0, self._clock.now() - oldest_at) / SECOND

    async def run(self, drained: asyncio.Event) -> None:
        """Commits until `drained` is set and nothing is left to write; then writes every state and returns."""
        while True:
            if not (self._projector.has_writes() or len(self._inbox)):
                if drained.is_set():
                    break
                await self._inbox.wait(SNAPSHOT_EVERY_SECONDS if self._projector.is_dirty() else None)
            await self.run_once()
        self._projector.save_all()
        await self.run_once()

    async def run_once(self) -> list[Event]:
        """One commit of what is there, folded; returns its events. With nothing to write there is no commit."""
        items = self._inbox.take(BATCH_ROWS)
        writes = self._projector.take_writes()
        if not items and not writes:
            return []
        append = Append(
            events=[*writes.decided, *(item for item in items if isinstance(item, NewEvent))],
            marks=[item for item in items if isinstance(item, SessionMark)],
            transitions=writes.transitions,
            snapshots=writes.snapshots,
            attempts=writes.attempts,
            cursor=writes.cursor,
        )
        self._oldest_at = next((item.observed_at for item in items if isinstance(item, NewEvent)), None)
        events = await self._committed(append)
        self._oldest_at = None
        self._tally.committed(events, self._clock.now())
        self._tally.count_jobs(writes.happened)
        requests = self._projector.fold(events)
        self._tally.count_jobs(self._projector.came_and_went())
        self._projector.decide(self._clock.now())
        for uid, timers in self._projector.timers_changed().items():
            self._on_timers(uid, timers)
        if requests:
            self._performer.submit(requests)
        self._performer.hurry(self._projector.urgent())
        return events

    async def _committed(self, append: Append) -> list[Event]:
        """Commits, again and again while Postgres is away; a repeat appends nothing twice. Raises Fenced."""
        failures = 0
        while True:
            try:
                events = await self._log.commit(append)
            except Temporary as error:
                failures += 1
                self.problem = str(error)
                self._tally.failed_commits += 1
                delay = max(error.retry_after_seconds, delay_seconds(failures))
                log.warning("the log cannot be written", error=str(error), again_in_seconds=round(delay, 1))
                await asyncio.sleep(delay)
            else:
                self.problem = None
                return events
