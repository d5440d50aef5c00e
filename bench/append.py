"""How many events a second go from a batch into a committed log, what they cost, and how fast they are read back.

Pods as a real API server shows them, normalised by watch/, in batches of several sizes, into a Postgres with fsync.

    python bench/append.py [--events 10000] [--bin-dir FOLDER_OF_ANOTHER_POSTGRES] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

sys.path.insert(0, str(Path(__file__).parent))
from watch import lines_of  # the same pods as bench/watch.py

from controller.local.postgres import EmbeddedPostgres
from controller.log import Append, EventLog, NewEvent, SessionMark
from controller.log.migrate import upgrade
from controller.model.events import Op
from controller.watch.lines import line_of
from controller.watch.normalise import Normaliser
from controller.watch.redact import Redaction
from controller.watch.resources import PODS

BATCHES = (1, 10, 100, 500)
READ_ROWS = 2000


def observed(count: int) -> list[NewEvent]:
    """That many pod events as the loops hand them to the log."""
    normaliser = Normaliser(Redaction(b"k" * 32))
    found = []
    for number, line in enumerate(lines_of(count)):
        read = line_of(line)
        seen = normaliser.observation(PODS, read.op or Op.ADDED, read.object, 1_800_000_000_000_000 + number)
        names = NewEvent.__struct_fields__
        found.append(NewEvent(**{name: getattr(seen, name) for name in names if hasattr(seen, name)}))
    return found


def open_folder() -> Path:
    """A folder that the server's account can enter too."""
    folder = Path(tempfile.mkdtemp(prefix="tfjob-bench-"))
    folder.chmod(0o711)
    return folder


@asynccontextmanager
async def new_log(bin_dir: Path | None) -> AsyncIterator[tuple[EmbeddedPostgres, EventLog]]:
    folder = open_folder()
    try:
        async with EmbeddedPostgres(folder / "state", bin_dir=bin_dir) as postgres:
            await upgrade(postgres.url)
            log = await EventLog.open(postgres.url)
            await log.lead("bench", "0")
            yield postgres, log
            await log.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def appended(batch: int, events: list[NewEvent], bin_dir: Path | None) -> dict[str, float]:
    """Figures of appending `events` in batches of `batch`, and of reading them back."""
    async with new_log(bin_dir) as (postgres, log):
        looker = await asyncpg.connect(postgres.dsn)
        try:
            # The first batch makes the server's caches warm; a checkpoint makes full pages count as they do in life.
            await log.commit(Append(events=events[:batch]))
            await looker.execute("CHECKPOINT")
            before = await looker.fetchval("SELECT pg_current_wal_insert_lsn()")
            wall, cpu = time.perf_counter(), time.process_time()
            slowest = 0.0
            for start in range(batch, len(events), batch):
                began = time.perf_counter()
                part = events[start : start + batch]
                mark = SessionMark("pods", part[-1].resource_version, at=part[-1].observed_at)
                await log.commit(Append(events=part, marks=[mark], cursor=start))
                slowest = max(slowest, time.perf_counter() - began)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            count = len(events) - batch
            wal = await looker.fetchval("SELECT pg_current_wal_insert_lsn() - $1::pg_lsn", before)
            stored = await looker.fetchval(
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
                " AND relname IN ('events', 'heads', 'object_specs')"
            )
            began, position = time.perf_counter(), 0
            while page := await log.read(position, limit=READ_ROWS):
                position = page[-1].position
            read = time.perf_counter() - began
            assert position == len(events)
        finally:
            await looker.close()
    return {
        "batch": batch,
        "events": count,
        "events_per_second": round(count / wall),
        "client_cpu_us_per_event": round(cpu / count * 1e6, 1),
        "slowest_commit_ms": round(slowest * 1e3, 1),
        "wal_bytes_per_event": round(int(wal) / count),
        "stored_bytes_per_event": round(int(stored) / len(events)),
        "read_events_per_second": round(len(events) / read),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--bin-dir", type=Path, default=None, help="folder of another Postgres' binaries")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    events = observed(options.events)
    # One event a commit is two orders slower: a tenth of them tells as much.
    results = [
        asyncio.run(appended(batch, events[: max(options.events // (10 if batch == 1 else 1), 2)], options.bin_dir))
        for batch in BATCHES
    ]
    if options.json:
        print(json.dumps(results))
        return
    body = sum(len(each.body or b"") for each in events) // len(events)
    print(f"bodies of {body} bytes on average")
    for key in results[0]:
        print(f"{key:28}" + "".join(f"{result[key]:>12}" for result in results))


if __name__ == "__main__":
    main()
