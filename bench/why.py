"""`tfjob why` on a large log: how long the database needs, and how long the whole answer takes.

    python bench/why.py [--events 1000000] [--asks 200]

The log is filled with the histories of scenarios, many times under other uids, as the tests do. Asked are jobs from
everywhere in it, by name, each for the first time. "Database" is the time of the queries, round trips included.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import sys
import time
from pathlib import Path

import asyncpg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from controller.cli.why import answer_of, find
from controller.fold import decode_state
from controller.history import lines_of
from controller.local.postgres import EmbeddedPostgres
from controller.log import EventLog, migrate
from tests.history.filled import RICH, fill, multiply, play_text
from tests.postgres_fixture import open_folder

TARGET_MS = 10.0
ROUND = 100
"""Copies that one statement makes."""


async def main(events: int, asks: int) -> int:
    folder = open_folder()
    try:
        async with EmbeddedPostgres(folder / "state", durable=False) as postgres:
            await migrate.upgrade(postgres.url)
            log = await EventLog.open(postgres.url)
            await log.lead("bench", "0")
            await fill(log, play_text(folder, RICH), "a", "team")
            count = await grow(postgres.dsn, events)
            result = await measure(log, asks)
            await log.close()
    finally:
        shutil.rmtree(folder)
    print(f"{count:,} events: database {result['database']:.2f} ms (median), {result['worst']:.2f} ms (p99);"
          f" whole answer {result['whole']:.2f} ms (median); target for the database {TARGET_MS:.0f} ms")  # fmt: skip
    return 0 if result["database"] <= TARGET_MS else 1


async def grow(dsn: str, events: int) -> int:
    """Copies what is there until there are so many events."""
    connection = await asyncpg.connect(dsn)
    try:
        first = await connection.fetchval("SELECT max(position) FROM events")
        copies = events // first
        for start in range(1, copies + 1, ROUND):
            for statement in multiply(start, min(start + ROUND - 1, copies), first):
                await connection.execute(statement, timeout=600)
            print(f"\r{start * first:,} events", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        await connection.execute("VACUUM ANALYZE", timeout=600)
        return int(await connection.fetchval("SELECT max(position) FROM events"))
    finally:
        await connection.close()


async def measure(log: EventLog, asks: int) -> dict[str, float]:
    """Milliseconds for one job after another, from everywhere in the log."""
    jobs = await log.list_jobs()
    luck = random.Random(1)
    database, whole = [], []
    for job in luck.sample(jobs, min(asks, len(jobs))):
        begin = time.perf_counter()
        found = (await find(log, job.name, job.namespace))[0]
        record = await log.job_record(found.job_uid)
        assert record is not None
        await log.transitions_of(found.job_uid)
        await log.cluster_facts(decode_state(record.state).position)
        database.append((time.perf_counter() - begin) * 1000)
        begin = time.perf_counter()
        lines = lines_of(await answer_of(log, (await find(log, job.name, job.namespace))[0]))
        whole.append((time.perf_counter() - begin) * 1000)
        assert any("chief-0, attempt 1" in line for line in lines), lines
    return {
        "database": statistics.median(database),
        "worst": statistics.quantiles(database, n=100)[98],
        "whole": statistics.median(whole),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--asks", type=int, default=200)
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.events, given.asks)))
