"""The loops while the log is away, was set back, or is another's: no pod twice, no end lost, one clear line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.errors import UserError
from controller.local.postgres import EmbeddedPostgres
from controller.log import EventLog
from controller.run import supervise
from tests.cluster.harness import until
from tests.run.world import databases_of, world_of

TWICE = (
    "SELECT count(*) FROM (SELECT FROM events WHERE op NOT IN ('DECIDED', 'ACTION', 'TIMER', 'LEADER', 'GAP', 'SYNCED',"
    " 'SETTINGS') GROUP BY uid, resource_version, op HAVING count(*) > 1) AS each"
)


async def test_a_log_that_was_restored_from_a_backup_is_led_again_and_caught_up(
    database_url: str, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    async with databases_of(database_url, postgres.dsn) as databases, world_of(database_url, tmp_path) as world:
        world.start()
        await world.submit("before")
        await until(lambda: world.has_pods("before-worker-0"), "the pod of the job before the backup")
        await world.stop()
        await databases.copy("backup")
        world.start()
        await world.submit("after", workers=2)
        await until(lambda: world.has_pods("after-worker-0", "after-worker-1"), "the pods of the job after the backup")
        await until(lambda: world.is_in("after", "Created"), "the job is Created")
        pods = await world.pods()
        try:
            await databases.rename(databases.name, "lost")
            await world.end("after-worker-0")
            await databases.rename("backup", databases.name)
            gaps = "SELECT body->>'reason' FROM events WHERE op = 'GAP'"

            async def is_relisted() -> bool:
                return "LogRewound" in await world.fetch(gaps)

            await until(is_relisted, "the log says that it went back")
            await until(lambda: world.is_in("after", "Succeeded"), "the end that came meanwhile")
            await world.end("before-worker-0")
            await until(lambda: world.is_in("before", "Succeeded"), "the older job's end")
            assert await world.fetch("SELECT incarnation FROM log_head") == [2]
            assert await world.fetch(TWICE) == [0]
            left = await world.pods()
            assert left.items() <= pods.items(), "no pod was made twice"
            await world.stop()
        finally:
            await databases.drop("lost")


async def test_a_database_that_is_away_for_a_while_loses_nothing(
    database_url: str, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    async with databases_of(database_url, postgres.dsn) as databases, world_of(database_url, tmp_path) as world:
        world.start()
        await world.submit("one")
        await until(lambda: world.has_pods("one-worker-0"), "its pod")
        await databases.rename(databases.name, "away")
        await world.end("one-worker-0")
        await world.submit("two")
        assert world.task is not None
        await asyncio.wait([world.task], timeout=2.0)
        assert not world.task.done()
        assert not await world.has_pods("two-worker-0"), "nothing is sent before its decision is committed"
        await databases.rename("away", databases.name)
        await until(lambda: world.is_in("one", "Succeeded"), "the end that came meanwhile")
        await until(lambda: world.has_pods("two-worker-0"), "the job that came meanwhile")
        await world.stop()
        assert await world.fetch(TWICE) == [0]


async def test_a_stop_while_the_database_is_away_ends_with_one_line(
    database_url: str, postgres: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "DRAIN_SECONDS", 1.0)
    async with databases_of(database_url, postgres.dsn) as databases, world_of(database_url, tmp_path) as world:
        world.start()
        await world.submit("one")
        await until(lambda: world.has_pods("one-worker-0"), "its pod")
        await databases.rename(databases.name, "gone")
        try:
            await world.end("one-worker-0")
            await world.submit("two")
            with pytest.raises(UserError, match="did not take the last events") as caught:
                async with asyncio.timeout(15):
                    await world.stop()
            assert caught.value.exit_code == 1
        finally:
            await databases.rename("gone", databases.name)
        world.start()
        await until(lambda: world.is_in("one", "Succeeded"), "the end that came meanwhile")
        await until(lambda: world.has_pods("two-worker-0"), "the job that came meanwhile")
        await world.stop()


async def test_another_leader_ends_the_controller_with_one_line(database_url: str, tmp_path: Path) -> None:
    async with world_of(database_url, tmp_path) as world:
        world.start()
        await world.submit("one")
        await until(lambda: world.has_pods("one-worker-0"), "its pod")
        other = await EventLog.open(database_url)
        await other.lead("other", "0")
        await world.submit("two")
        assert world.task is not None
        with pytest.raises(UserError, match="epoch 2 leads") as caught:
            async with asyncio.timeout(15):
                await world.task
        assert caught.value.exit_code == 1
        world.task = None
        await other.close()
