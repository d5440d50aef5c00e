"""Fixtures of a real Postgres: one server for the whole run, one fresh database for each test that asks.

In: the binaries that the launcher finds. Out: URLs `postgresql+asyncpg://…`.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest_asyncio

from controller.local.postgres import EmbeddedPostgres

_TEMPLATE = "tfjob_template"
_numbers = itertools.count(1)


def open_folder() -> Path:
    """A new folder that every account may pass through, to be removed by the caller: as root the server runs as
    another account, which cannot enter pytest's private `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="tfjob-test-"))
    folder.chmod(0o711)
    return folder


def url_of(postgres: EmbeddedPostgres, database: str) -> str:
    """The SQLAlchemy URL of another database of that server."""
    return postgres.url.replace("/tfjob?", f"/{database}?", 1)


async def _execute(postgres: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres() -> AsyncIterator[EmbeddedPostgres]:
    """One server for the run, without fsync."""
    parent = open_folder()
    try:
        async with EmbeddedPostgres(parent / "state", durable=False) as server:
            yield server
    finally:
        shutil.rmtree(parent, ignore_errors=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def template_database(postgres: EmbeddedPostgres) -> str:
    """The name of a database with the newest schema, from which each test's database is copied."""
    await _execute(postgres, f'CREATE DATABASE "{_TEMPLATE}"')
    if importlib.util.find_spec("controller.log.migrate") is not None:
        from controller.log.migrate import upgrade

        await upgrade(url_of(postgres, _TEMPLATE))
    return _TEMPLATE


@asynccontextmanager
async def fresh_database(postgres: EmbeddedPostgres, template_database: str) -> AsyncIterator[str]:
    """The URL of a new database with the newest schema, for as long as it is used."""
    name = f"test_{next(_numbers)}"
    await _execute(postgres, f'CREATE DATABASE "{name}" TEMPLATE "{template_database}"')
    try:
        yield url_of(postgres, name)
    finally:
        await _execute(postgres, f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest_asyncio.fixture(loop_scope="session")
async def database_url(postgres: EmbeddedPostgres, template_database: str) -> AsyncIterator[str]:
    """The URL of a database of this test alone, with the newest schema; dropped after the test."""
    async with fresh_database(postgres, template_database) as url:
        yield url
