"""`tfjob list`: the jobs that the log knows, newest first, also those that no longer exist.

In: filters. Out: a table, or one JSON object a line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP

if TYPE_CHECKING:
    from controller.log import JobRow


def list_jobs(
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Only this namespace."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """List the jobs that the log knows, newest first."""
    import asyncio

    import msgspec

    jobs = asyncio.run(_read(namespace, database_url, cluster, state_dir))
    if as_json:
        for job in jobs:
            typer.echo(msgspec.json.encode(job).decode())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from controller.model.instants import text_of

    table = Table(box=None, pad_edge=False)
    for title in ("NAMESPACE", "NAME", "STATE", "FIRST SEEN", "LAST EVENT", "UID"):
        table.add_column(title, no_wrap=True)
    for job in jobs:
        cells = (job.namespace, job.name, job.phase, text_of(job.first_at), text_of(job.last_at), job.job_uid)
        table.add_row(*(Text(cell) for cell in cells))
    console = Console()
    Console(width=None if console.is_terminal else 200).print(table)


async def _read(
    namespace: str | None, database_url: str | None, cluster: str | None, state_dir: Path | None
) -> list[JobRow]:
    from controller.cli.where import cluster_named, database
    from controller.log import EventLog

    async with database(database_url, state_dir) as url:
        log = await EventLog.open(url, cluster=cluster_named(cluster))
        try:
            return await log.list_jobs(namespace)
        finally:
            await log.close()
