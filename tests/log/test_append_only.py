"""What happened stays: by trigger for everyone, by role for who writes and who only looks."""

from __future__ import annotations

import asyncpg
import pytest

from controller.log import Append, EventLog
from controller.log.connection import dsn_of
from controller.model.events import Transition
from tests.log.words import NOW, job


@pytest.mark.parametrize("table", ["events", "object_specs", "transitions"])
@pytest.mark.parametrize("change", ["UPDATE {} SET cluster_id = cluster_id", "DELETE FROM {}", "TRUNCATE {}"])
async def test_no_change_is_taken_not_even_from_a_superuser(
    log: EventLog, database_url: str, table: str, change: str
) -> None:
    await log.commit(
        Append(events=[job(1)], transitions=[("job-uid", Transition(1, 0, "Created", "True", "r", "m", NOW))])
    )
    connection = await asyncpg.connect(dsn_of(database_url))
    try:
        await connection.execute("SET session_replication_role = replica")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
            await connection.execute(change.format(table))
        assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 1
    finally:
        await connection.close()


_ALLOWED = {
    "tfjob_writer": {
        "events": {"SELECT", "INSERT"},
        "object_specs": {"SELECT", "INSERT"},
        "transitions": {"SELECT", "INSERT"},
        "heads": {"SELECT", "INSERT", "UPDATE"},
        "log_head": {"SELECT", "INSERT", "UPDATE"},
        "job_states": {"SELECT", "INSERT", "UPDATE"},
    },
    "tfjob_auditor": {table: {"SELECT"} for table in ("events", "object_specs", "transitions", "heads", "log_head")},
}


@pytest.mark.parametrize("role", sorted(_ALLOWED))
async def test_the_roles_may_do_what_their_names_say_and_no_more(database_url: str, role: str) -> None:
    connection = await asyncpg.connect(dsn_of(database_url))
    privileges = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
    found = {
        table: {each for each in privileges if await connection.fetchval(_HAS, role, table, each)}
        for table in _ALLOWED[role]
    }
    await connection.close()
    assert found == _ALLOWED[role]


_HAS = "SELECT has_table_privilege($1, $2, $3)"


async def test_an_account_with_the_writers_role_writes_a_log_and_an_auditor_reads_it(database_url: str) -> None:
    owner = await asyncpg.connect(dsn_of(database_url))
    for account, role in (("clerk", "tfjob_writer"), ("looker", "tfjob_auditor")):
        if not await owner.fetchval("SELECT count(*) FROM pg_roles WHERE rolname = $1", account):
            await owner.execute(f"CREATE ROLE {account} LOGIN IN ROLE {role}")
    await owner.close()
    log = await EventLog.open(_as(database_url, "clerk"))
    await log.lead("test", "0")
    events = await log.commit(Append(events=[job(1)]))
    await log.close()
    auditor = await EventLog.open(_as(database_url, "looker"))
    assert await auditor.read(0) == events
    await auditor.close()


def _as(url: str, account: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{account}@{rest.partition('@')[2]}"
