"""The event log in memory: what a commit means, without Postgres. test_memory_log.py holds it to the real one.

In: appends. Out: events. A `Disk` is what a crash leaves; each life of a controller opens it anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from controller.errors import Temporary
from controller.log import Append, Event, Fenced, Head, JobSnapshot, LogWentBack, SessionMark
from controller.log.accept import Known, LogHead, accepted_of
from controller.log.facts import KIND_OF_RESOURCE
from controller.model.events import ClockJumped, GapOpened, LeaderElected, SettingsRecorded, Synced

Fault = Callable[[], Awaitable[bool]]
"""Called in front of and behind a commit; raises Temporary, or says False where nothing is to go wrong."""


def fresh_head() -> LogHead:
    return LogHead(0, 0, 1, b"", 0, frozenset())


@dataclass
class Disk:
    """What is stored."""

    head: LogHead = field(default_factory=fresh_head)
    events: list[Event] = field(default_factory=list)
    heads: dict[str, Head] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    saved: dict[str, JobSnapshot] = field(default_factory=dict)
    marked: dict[tuple[str, str], SessionMark] = field(default_factory=dict)
    cursor: int = 0
    commit_count: int = 0


class MemoryLog:
    """One process's hand on a disk."""

    def __init__(self, disk: Disk, before: Fault | None = None, after: Fault | None = None) -> None:
        self._disk = disk
        self._before, self._after = before, after
        self._ours: LogHead | None = None
        self._unsettled: tuple[Append, list[Event], LogHead] | None = None
        self.is_rewound = False

    async def lead(self, holder: str, code_version: str, *, at_least_epoch: int = 0) -> int:
        """Raises the epoch: whoever led before is fenced."""
        if self._before:
            await self._before()
        head, ours = self._disk.head, self._ours
        self.is_rewound = ours is not None and head.commit_hash != ours.commit_hash and head.epoch <= ours.epoch
        epoch = max(head.epoch, at_least_epoch, ours.epoch if ours else 0) + 1
        self._ours = self._disk.head = head._replace(epoch=epoch, incarnation=head.incarnation + self.is_rewound)
        self._unsettled = None
        return epoch

    async def commit(self, append: Append) -> list[Event]:
        """Writes all of it or nothing."""
        if self._ours is None:
            raise Fenced("this process has not taken the log over")
        if self._before:
            await self._before()
        disk = self._disk
        if disk.head.epoch > self._ours.epoch:
            raise Fenced(f"epoch {disk.head.epoch} leads")
        earlier: list[Event] = []
        if self._unsettled is not None and disk.head == self._unsettled[2]:
            pending, earlier, self._ours = self._unsettled
            self._unsettled = None
            if pending is append:
                return earlier
        if disk.head != self._ours:
            raise LogWentBack("the log is not what this process left")
        self._unsettled = None
        events = self._written(append)
        self._unsettled = (append, events, disk.head)
        if self._after:
            await self._after()
        self._unsettled, self._ours = None, disk.head
        return [*earlier, *events]

    def _written(self, append: Append) -> list[Event]:
        disk = self._disk
        known = {uid: Known(each.resource_version, each.is_deleted) for uid, each in disk.heads.items()}
        disk.commit_count += 1
        nonce = disk.commit_count.to_bytes(8, "big")
        batch = accepted_of(disk.head, append.events, known, disk.keys, nonce)
        disk.keys |= {each.key for each in batch.accepted if each.key}
        disk.events += batch.events
        for uid, each in batch.heads.items():
            event = each.event
            disk.heads[uid] = Head(
                each.stored.kind, event.namespace, event.name, uid, event.resource_version, event.job_uid,
                event.job_name, event.op.value in ("DELETED", "SYNC_DELETED"),
            )  # fmt: skip
        disk.head = batch.head
        for snapshot in append.snapshots:
            disk.saved[snapshot.job_uid] = snapshot
        for mark in append.marks:
            disk.marked[mark.scope, mark.resource] = mark
        if append.cursor is not None:
            disk.cursor = append.cursor
        return batch.events

    async def read(self, after: int, *, limit: int = 500, upto: int | None = None) -> list[Event]:
        return [each for each in self._disk.events[after:] if upto is None or each.position <= upto][:limit]

    async def cursor(self) -> int:
        return self._disk.cursor

    async def position(self) -> int:
        return self._disk.head.position

    async def cluster_facts(self, upto: int) -> list[Event]:
        events = [event for event in self._disk.events if event.position <= upto]
        newest: list[Event] = []
        for kind in (SettingsRecorded, LeaderElected, ClockJumped, Synced):
            newest += [event for event in reversed(events) if isinstance(event.fact, kind)][:1]
        synced = max((event.position for event in newest if isinstance(event.fact, Synced)), default=0)
        gaps = [event for event in events if isinstance(event.fact, GapOpened) and event.position > synced]
        return sorted([*newest, *gaps], key=lambda event: event.position)

    async def snapshots(self) -> list[JobSnapshot]:
        disk = self._disk
        return [each for each in disk.saved.values() if not each.is_over or each.position > disk.cursor]

    async def heads(self, resource: str) -> dict[str, Head]:
        kind = KIND_OF_RESOURCE.get(resource, resource)
        return {uid: each for uid, each in self._disk.heads.items() if each.kind == kind and not each.is_deleted}

    async def marks(self, scope: str = "") -> dict[str, SessionMark]:
        return {resource: mark for (of, resource), mark in self._disk.marked.items() if of == scope}

    async def close(self) -> None:
        pass


async def always_away() -> bool:
    """A fault: Postgres is not there."""
    raise Temporary("Postgres is away")
