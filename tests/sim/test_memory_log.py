"""One conformance suite for both logs: what the simulated one does is what Postgres does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from controller.errors import Temporary
from controller.log import Append, EventLog, Fenced, JobSnapshot, SessionMark
from controller.log.records import NewEvent
from controller.model.events import GapOpened, GapReason, Op, Synced
from tests.log.words import NOW, job, pod, timer
from tests.sim.memory_log import Disk, MemoryLog, always_away

Opener = Callable[[], Awaitable[Any]]


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def opener(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Opener]:
    """Opens another hand on one and the same log."""
    disk, opened = Disk(), []

    async def another() -> Any:
        log: Any = MemoryLog(disk) if request.param == "memory" else await EventLog.open(database_url)
        opened.append(log)
        return log

    yield another
    for log in opened:
        await log.close()


def gap(kind: str, at: int, *resources: str) -> NewEvent:
    fact = GapOpened(resources, GapReason.EXPIRED, None, at) if kind == "GAP" else Synced(resources)
    return NewEvent(op=Op(kind), fact=fact, observed_at=at, key=f"{kind}/{at}")


async def test_positions_are_gapless_and_a_version_counts_once(opener: Opener) -> None:
    log = await opener()
    assert await log.lead("a", "1") == 1
    first = await log.commit(Append(events=[job(1, Op.ADDED), pod(0, 2, Op.ADDED), pod(0, 2), timer("t")]))
    second = await log.commit(Append(events=[pod(0, 1), pod(0, 3), timer("t"), pod(0, 3, Op.DELETED), pod(0, 9)]))
    assert [(each.position, each.op, each.resource_version) for each in [*first, *second]] == [
        (1, Op.ADDED, 1), (2, Op.ADDED, 2), (3, Op.TIMER, 0), (4, Op.MODIFIED, 3), (5, Op.DELETED, 3),
    ]  # fmt: skip
    assert [each.position for each in await log.read(2, limit=2)] == [3, 4]
    assert [each.position for each in await log.read(0, limit=9, upto=2)] == [1, 2]
    assert await log.position() == 5


async def test_who_leads_later_fences_who_led_before(opener: Opener) -> None:
    old, new = await opener(), await opener()
    await old.lead("a", "1")
    await old.commit(Append(events=[job(1, Op.ADDED)]))
    assert await new.lead("b", "1", at_least_epoch=7) == 8
    with pytest.raises(Fenced):
        await old.commit(Append(events=[pod(0, 2, Op.ADDED)]))
    assert [each.position for each in await new.commit(Append(events=[pod(0, 2, Op.ADDED)]))] == [2]


async def test_a_start_finds_what_was_kept(opener: Opener) -> None:
    log = await opener()
    await log.lead("a", "1")
    await log.commit(
        Append(
            events=[job(1, Op.ADDED), pod(0, 2, Op.ADDED), pod(1, 3, Op.ADDED), gap("GAP", NOW, "pods")],
            marks=[SessionMark("pods", 3, "list", NOW, "ns")],
            snapshots=[JobSnapshot("job-uid", "ns", "job", 3, b"s", "Created", False)],
            cursor=3,
        )
    )
    await log.commit(
        Append(events=[gap("SYNCED", NOW + 1, "pods"), gap("GAP", NOW + 2, "services"), pod(1, 4, Op.DELETED)])
    )
    again = await opener()
    assert await again.cursor() == 3
    assert set(await again.heads("pods")) == {"job-pod-0"}
    assert (await again.heads("pods"))["job-pod-0"].resource_version == 2
    assert (await again.marks("ns"))["pods"].resource_version == 3 and await again.marks("other") == {}
    assert [(each.job_uid, each.state, each.position) for each in await again.snapshots()] == [("job-uid", b"s", 3)]
    assert [each.op for each in await again.cluster_facts(99)] == [Op.SYNCED, Op.GAP]
    assert [each.op for each in await again.cluster_facts(4)] == [Op.GAP]
    over = JobSnapshot("job-uid", "ns", "job", 7, b"s", "Created", True)
    await log.commit(Append(snapshots=[over]))
    assert await again.snapshots() == [over], "it is over behind the cursor"
    await log.commit(Append(cursor=7))
    assert await again.snapshots() == []


async def test_a_commit_whose_answer_was_lost_is_not_written_twice() -> None:
    disk = Disk()
    log = MemoryLog(disk, after=always_away)
    await log.lead("a", "1")
    append = Append(events=[job(1, Op.ADDED)])
    with pytest.raises(Temporary):
        await log.commit(append)
    assert [each.position for each in await log.commit(append)] == [1]
    assert len(disk.events) == 1
