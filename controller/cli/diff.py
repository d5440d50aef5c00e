"""`tfjob diff FOLDER` or `--since 30d`: tapes, or the whole log, against this code, over all cores.

In: a folder of tapes, or a log. Out: a table grouped by what differs, JSON, or JUnit. Exit 0 when no job's conditions
would differ, 1 when one's would, 2 when a tape is damaged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP
from controller.errors import UserError

if TYPE_CHECKING:
    from controller.history.diff import Compared, Group

PART_JOBS = 50
"""Jobs that one process takes at a time: enough to be worth a connection, few enough for an even end."""
MOST_NAMED = 5
"""Jobs that a group names in the table; --json names all."""

Place = tuple[str | None, str | None, Path | None]
"""Database URL, cluster, state folder, as given."""


def diff(
    folder: Path | None = typer.Argument(None, help="A folder of tapes, or a tape. Unset: the log."),
    since: str | None = typer.Option(None, help="Of the log: jobs that had an event since then, as 30d or 12h."),
    cores: int = typer.Option(0, help="Processes; 0: one for each core."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object: counts and groups with all jobs."),
    junit: Path | None = typer.Option(None, help="Write JUnit's XML to this file as well."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Say which jobs' conditions this code would set otherwise than they were set."""
    from controller.history.diff import grouped, junit_of

    if folder is not None and since is not None:
        raise UserError("a folder of tapes, or --since for the log: not both")
    processes = cores or os.cpu_count() or 1
    results: list[Compared] = []
    parts = _of_tapes(folder, processes) if folder else _of_log((database_url, cluster, state_dir), since, processes)
    for part in parts:
        results += part
    groups = grouped(results)
    if junit is not None:
        junit.write_bytes(junit_of(results))
    differing = sum(len(group.jobs) for group in groups)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode({"jobs": len(results), "differ": differing, "groups": groups}).decode())
    else:
        _print(groups)
        typer.echo(f"{len(results)} jobs, {sum(each.events for each in results)} events: {differing} differ")
    raise typer.Exit(int(differing > 0))


def _of_tapes(folder: Path, processes: int) -> Iterator[list[Compared]]:
    from controller.history.diff import compare_tape, tapes_in

    yield from _spread(compare_tape, tapes_in(folder), processes)


def _of_log(place: Place, since: str | None, processes: int) -> Iterator[list[Compared]]:
    import asyncio
    from functools import partial

    from controller.cli.where import cluster_named, database

    with asyncio.Runner() as runner:
        # The local database, if it is that, runs for as long as the processes read.
        opened = database(place[0], place[2])
        url = runner.run(opened.__aenter__())
        try:
            uids = runner.run(_uids(url, place[1], since))
            parts = [uids[start : start + PART_JOBS] for start in range(0, len(uids), PART_JOBS)]
            yield from _spread(partial(_part_of_log, url, cluster_named(place[1])), parts, processes)
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def _uids(url: str, cluster: str | None, since: str | None) -> list[str]:
    from controller.cli.export import instant_ago
    from controller.cli.where import opened_log

    least = instant_ago(since)
    async with opened_log(url, cluster, None) as log:
        return [row.job_uid for row in await log.list_jobs() if row.last_at >= least]


def _part_of_log(url: str, cluster: str, uids: list[str]) -> list[Compared]:
    import asyncio

    from controller.cli.where import opened_log
    from controller.history.diff import compare_jobs

    async def read() -> list[Compared]:
        async with opened_log(url, cluster, None) as log:
            return await compare_jobs(log, cluster, uids)

    return asyncio.run(read())


def _spread(work: Callable[[Any], list[Compared]], parts: Sequence[Any], processes: int) -> Iterator[list[Compared]]:
    """The results of all parts, in their order, over so many processes, with a progress bar for a person."""
    if processes == 1 or len(parts) < 2:
        yield from _tracked(map(work, parts), len(parts))
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Spawned: a forked process would share this one's event loop and sockets.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(parts)), mp_context=context) as pool:
        yield from _tracked(pool.map(work, parts), len(parts))


def _tracked(results: Iterator[list[Compared]], count: int) -> Iterator[list[Compared]]:
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(results, total=count, description="Replaying")


def _print(groups: list[Group]) -> None:
    for group in groups:
        typer.echo(f"{len(group.jobs)}×  {group.what}   [{group.rule}]")
        for each in group.jobs[:MOST_NAMED]:
            typer.echo(f"      {each.namespace}/{each.name} ({each.uid}) after event {each.position}: {each.event}")
            typer.echo(f"        in {each.source}")
        if len(group.jobs) > MOST_NAMED:
            typer.echo(f"      and {len(group.jobs) - MOST_NAMED} more (--json names all)")
