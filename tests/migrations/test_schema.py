"""The schema: up and down, on each release of Postgres; what it is made of; what an account may not do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from controller.errors import UserError
from controller.local.postgres import EmbeddedPostgres
from controller.log import Append, EventLog, migrate
from tests.log.words import job
from tests.migrations.servers import execute, fetch, new_database
from tests.postgres_fixture import open_folder, url_of

OURS = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'i') AND c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'alembic%'
ORDER BY 1, 2"""
FUNCTIONS = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace"


async def test_up_down_and_up_again_gives_the_same_schema(each_server: EmbeddedPostgres) -> None:
    url = await new_database(each_server)
    assert (await migrate.check(url)).database is None
    assert (await migrate.upgrade(url)).is_current
    first = await fetch(url, OURS)
    assert {row[0] for row in first} >= {"events", "heads", "log_head", "job_states", "transitions", "attempts"}
    assert (await migrate.downgrade(url)).database is None
    assert await fetch(url, OURS) == []
    assert await fetch(url, FUNCTIONS) == []
    assert (await migrate.upgrade(url)).is_current
    assert await fetch(url, OURS) == first
    assert (await migrate.check(url)).is_current


async def test_an_upgrade_of_a_current_database_changes_nothing_and_keeps_the_log(
    each_server: EmbeddedPostgres,
) -> None:
    url = await new_database(each_server)
    await migrate.upgrade(url)
    log = await EventLog.open(url)
    try:
        await log.lead("test", "0")
        events = await log.commit(Append(events=[job(1)]))
        assert await migrate.upgrade(url) == migrate.Revision(migrate.REVISIONS[-1])
        assert await log.read(0) == events != []
    finally:
        await log.close()


async def test_upgrades_at_the_same_time_wait_for_each_other(each_server: EmbeddedPostgres) -> None:
    url = await new_database(each_server)
    done = await asyncio.gather(*(migrate.upgrade(url) for _ in range(4)))
    assert [each.is_current for each in done] == [True] * 4
    assert await fetch(url, "SELECT version_num FROM alembic_version") == [(migrate.REVISIONS[-1],)]


async def test_a_failed_upgrade_leaves_the_database_as_it_was(each_server: EmbeddedPostgres) -> None:
    url = await new_database(each_server)
    await execute(url, "CREATE TABLE transitions (mine int)")
    with pytest.raises(UserError, match="transitions"):
        await migrate.upgrade(url)
    assert await fetch(url, OURS) == [("transitions", "mine", "integer", False)]
    assert (await migrate.check(url)).database is None


async def test_a_database_of_a_newer_revision_is_refused_and_untouched(each_server: EmbeddedPostgres) -> None:
    url = await new_database(each_server)
    await migrate.upgrade(url)
    await execute(url, "UPDATE alembic_version SET version_num = '0999'")
    before = await fetch(url, OURS)
    for refused in (migrate.upgrade(url), EventLog.open(url)):
        with pytest.raises(UserError, match="0999, newer than this tfjob-controller"):
            await refused
    assert await fetch(url, OURS) == before
    assert (await migrate.check(url)).is_newer


async def test_a_database_without_the_log_is_told_how_to_get_it(each_server: EmbeddedPostgres) -> None:
    with pytest.raises(UserError, match="run `tfjob db upgrade`"):
        await EventLog.open(await new_database(each_server))


async def test_every_table_is_explained_and_keyed_by_cluster(each_server: EmbeddedPostgres) -> None:
    url = await new_database(each_server)
    await migrate.upgrade(url)
    tables = await fetch(
        url,
        "SELECT c.relname::text, obj_description(c.oid), (SELECT a.attname::text FROM pg_index AS i"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
        " WHERE i.indrelid = c.oid AND i.indisprimary)"
        " FROM pg_class AS c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
        " AND c.relname <> 'alembic_version'",
    )
    assert len(tables) == 9
    assert [name for name, comment, _ in tables if not comment] == []
    assert {first for _, _, first in tables} == {"cluster_id"}


def test_the_code_works_with_the_newest_migration() -> None:
    assert migrate.newest_script() == migrate.REVISIONS[-1]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def untouched_server() -> AsyncIterator[EmbeddedPostgres]:
    """A server on which nobody has made our roles yet, with the account `plain`, which may not make any."""
    parent = open_folder()
    try:
        async with EmbeddedPostgres(parent / "state", durable=False) as server:
            await execute(server.dsn, "CREATE ROLE plain LOGIN PASSWORD 'right'")
            yield server
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def as_plain(url: str) -> str:
    """The same database, as the account `plain`."""
    return url.replace("//tfjob@", "//plain@")


async def test_without_the_right_to_make_roles_the_migration_says_so_and_goes_on(
    untouched_server: EmbeddedPostgres,
) -> None:
    url = as_plain(await new_database(untouched_server, owner="plain"))
    done = await migrate.upgrade(url)
    assert done.is_current
    assert [remark for remark in done.remarks if "plain may not create roles" in remark] != []
    log = await EventLog.open(url)
    try:
        await log.lead("test", "0")
        assert [event.position for event in await log.commit(Append(events=[job(1)]))] == [1]
    finally:
        await log.close()
    with pytest.raises(Exception, match="events is append-only: DELETE is refused"):
        await execute(url, "DELETE FROM events")


async def test_with_the_right_the_tables_go_to_the_owner_role(untouched_server: EmbeddedPostgres) -> None:
    url = await new_database(untouched_server)
    done = await migrate.upgrade(url)
    assert [remark for remark in done.remarks if "role" in remark] == []
    assert await fetch(url, "SELECT tableowner::text FROM pg_tables WHERE tablename = 'events'") == [("tfjob_owner",)]
    # Now that the roles are there, an account that may not make them migrates its own database all the same.
    other = as_plain(await new_database(untouched_server, owner="plain"))
    done = await migrate.upgrade(other)
    assert done.is_current
    assert any("the tables stay with plain" in remark for remark in done.remarks)


async def test_a_login_with_the_writers_role_writes_the_log(untouched_server: EmbeddedPostgres) -> None:
    url = await new_database(untouched_server)
    await migrate.upgrade(url)
    await execute(url, "GRANT tfjob_writer TO plain")
    log = await EventLog.open(as_plain(url))
    try:
        await log.lead("test", "0")
        events = await log.commit(Append(events=[job(1)], cursor=1))
        assert await log.read(0) == events != []
        assert await log.cursor() == 1
    finally:
        await log.close()
        await execute(url, "REVOKE tfjob_writer FROM plain")


async def test_a_wrong_password_is_one_line_without_the_password(untouched_server: EmbeddedPostgres) -> None:
    [[found]] = await fetch(untouched_server.dsn, "SHOW hba_file")
    hba = Path(str(found))
    rules = hba.read_text()
    hba.write_text(f"local all plain scram-sha-256\n{rules}")
    await execute(untouched_server.dsn, "SELECT pg_reload_conf()")
    try:
        url = url_of(untouched_server, "tfjob")
        for work in (migrate.check, migrate.upgrade, EventLog.open):
            with pytest.raises(UserError, match=r'refuses the login: password authentication failed for user "plain"$'):
                await work(url.replace("//tfjob@", "//plain:wrong@"))
        assert (await migrate.check(url.replace("//tfjob@", "//plain:right@"))).database is None
    finally:
        hba.write_text(rules)
        await execute(untouched_server.dsn, "SELECT pg_reload_conf()")
