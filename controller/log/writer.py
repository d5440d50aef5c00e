"""The writer: one commit at a time into Postgres, under the lock of log_head, fenced by epoch (DESIGN §3).

In: an `Append`. Out: the events that it added, with their positions; `Fenced`, `LogWentBack`, or Temporary, after
which the same append is safe to hand over again. Never: an event twice, a position twice, a gap.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import Any

import asyncpg
import msgspec

from controller.errors import Temporary
from controller.log import statements
from controller.log.accept import Batch, Known, LogHead, accepted_of
from controller.log.connection import connect
from controller.log.errors import Fenced, LogWentBack, translated
from controller.log.records import Append
from controller.log.times import instant_of_datetime
from controller.model.events import Event

CLOSE_SECONDS = 2.0
SPECS_REMEMBERED = 8192
"""Hashes of specs that are in the log, which need not be sent again."""


class _Unsettled(msgspec.Struct, frozen=True):
    """A commit whose answer did not come: it is in the log or not, which the next look at log_head tells."""

    append: Append
    batch: Batch


class Writer:
    """Writes one cluster's log over a connection of its own. Its methods are called by one task at a time."""

    def __init__(self, url: str, cluster: str) -> None:
        self._url = url
        self._cluster = cluster
        self._connection: asyncpg.Connection | None = None
        self._backend: tuple[int, Any] = (0, None)
        self._cluster_id = 0
        self._head: LogHead | None = None
        self._unsettled: _Unsettled | None = None
        self._specs: dict[str, None] = {}
        self._lock = asyncio.Lock()
        self.is_rewound = False
        """The log was found set back at the last `lead`: what memory knew of it no longer holds."""

    @property
    def head(self) -> LogHead | None:
        """The log's head as this writer left it; None before `lead`."""
        return self._head

    async def lead(self, holder: str, code_version: str, at_least_epoch: int) -> int:
        """Takes the log over: ends the earlier writer's session, raises the epoch. Returns it."""
        async with self._lock:
            with translated("taking the log over"):
                connection = await self._connected()
                await self._end_other(connection)
                async with connection.transaction():
                    row = await connection.fetchrow(statements.LOCK_BY_NAME, self._cluster)
                    found = _head_of(row)
                    self._cluster_id = row["cluster_id"]
                    self.is_rewound = await self._went_back(connection, found)
                    epoch = max(found.epoch, at_least_epoch, self._head.epoch if self._head else 0) + 1
                    incarnation = found.incarnation + self.is_rewound
                    await connection.execute(
                        statements.LEAD, self._cluster_id, epoch, incarnation, holder, code_version, *self._backend
                    )
            self._head = found._replace(epoch=epoch, incarnation=incarnation)
            self._unsettled = None
            self._specs.clear()
            return epoch

    async def commit(self, append: Append) -> list[Event]:
        """Writes an append whole. Returns its new events (before them those of an earlier append whose answer was
        lost, when it was not handed over again)."""
        async with self._lock:
            if self._head is None:
                raise Fenced("this process has not taken the log over")
            is_fresh = self._connection is None or self._connection.is_closed()
            try:
                return await self._attempted(append)
            except Temporary:
                if is_fresh:
                    raise
            # A session that was ended meanwhile says nothing of the server: look once with a new one.
            return await self._attempted(append)

    async def _attempted(self, append: Append) -> list[Event]:
        try:
            with translated("writing the log"):
                return await self._commit(append)
        except BaseException:
            # Whatever it was (a cancellation too), this session's transaction must not live on.
            self._drop()
            raise

    async def close(self) -> None:
        """Ends the session."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.close(timeout=CLOSE_SECONDS)

    async def _commit(self, append: Append) -> list[Event]:
        assert self._head is not None
        connection = await self._connected()
        transaction = connection.transaction()
        await transaction.start()
        row = await connection.fetchrow(statements.LOCK, self._cluster_id)
        if row is None:
            raise LogWentBack(f"the log of cluster {self._cluster!r} is not in this database any more")
        found = _head_of(row)
        earlier, is_done = self._settled(found, append)
        if is_done:
            await transaction.rollback()
            return earlier
        batch = await self._batch(connection, found, append)
        if batch.accepted:
            arguments = statements.append_arguments(self._cluster_id, batch, self._specs)
            await connection.execute(statements.APPEND, *arguments)
        await connection.execute(
            statements.REST, *statements.rest_arguments(self._cluster_id, batch.head, append, self._backend)
        )
        self._unsettled = _Unsettled(append, batch)
        await transaction.commit()
        self._unsettled = None
        self._head = batch.head
        self._remember_specs(batch)
        return [*earlier, *batch.events]

    def _settled(self, found: LogHead, append: Append) -> tuple[list[Event], bool]:
        """Compares the log with memory and settles an unanswered commit: its events when it is in the log, and
        whether it was this very append. Raises Fenced, LogWentBack."""
        assert self._head is not None
        unsettled = self._unsettled
        if found.epoch > self._head.epoch:
            raise Fenced(f"epoch {found.epoch} leads, this process had {self._head.epoch}")
        if unsettled is not None and found == unsettled.batch.head:
            self._head, self._unsettled = unsettled.batch.head, None
            return unsettled.batch.events, unsettled.append is append
        if found != self._head:
            raise LogWentBack(
                f"the log is at position {found.position} (epoch {found.epoch}, incarnation {found.incarnation}), "
                f"this process left it at {self._head.position} (epoch {self._head.epoch})"
            )
        self._unsettled = None
        return [], False

    def _remember_specs(self, batch: Batch) -> None:
        for row in batch.accepted:
            if row.stored.spec_hash is not None and row.stored.spec is not None:
                self._specs[row.stored.spec_hash] = None
        while len(self._specs) > SPECS_REMEMBERED:
            del self._specs[next(iter(self._specs))]

    async def _batch(self, connection: asyncpg.Connection, found: LogHead, append: Append) -> Batch:
        uids = list({each.uid for each in append.events if each.resource_version > 0})
        keys = [each.key for each in append.events if each.key is not None]
        known: dict[str, Known] = {}
        present: list[str] = []
        if uids or keys:
            for row in await connection.fetch(statements.KNOWN, self._cluster_id, uids, keys):
                if row["key"] is not None:
                    present.append(row["key"])
                else:
                    known[row["uid"]] = Known(int(row["resource_version"]), row["is_deleted"])
        return accepted_of(found, append.events, known, present, secrets.token_bytes(8))

    async def _went_back(self, connection: asyncpg.Connection, found: LogHead) -> bool:
        """True when the log lacks what this process wrote last."""
        ours = self._head
        if ours is None:
            return False
        if self._unsettled is not None and found.commit_hash == self._unsettled.batch.head.commit_hash:
            return False
        if found.position < ours.position or found.epoch < ours.epoch:
            return True
        if found.epoch == ours.epoch:
            return found.commit_hash != ours.commit_hash
        return not await connection.fetchval(
            "SELECT $2 = 0 OR EXISTS (SELECT FROM events WHERE cluster_id = $1 AND position = $2 AND epoch <= $3"
            " AND incarnation = $4)",
            self._cluster_id,
            ours.position,
            ours.epoch,
            ours.incarnation,
        )

    async def _end_other(self, connection: asyncpg.Connection) -> None:
        """Ends the session of the writer before: it may hold the lock, and may not even be running any more."""
        await connection.execute(statements.FOUND, self._cluster)
        with suppress(asyncpg.InsufficientPrivilegeError):  # another account's: its own time limit ends it
            await connection.execute(statements.END_OTHER, self._cluster)

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._url, is_writer=True)
            row = await self._connection.fetchrow(statements.BACKEND)
            self._backend = (row["pid"], row["backend_start"])
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def _head_of(row: Any) -> LogHead:
    return LogHead(
        position=row["position"],
        epoch=row["epoch"],
        incarnation=row["incarnation"],
        commit_hash=row["commit_hash"],
        observed_at=instant_of_datetime(row["observed_at"]),
        restoring=frozenset(row["restoring"]),
    )
