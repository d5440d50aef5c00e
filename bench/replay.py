"""Replaying: events a second and core, with everything that is decided after each, from a tape and from Postgres.

    python bench/replay.py [--jobs 60] [--replicas 100]

The tape's jobs are of the given size. Memory is the growth of the process while a tape of ten times the jobs is read.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.fold import history_of
from controller.history.diff import compare_jobs
from controller.history.replay import fold_job, replay
from controller.history.tape import JobLine, Recorded, read_tape, write_tape
from controller.history.tape_log import import_jobs
from controller.local.postgres import EmbeddedPostgres
from controller.log import EventLog, migrate
from controller.model.events import Event
from controller.model.instants import HOUR
from tests.postgres_fixture import open_folder

TARGET_FILE, TARGET_POSTGRES = 25_000, 15_000


def jobs_of(events: list[Event], count: int) -> Iterator[Recorded]:
    """The same history under many uids, one after another in the log."""
    uid = next(event.job_uid for event in events if event.job_uid) or ""
    size = events[-1].position
    for number in range(count):
        named = [_renamed(event, uid, number, size) for event in events]
        line = JobLine(f"{uid}-{number}", "team", f"job-{number}", (number + 1) * size)
        recorded = Recorded(line, named, [])
        then = [each for moment in fold_job(recorded) for each in moment.step.transitions]
        yield Recorded(line, named, then)


def _renamed(event: Event, uid: str, number: int, size: int) -> Event:
    fact = event.fact
    if hasattr(fact, "decided_position"):
        fact = structs.replace(fact, decided_position=fact.decided_position + number * size)
    return structs.replace(
        event,
        fact=fact,
        position=event.position + number * size,
        observed_at=event.observed_at + number * HOUR,
        uid=f"{event.uid}-{number}" if event.uid else "",
        job_uid=f"{event.job_uid}-{number}" if event.job_uid else None,
        job_name=None if event.job_name is None else f"job-{number}",
        name=f"job-{number}" if event.uid == uid else event.name,
        spec_hash="ab" * 16 if event.spec_hash else None,
    )


def of_file(path: Path) -> tuple[int, float]:
    """(events, seconds) of a tape, read, checked and replayed."""
    begin, events = time.perf_counter(), 0
    for recorded in read_tape(path):
        result = replay(recorded)
        assert result.difference is None, result.difference
        events += result.events
    return events, time.perf_counter() - begin


async def of_postgres(path: Path, url: str) -> tuple[int, float]:
    """(events, seconds) of the same jobs in a log; the server is another process, its time is waited for."""
    log = await EventLog.open(url, cluster="bench")
    await import_jobs(log, read_tape(path), "bench", "0")
    uids = [row.job_uid for row in await log.list_jobs()]
    begin = time.perf_counter()
    results = await compare_jobs(log, "bench", uids)
    seconds = time.perf_counter() - begin
    assert not any(each.differs for each in results), [each for each in results if each.differs][:1]
    await log.close()
    return sum(each.events for each in results), seconds


async def main(jobs: int, replicas: int) -> int:
    events = history_of(replicas - 1, 0)
    folder = open_folder()
    try:
        small, large = folder / "small.tape", folder / "large.tape"
        for path, count in ((small, jobs), (large, jobs * 10)):
            with path.open("wb") as out:
                write_tape(out, jobs_of(events, count), "bench")
        count, seconds = of_file(small)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        of_file(large)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        per_file = count / seconds
        async with EmbeddedPostgres(folder / "state", durable=False) as postgres:
            await migrate.upgrade(postgres.url)
            count, seconds = await of_postgres(small, postgres.url)
        per_postgres = count / seconds
    finally:
        shutil.rmtree(folder)
    print(
        f"{replicas} replicas a job, {count:,} events: {per_file:,.0f} events/s from a tape (target {TARGET_FILE:,}), "
        f"{per_postgres:,.0f} from Postgres (target {TARGET_POSTGRES:,}); "
        f"ten times the tape takes {grown / 1024:.1f} MB more"
    )
    return 0 if per_file >= TARGET_FILE and per_postgres >= TARGET_POSTGRES else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--replicas", type=int, default=100)
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.jobs, given.replicas)))
