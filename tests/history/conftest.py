"""Fixtures of the history's tests: a log that the test leads; a database with many jobs for tests that only read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from controller.local.postgres import EmbeddedPostgres
from controller.log import EventLog
from tests.history.filled import RICH, STALLED, fill, given, play, play_text
from tests.log.conftest import log
from tests.postgres_fixture import fresh_database

__all__ = ["log"]

COPIES = 30
SCENARIOS = 40

LAST = f"""(SELECT position / {COPIES + 1} AS last FROM (SELECT max(position) AS position FROM events) AS e) AS m"""
# The same jobs again under other uids, so that a plan without an index is no longer the cheapest.
MULTIPLY = [
    f"""INSERT INTO events (cluster_id, position, epoch, observed_at, incarnation, schema_number, resource_version, op,
        kind, namespace, name, uid, job_uid, job_name, spec_hash, key, body)
    SELECT cluster_id, position + n * last, epoch, observed_at, incarnation, schema_number, resource_version, op,
        kind, namespace || '-' || n, name, uid || '-' || n, job_uid || '-' || n, job_name, spec_hash,
        key || '-' || n, body
    FROM events, generate_series(1, {COPIES}) AS n, (SELECT max(position) AS last FROM events) AS m""",
    f"""INSERT INTO transitions
    SELECT cluster_id, job_uid || '-' || n, position + n * last, ordinal, at, by_gap, type, status, reason, message
    FROM transitions, generate_series(1, {COPIES}) AS n, {LAST}""",
    f"""INSERT INTO attempts
    SELECT cluster_id, job_uid || '-' || n, type, index, attempt, position + n * last, started_at, finished_at,
        exit_code, pod_name, pod_uid || '-' || n, node, spec_hash, how, reason, message, ended_by
    FROM attempts, generate_series(1, {COPIES}) AS n, {LAST}""",
    f"""INSERT INTO job_states
    SELECT cluster_id, job_uid || '-' || n, position + n * last, is_over, namespace || '-' || n, name,
        phase, parked, state
    FROM job_states, generate_series(1, {COPIES}) AS n, {LAST}""",
    "UPDATE log_head SET position = (SELECT max(position) FROM events)",
    "ANALYZE",
]


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
            for statement in MULTIPLY:
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
