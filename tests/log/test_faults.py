"""What a commit does when the connection, the session or the server dies: nothing is lost, nothing is written twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal

import asyncpg
import pytest

from controller.errors import Temporary
from controller.local.postgres import EmbeddedPostgres
from controller.log import Append, EventLog
from controller.log.connection import dsn_of
from controller.log.migrate import upgrade
from controller.model.events import Event
from tests.log.cutting_proxy import CuttingProxy
from tests.log.words import pod, timer
from tests.postgres_fixture import open_folder


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_commit_whose_answer_is_lost_is_in_the_log_once(database_url: str, cut: str) -> None:
    async with CuttingProxy(database_url) as proxy:
        log = await EventLog.open(proxy.url)
        await log.lead("test", "0")
        first = await log.commit(Append(events=[pod(0, 1)]))
        proxy.cut = cut
        events = await log.commit(Append(events=[pod(0, 2), timer("a")], cursor=1))
        assert proxy.cut_count == 1
        assert [event.position for event in events] == [2, 3]
        last = await log.commit(Append(events=[pod(0, 2), pod(0, 3)]))
        assert [event.position for event in last] == [4]
        assert await log.read(0) == first + events + last
        await log.close()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_the_same_append_again_after_a_cancelled_commit_adds_nothing_twice(database_url: str, cut: str) -> None:
    async with CuttingProxy(database_url) as proxy:
        log = await EventLog.open(proxy.url)
        await log.lead("test", "0")
        proxy.cut = cut
        append = Append(events=[pod(0, 2), timer("a")])
        committing = asyncio.create_task(log.commit(append))
        while not proxy.cut_count:  # noqa: ASYNC110 - the proxy's own signal
            await asyncio.sleep(0)
        committing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await committing
        events = await log.commit(append) if committing.cancelled() else committing.result()
        assert [event.position for event in events] == [1, 2]
        assert await log.read(0) == events
        await log.close()


async def test_events_of_a_lost_answer_are_handed_over_with_the_next_append(database_url: str) -> None:
    async with CuttingProxy(database_url) as proxy:
        log = await EventLog.open(proxy.url)
        await log.lead("test", "0")
        proxy.cut = "after"
        committing = asyncio.create_task(log.commit(Append(events=[pod(0, 2)])))
        while not proxy.cut_count:  # noqa: ASYNC110 - the proxy's own signal
            await asyncio.sleep(0)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        assert committing.cancelled()
        events = await log.commit(Append(events=[pod(0, 3)]))
        assert [event.resource_version for event in events] == [2, 3]
        assert await log.read(0) == events
        await log.close()


async def test_a_writer_whose_sessions_are_ended_at_any_moment_loses_and_repeats_nothing(
    log: EventLog, database_url: str
) -> None:
    killer = await asyncpg.connect(dsn_of(database_url))
    committed: list[Event] = []
    ended = 0

    async def write() -> None:
        for number in range(60):
            append = Append(events=[pod(number % 7, number + 1), timer(f"timer-{number}")])
            while True:
                try:
                    committed.extend(await log.commit(append))
                    break
                except Temporary:
                    continue

    writing = asyncio.create_task(write())
    while not writing.done() and ended < 15:
        ended += await killer.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE '%writer' AND state LIKE '%transaction%'"
        )
    await writing
    await killer.close()
    assert ended > 0
    assert [event.position for event in committed] == list(range(1, 121))
    assert await log.read(0) == committed


async def test_kill_9_of_the_server_keeps_every_answered_commit_and_no_half_one() -> None:
    parent = open_folder()
    server = EmbeddedPostgres(parent / "state")
    try:
        await upgrade(await server.start())
        log = await EventLog.open(server.url)
        await log.lead("test", "0")
        committed: list[Event] = []

        async def write() -> None:
            number = 0
            while True:
                number += 1
                committed.extend(await log.commit(Append(events=[pod(n, number) for n in range(5)])))
                if len(committed) == 50:
                    os.kill(server.pid, signal.SIGKILL)

        with pytest.raises(Temporary):
            await write()
        await log.close()
        await server.stop()
        await server.start()
        again = await EventLog.open(server.url)
        found = await again.read(0)
        assert found[: len(committed)] == committed
        assert len(found) - len(committed) in (0, 5)
        assert [event.position for event in found] == list(range(1, len(found) + 1))
        assert await again.lead("test", "0") == 2
        assert (await again.commit(Append(events=[timer("a")])))[0].position == len(found) + 1
        await again.close()
    finally:
        await server.stop()
        shutil.rmtree(parent, ignore_errors=True)


async def test_a_value_that_cannot_be_sent_is_a_bug_and_not_to_be_tried_for_ever(log: EventLog) -> None:
    with pytest.raises(asyncpg.DataError):
        await log.commit(Append(events=[timer("a")], cursor=2**70))
    assert len(await log.commit(Append(events=[timer("a")]))) == 1
