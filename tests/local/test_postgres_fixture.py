"""The shared fixtures: one server, and a database that no other test has touched."""

import asyncpg
import pytest

from controller.local.postgres import EmbeddedPostgres


@pytest.mark.parametrize("run", [1, 2])
async def test_each_test_has_a_fresh_database_of_the_same_server(
    run: int, postgres: EmbeddedPostgres, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        await connection.execute("CREATE TABLE mark (run int)")
        assert await connection.fetchval("SELECT current_database()") != "tfjob"
        assert await connection.fetchval("SELECT count(*) FROM mark") == 0
        host = await connection.fetchval("SHOW unix_socket_directories")
        assert host in postgres.dsn
    finally:
        await connection.close()
