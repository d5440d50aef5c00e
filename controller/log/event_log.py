"""The event log of one cluster: what the rest of the project sees of Postgres.

In: commits of the one writer that leads. Out: its events with their positions; events and tables read back.
Raises Temporary when Postgres cannot be used now, UserError for what a person has to put right, Fenced and LogWentBack
for what ends a leader. Never: an exception of the driver that only says so.
"""

from __future__ import annotations

from typing import Self

import asyncpg

from controller.errors import UserError
from controller.log import connection, migrate, one_job
from controller.log.one_job import GapRow, JobRecord
from controller.log.reader import Reader
from controller.log.records import Append, Head, JobRow, JobSnapshot, SessionMark
from controller.log.writer import Writer
from controller.model.events import Event, Transition


class EventLog:
    """Reading needs no more than `open`; writing begins with `lead`. Safe for many readers and one writing task."""

    def __init__(self, pool: asyncpg.Pool, reader: Reader, writer: Writer) -> None:
        self._pool = pool
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str, *, cluster: str = "default") -> Self:
        """Opens the log. Raises UserError when Postgres cannot be used, or its schema is not this code's."""
        revision = await migrate.check(url)
        problem = revision.problem()
        if problem:
            raise UserError(problem, exit_code=1)
        try:
            pool = await connection.pool_of(url)
        except Exception as error:
            raise connection.user_error(url, error) or error from error
        return cls(pool, Reader(pool, cluster), Writer(url, cluster))

    @property
    def incarnation(self) -> int:
        """The incarnation that this writer writes in; 0 before `lead`. With a position it is a cursor for others."""
        return self._writer.head.incarnation if self._writer.head else 0

    @property
    def is_rewound(self) -> bool:
        """The last `lead` found the log set back behind what this process had written: a new incarnation has begun,
        and everything has to be listed again (GAP LogRewound)."""
        return self._writer.is_rewound

    async def lead(self, holder: str, code_version: str, *, at_least_epoch: int = 0) -> int:
        """Takes the log over and returns the new epoch: above the log's and above `at_least_epoch` (what the Lease
        says). An earlier writer's session is ended, and whatever it commits later is refused. Raises Temporary."""
        return await self._writer.lead(holder, code_version, at_least_epoch)

    async def commit(self, append: Append) -> list[Event]:
        """Writes all of `append` in one transaction, or nothing; returns the events that were new, in order.

        Raises Temporary: the same append may be handed over again, and is not written twice, even when the answer
        of the first try was lost. Raises Fenced when another leads, LogWentBack when the log is not what it was."""
        return await self._writer.commit(append)

    async def read(self, after: int, *, limit: int = 500, upto: int | None = None) -> list[Event]:
        """The events above position `after`, up to `upto` (included), at most `limit`, in order."""
        return await self._reader.read(after, limit=limit, upto=upto)

    async def read_job(self, job_uid: str) -> list[Event]:
        """A job's events in order: its own, others' pods and services of its name while it lived, and what concerned
        every job while it lived."""
        return await self._reader.read_job(job_uid)

    async def position(self) -> int:
        """The newest event's position; 0 for an empty log."""
        return await self._reader.position()

    async def cursor(self) -> int:
        """How far the log is folded into snapshots; 0 at first."""
        return await self._reader.cursor()

    async def cluster_facts(self, upto: int) -> list[Event]:
        """What decides the context at position `upto`: the newest SETTINGS, LEADER, CLOCK, SYNCED, and every GAP after
        that SYNCED, in order."""
        return await self._reader.cluster_facts(upto)

    async def snapshots(self) -> list[JobSnapshot]:
        """The newest saved states of the jobs that are not over, and of those that came to be over behind `cursor`: the
        events there tell of them once more."""
        return await self._reader.snapshots()

    async def heads(self, resource: str) -> dict[str, Head]:
        """uid → head of every object of `resource` (`pods`, …) that is not deleted."""
        return await self._reader.heads(resource)

    async def marks(self, scope: str = "") -> dict[str, SessionMark]:
        """resource → how far it was read, by a watch of namespace `scope` (empty: of all)."""
        return await self._reader.marks(scope)

    async def find_job(self, name_or_uid: str, namespace: str | None = None) -> list[JobRow]:
        """The jobs of that name, or the one of that uid, newest first. `namespace/name` is understood."""
        if namespace is None and "/" in name_or_uid:
            namespace, _, name_or_uid = name_or_uid.partition("/")
        return await self._reader.jobs(namespace, name_or_uid)

    async def list_jobs(self, namespace: str | None = None) -> list[JobRow]:
        """All jobs that the log knows, newest first."""
        return await self._reader.jobs(namespace, None)

    async def transitions_of(self, job_uid: str) -> list[Transition]:
        """Every change of the job's conditions, in order."""
        return await self._reader.transitions_of(job_uid)

    async def job_record(self, job_uid: str) -> JobRecord | None:
        """What an answer about one job needs, small however large the log is; None when no such job was folded."""
        return await one_job.read_record(self._reader.fetch, job_uid)

    async def read_later(self, job_uid: str, after: int) -> list[Event]:
        """A job's own events above position `after` and what concerned every job: for following it."""
        return await one_job.read_later(self._reader.fetch, job_uid, after)

    async def gaps(self, job_uid: str | None = None) -> list[GapRow]:
        """When the watch may have missed something, newest first: while the job lived, or ever."""
        return await one_job.read_gaps(self._reader.fetch, job_uid)

    async def job_names(self) -> list[tuple[str, str]]:
        """(namespace, name) of the jobs that the log knows, for suggestions."""
        return await one_job.read_names(self._reader.fetch)

    async def close(self) -> None:
        """Ends all sessions."""
        await self._writer.close()
        await connection.close_pool(self._pool)
