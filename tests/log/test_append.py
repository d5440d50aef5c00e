"""What a commit adds: numbered without gaps, in order, each object version and each own fact once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from controller.log import Append, EventLog, JobSnapshot, SessionMark
from controller.model.events import Op, Transition
from tests.log.words import NOW, job, pod


@pytest_asyncio.fixture(loop_scope="session")
async def log(database_url: str) -> AsyncIterator[EventLog]:
    """A log that this test leads."""
    opened = await EventLog.open(database_url)
    await opened.lead("test", "0")
    yield opened
    await opened.close()


async def test_events_are_numbered_from_one_and_read_back_as_they_were_committed(log: EventLog) -> None:
    first = await log.commit(Append(events=[job(10, Op.ADDED), pod(0, 11, Op.ADDED)]))
    second = await log.commit(Append(events=[pod(0, 12, phase="Running"), job(13)]))
    assert [event.position for event in first + second] == [1, 2, 3, 4]
    assert await log.read(0) == first + second
    assert await log.read(1, limit=2) == (first + second)[1:3]
    assert await log.read(0, upto=3) == (first + second)[:3]
    assert await log.position() == 4


async def test_a_version_at_or_below_the_head_is_dropped_whatever_its_op(log: EventLog) -> None:
    await log.commit(Append(events=[pod(0, 11, Op.ADDED)]))
    again = [pod(0, 11, Op.SYNC_ADDED), pod(0, 10), pod(0, 12), pod(0, 12, Op.SYNC_MODIFIED), pod(1, 5)]
    events = await log.commit(Append(events=again))
    assert [(e.position, e.uid, e.resource_version) for e in events] == [(2, "job-pod-0", 12), (3, "job-pod-1", 5)]


async def test_a_disappearance_counts_once_and_nothing_after_it(log: EventLog) -> None:
    await log.commit(Append(events=[pod(0, 11, Op.ADDED)]))
    events = await log.commit(
        Append(events=[pod(0, 9, Op.SYNC_DELETED), pod(0, 30, Op.DELETED), pod(0, 31), pod(1, 3, Op.DELETED)])
    )
    assert [(e.op, e.uid) for e in events] == [(Op.SYNC_DELETED, "job-pod-0"), (Op.DELETED, "job-pod-1")]
    assert await log.commit(Append(events=[pod(0, 40, Op.SYNC_DELETED)])) == []
    assert await log.heads("pods") == {}


async def test_the_rest_of_a_commit_is_there_with_it(log: EventLog) -> None:
    transition = Transition(1, 0, "Created", "True", "TFJobCreated", "with a NUL \0 in it", NOW, True)
    snapshot = JobSnapshot("job-uid", "ns", "job", 1, b"{}", "Created", False)
    mark = SessionMark("pods", 2**64, "list", NOW, "")
    append = Append(
        events=[job(10, Op.ADDED)],
        transitions=[("job-uid", transition)],
        cursor=1,
        snapshots=[snapshot],
        marks=[mark],
    )
    await log.commit(append)
    assert await log.transitions_of("job-uid") == [transition]
    assert await log.snapshots() == [snapshot]
    assert await log.marks() == {"pods": mark}
    assert await log.cursor() == 1
    [row] = await log.find_job("ns/job")
    assert (row.job_uid, row.phase, row.first_at, row.last_at, row.is_over) == ("job-uid", "Created", NOW, NOW, False)
    assert await log.list_jobs() == [row] == await log.find_job("job-uid")
    assert await log.list_jobs("other") == []


async def test_commits_at_the_same_time_come_one_after_another(log: EventLog) -> None:
    appends = [Append(events=[pod(number, 1), pod(number, 2)]) for number in range(20)]
    batches = await asyncio.gather(*(log.commit(each) for each in appends))
    events = [event for batch in batches for event in batch]
    assert [event.position for event in events] == list(range(1, 41))
    assert await log.read(0) == events
