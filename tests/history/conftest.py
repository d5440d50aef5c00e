"""Fixtures of the history's tests: a log that the test leads; a database with many jobs for tests that only read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from controller.local.postgres import EmbeddedPostgres
from controller.log import EventLog
from tests.history.filled import RICH, STALLED, fill, given, multiply, play, play_text
from tests.log.conftest import log
from tests.postgres_fixture import fresh_database

__all__ = ["log"]

COPIES = 30
SCENARIOS = 40


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def filled_url(
    postgres: EmbeddedPostgres, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A database with the histories of many scenarios, each under many uids, and of RICH and STALLED in team-0."""
    async with fresh_database(postgres, template_database) as url:
        log = await EventLog.open(url)
        await log.lead("test", "0")
        folder = tmp_path_factory.mktemp("scenarios")
        await fill(log, play_text(folder, RICH), "rich", "team-0")
        await fill(log, play_text(folder, STALLED), "stalled", "team-0")
        for number, file in enumerate(given(SCENARIOS), 1):
            await fill(log, play(file), f"s{number}", f"team-{number}")
        await log.close()
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            last = await connection.fetchval("SELECT max(position) FROM events")
            for statement in (*multiply(1, COPIES, last), "ANALYZE"):
                await connection.execute(statement)
        finally:
            await connection.close()
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def filled(filled_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to that database."""
    connection = await asyncpg.connect(filled_url.replace("+asyncpg", ""))
    yield connection
    await connection.close()
