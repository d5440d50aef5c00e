"""Postgres servers of each release that the log is tested on: 18 (the embedded one) and 15 (Debian's, where it is).

Out: the fixture `each_server`, parametrised by release, and `new_database`. Never: a server shared with other tests.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from controller.local.postgres import EmbeddedPostgres
from tests.postgres_fixture import open_folder, url_of

DEBIANS_15 = Path("/usr/lib/postgresql/15/bin")

RELEASES = {"18": None} | ({"15": DEBIANS_15} if (DEBIANS_15 / "postgres").exists() else {})
"""Release → the folder of its binaries; None: the embedded one."""

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=list(RELEASES))
async def each_server(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedPostgres]:
    """A server of each release that is here, without fsync."""
    parent = open_folder()
    try:
        async with EmbeddedPostgres(parent / "state", bin_dir=RELEASES[request.param], durable=False) as server:
            yield server
    finally:
        shutil.rmtree(parent, ignore_errors=True)


async def new_database(server: EmbeddedPostgres, owner: str = "tfjob") -> str:
    """The URL of a new, empty database of that server."""
    name = f"empty_{next(_numbers)}"
    await execute(server.dsn, f'CREATE DATABASE "{name}" OWNER "{owner}"')
    return url_of(server, name)


async def execute(url: str, *statements: str) -> None:
    """Runs statements one after another."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    """The rows of a query."""
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()
