"""Commit order is the order of positions, for readers beside writers that fight for the log; what queries look at."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import asyncpg
import pytest

from controller.errors import Temporary
from controller.log import Append, EventLog, Fenced, LogWentBack, reader, statements
from controller.log.connection import connect
from controller.model.events import Event
from tests.log.words import job, pod

WRITERS = 3
BATCHES = 8


async def _write(url: str, name: int, rng: random.Random) -> list[Event]:
    """Commits batches of pods of its own, taking the log over again whenever another has it."""
    log = await EventLog.open(url)
    written: list[Event] = []
    try:
        await log.lead(f"writer {name}", "0")
        for batch in range(BATCHES):
            news = [pod(name * 1000 + batch * 10 + each, 1) for each in range(rng.randint(1, 9))]
            while True:
                try:
                    written += await log.commit(Append(events=news))
                    break
                except (Fenced, Temporary, LogWentBack):
                    await log.lead(f"writer {name}", "0")
                    # What it had in flight may be in the log: then it is dropped here, and counted by the reader.
        return written
    finally:
        await log.close()


async def _tail(url: str, is_over: asyncio.Event) -> list[Event]:
    """Reads on from the last position until the writers are through and nothing more comes."""
    log = await EventLog.open(url)
    seen: list[Event] = []
    try:
        while True:
            ended = is_over.is_set()
            page = await log.read(seen[-1].position if seen else 0, limit=7)
            seen += page
            if ended and not page:
                return seen
    finally:
        await log.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_writers_that_fight_for_the_log_leave_one_gapless_order(database_url: str, seed: int) -> None:
    rng = random.Random(seed)
    opened = await EventLog.open(database_url)
    await opened.lead("first", "0")
    await opened.close()
    is_over = asyncio.Event()
    readers = [asyncio.create_task(_tail(database_url, is_over)) for _ in range(2)]
    results = await asyncio.gather(
        *(_write(database_url, name, random.Random(rng.random())) for name in range(WRITERS))
    )
    is_over.set()
    first, second = await asyncio.gather(*readers)
    assert first == second
    assert [event.position for event in first] == list(range(1, len(first) + 1))
    assert len({event.uid for event in first}) == len(first), "an object's version is in the log twice"
    told = {event.position: event for events in results for event in events}
    assert told.items() <= {event.position: event for event in first}.items()
    looker = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        epochs = [row[0] for row in await looker.fetch("SELECT epoch FROM events ORDER BY position")]
    finally:
        await looker.close()
    assert epochs == sorted(epochs), "a row of an old leader stands behind a new leader's"
    assert len(set(epochs)) > WRITERS, f"with seed {seed} the writers did not fight"


async def test_other_processes_are_woken_once_for_each_commit(log: EventLog, database_url: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        await listener.add_listener("tfjob_log", lambda *given: heard.put_nowait(str(given[-1])))
        await log.commit(Append(events=[job(1), pod(0, 2), pod(1, 3)]))
        await log.commit(Append(cursor=3))
        await log.commit(Append(events=[pod(0, 4)]))
        told = [json.loads(await asyncio.wait_for(heard.get(), 5)) for _ in range(3)]
    finally:
        await listener.close()
    assert told == [{"cluster": "default", "position": position} for position in (3, 3, 4)]
    assert heard.empty()


async def test_a_log_that_is_gone_is_not_begun_anew_behind_the_writers_back(log: EventLog, database_url: str) -> None:
    await log.commit(Append(events=[job(1)]))
    looker = await connect(database_url)
    try:
        await looker.execute("DELETE FROM log_head")
    finally:
        await looker.close()
    with pytest.raises(LogWentBack, match="not in this database any more"):
        await log.commit(Append(events=[job(2)]))


PLANS = {
    "the lock": (statements.LOCK, [1]),
    "what is known of a batch": (statements.KNOWN, [1, ["job-pod-1", "job-pod-2"], ["key-1"]]),
    "a page": (reader._READ, [1, 10, 2**62, 100]),
    "a job's history": (reader._READ_JOB, [1, "job-7-uid", 2**62]),
    "what decides the context": (reader._LASTING, [1, 2**62]),
}


MANY = """
INSERT INTO events (cluster_id, position, epoch, observed_at, incarnation, schema_number, resource_version, op, kind,
    namespace, name, uid, job_uid, job_name, body)
SELECT 1, n, 1, to_timestamp(n), 1, 1, n, 'MODIFIED', CASE n % 100 WHEN 0 THEN 'TFJob' ELSE 'Pod' END,
    'ns', 'job-' || n / 100 || '-' || n, 'pod-' || n, 'job-' || n / 100 || '-uid', 'job-' || n / 100, '{}'
FROM generate_series(1, 100000) AS n"""
MANY_HEADS = """
INSERT INTO heads (cluster_id, uid, position, resource_version, is_deleted, kind, namespace, name)
SELECT 1, 'pod-' || n, n, n, n % 2 = 0, 'Pod', 'ns', 'pod-' || n FROM generate_series(1, 100000) AS n"""


async def test_what_is_asked_often_reads_no_table_from_end_to_end(log: EventLog, database_url: str) -> None:
    looker = await connect(database_url)
    try:
        for statement in (MANY, MANY_HEADS, "ANALYZE", "SET plan_cache_mode = force_generic_plan"):
            await looker.execute(statement)
        scanned = {}
        for name, (statement, arguments) in PLANS.items():
            rows = await looker.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
            nodes = _nodes(json.loads(rows[0][0])[0]["Plan"])
            whole = [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"]
            scanned[name] = [table for table in whole if table in ("events", "heads")]
        assert scanned == {name: [] for name in PLANS}
    finally:
        await looker.close()


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]
