"""`tfjob export JOB… > job.tape`, `tfjob import FILE`, `tfjob tape check FILE…`: histories that leave the log and come
back.

In: names of jobs; tapes. Out: a tape on stdout or in a file; a log filled; exit 1 when a job is not known, 2 when a
file is no whole tape. Never: a tape onto a terminal; a file that is left half written.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP
from controller.errors import UserError

if TYPE_CHECKING:
    from controller.history.tape import Recorded
    from controller.log import JobRow


def export(
    jobs: list[str] = typer.Argument(None, help="Names, namespace/name, or uids. Unset: with --all or --failed."),
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Unset: wherever a job of that name is."),
    every: bool = typer.Option(False, "--all", help="Every job of the log."),
    failed: bool = typer.Option(False, "--failed", help="Every job that failed."),
    since: str | None = typer.Option(None, help="With --all, --failed: that had an event since then, as 7d or 12h."),
    output: Path | None = typer.Option(None, "--output", "-o", help="A file. Unset: stdout."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Write jobs' histories, with what was decided then, as one file (gzip of JSON lines; zcat reads it)."""
    import asyncio

    if not jobs and not (every or failed):
        raise UserError("name a job, or give --all or --failed")
    if output is None and sys.stdout.isatty():
        raise UserError("a tape is no text: `tfjob export JOB > job.tape`, or --output")
    recorded = asyncio.run(_read(jobs, namespace, every or failed, failed, since, (database_url, cluster, state_dir)))
    count = _write(recorded, output)
    typer.echo(f"{count} job{'' if count == 1 else 's'} exported", err=True)


def import_tape(
    file: Path = typer.Argument(help="A tape, of `tfjob export`."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str = typer.Option(..., help="The name under which its log is kept: one that has no events yet."),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Put a tape's histories into a database, as the log of a cluster of their own; `why` and `history` read it."""
    import asyncio

    count = asyncio.run(_import(file, database_url, cluster, state_dir))
    typer.echo(f"{count} events imported; read them with --cluster {cluster}")


tape = typer.Typer(help="Tapes: histories of jobs in files.", no_args_is_help=True)


@tape.command("check")
def check(files: list[Path] = typer.Argument(help="Tapes.")) -> None:
    """Say whether files are whole tapes that this code reads; exit 2 at the first that is not, with the place."""
    from controller.history.tape import check_tape

    for file in files:
        jobs, events = check_tape(file)
        typer.echo(f"{file}: whole: {jobs} job{'' if jobs == 1 else 's'}, {events} events")


Place = tuple[str | None, str | None, Path | None]
"""Database URL, cluster, state folder, as given."""


async def _read(
    jobs: list[str], namespace: str | None, is_all: bool, only_failed: bool, since: str | None, place: Place
) -> list[Recorded]:
    from controller.cli.where import opened_log
    from controller.cli.why import find
    from controller.history.tape_log import recorded_of

    async with opened_log(*place) as log:
        rows: list[JobRow] = []
        if is_all:
            least = instant_ago(since)
            rows = [row for row in await log.list_jobs(namespace) if row.last_at >= least]
            rows = [row for row in rows if row.phase == "Failed" or not only_failed]
        for name in jobs or ():
            rows.append((await find(log, name, namespace))[0])
        uids = dict.fromkeys(row.job_uid for row in rows)
        return [await recorded_of(log, uid) for uid in uids]


async def _import(file: Path, database_url: str | None, cluster: str, state_dir: Path | None) -> int:
    from controller import __version__
    from controller.cli.where import opened_log
    from controller.history.tape import read_tape
    from controller.history.tape_log import import_jobs

    # All of it is read before anything is written: a damaged tape leaves no half of a log.
    recorded = list(read_tape(file))
    async with opened_log(database_url, cluster, state_dir) as log:
        return await import_jobs(log, recorded, "tfjob import", __version__)


def _write(recorded: list[Recorded], output: Path | None) -> int:
    from controller import __version__
    from controller.history.tape import write_tape

    if output is None:
        count = write_tape(sys.stdout.buffer, recorded, __version__)
        sys.stdout.buffer.flush()
        return count
    part = output.with_name(output.name + ".part")
    with part.open("wb") as out:
        count = write_tape(out, recorded, __version__)
    part.replace(output)
    return count


def instant_ago(text: str | None) -> int:
    """The instant so long ago (`30d`, `12h`); 0 for None. Raises UserError."""
    import time

    if text is None:
        return 0
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found is None:
        raise UserError(f"--since {text}: how long ago, as 90s, 10m, 2h, 3d")
    seconds = int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]]
    return int((time.time() - seconds) * 1_000_000)
