"""One writer a log: a new leader's epoch shuts the old one out, whatever it is doing; a log set back is noticed."""

from __future__ import annotations

import asyncpg
import pytest

from controller.log import Append, EventLog, Fenced, LogWentBack
from controller.log.connection import dsn_of
from tests.log.words import pod, timer


async def test_without_having_taken_the_log_over_nothing_is_written(database_url: str) -> None:
    log = await EventLog.open(database_url)
    with pytest.raises(Fenced):
        await log.commit(Append(events=[timer("a")]))
    await log.close()


async def test_each_leader_has_a_higher_epoch_and_the_one_before_is_refused(log: EventLog, database_url: str) -> None:
    ours = await log.commit(Append(events=[pod(0, 1)]))
    other = await EventLog.open(database_url)
    assert await other.lead("other", "0") == 2
    with pytest.raises(Fenced):
        await log.commit(Append(events=[pod(0, 2)]))
    with pytest.raises(Fenced):
        await log.commit(Append(cursor=1))
    theirs = await other.commit(Append(events=[pod(0, 1), pod(0, 3)]))
    assert await other.read(0) == ours + theirs
    assert await log.lead("test", "0") == 3
    assert not log.is_rewound
    with pytest.raises(Fenced):
        await other.commit(Append(events=[pod(0, 4)]))
    await other.close()


async def test_the_epoch_is_above_what_the_lease_says(log: EventLog) -> None:
    assert await log.lead("test", "0", at_least_epoch=41) == 42


async def test_a_new_leader_ends_a_session_that_hangs_in_its_commit(log: EventLog, database_url: str) -> None:
    await log.commit(Append(events=[pod(0, 1)]))
    hanging = log._writer._connection
    assert hanging is not None
    await hanging.execute("BEGIN")
    await hanging.fetch("SELECT * FROM log_head FOR UPDATE")
    other = await EventLog.open(database_url)
    assert await other.lead("other", "0") == 2
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
        await hanging.execute("COMMIT")
    assert [event.position for event in await other.commit(Append(events=[pod(0, 2)]))] == [2]
    await other.close()


async def test_a_log_that_was_set_back_is_not_written_to_before_leading_again(log: EventLog, database_url: str) -> None:
    kept = await log.commit(Append(events=[pod(0, 1)]))
    connection = await asyncpg.connect(dsn_of(database_url))
    saved = await connection.fetchrow("SELECT position, commit_hash, observed_at FROM log_head")
    await log.commit(Append(events=[pod(0, 2), pod(0, 3)]))
    # What a restore, or the promotion of a replica that lagged, leaves behind.
    await connection.execute("ALTER TABLE events DISABLE TRIGGER events_append_only")
    await connection.execute("DELETE FROM events WHERE position > 1")
    await connection.execute("UPDATE heads SET resource_version = 1")
    await connection.execute("UPDATE log_head SET position = $1, commit_hash = $2, observed_at = $3", *saved)
    await connection.execute("ALTER TABLE events ENABLE ALWAYS TRIGGER events_append_only")
    with pytest.raises(LogWentBack):
        await log.commit(Append(events=[pod(0, 4)]))
    before = log.incarnation
    await log.lead("test", "0")
    assert (log.is_rewound, log.incarnation) == (True, before + 1)
    events = await log.commit(Append(events=[pod(0, 4)]))
    assert await log.read(0) == kept + events
    assert await connection.fetchval("SELECT incarnation FROM events WHERE position = 2") == before + 1
    await connection.close()
