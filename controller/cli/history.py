"""`tfjob history JOB`: a job's events in order, each with the conditions that it changed.

In: a name (or namespace/name, or a uid). Out: a table, or one JSON object a line. Exit 1 when no such job is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP

if TYPE_CHECKING:
    from controller.history import Row


def history(
    job: str = typer.Argument(help="Name, namespace/name, or uid."),
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Unset: wherever a job of that name is."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Show what happened to a job, in order, with the conditions that each event changed."""
    import asyncio

    rows, others = asyncio.run(_read(job, namespace, database_url, cluster, state_dir))
    if as_json:
        import msgspec

        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    _print_table(rows)
    if others:
        typer.echo(f"Older jobs of this name: {', '.join(others)} (give the uid to see one)")


async def _read(
    job: str, namespace: str | None, database_url: str | None, cluster: str | None, state_dir: Path | None
) -> tuple[list[Row], list[str]]:
    from controller.cli.where import opened_log
    from controller.cli.why import find
    from controller.history import timeline

    async with opened_log(database_url, cluster, state_dir) as log:
        found = await find(log, job, namespace)
        uid = found[0].job_uid
        rows = timeline(await log.read_job(uid), await log.transitions_of(uid))
        return rows, [each.job_uid for each in found[1:]]


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("TIME", no_wrap=True)
    table.add_column("POS", justify="right", no_wrap=True)
    table.add_column("WHO", no_wrap=True)
    table.add_column("WHAT", overflow="fold")
    table.add_column("CHANGED", overflow="fold")
    for row in rows:
        changed = ", ".join(row.changed) + (" (by a relist)" if row.by_gap and row.changed else "")
        cells = (row.at[11:23], str(row.position), row.subject, row.what, changed)
        table.add_row(*(Text(cell) for cell in cells))
    # A pipe gets whole lines: width is only bounded where a person looks.
    console = Console()
    Console(width=None if console.is_terminal else 240).print(table)
