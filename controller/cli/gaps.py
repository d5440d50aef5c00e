"""`tfjob gaps`: when the watch may have missed something, and what the relist found.

In: a job, or nothing for the whole cluster. Out: a table, or one JSON object a line, newest first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP

if TYPE_CHECKING:
    from controller.log.one_job import GapRow


def gaps(
    job: str | None = typer.Argument(None, help="Name, namespace/name, or uid: only gaps while it lived."),
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Unset: wherever a job of that name is."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line; times in microseconds since 1970."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Show when the controller may have missed something, and how much a relist found changed."""
    import asyncio

    rows = asyncio.run(_read(job, namespace, (database_url, cluster, state_dir)))
    if as_json:
        import msgspec

        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    if not rows:
        typer.echo("No gaps: everything was seen as it happened.")
        return
    _print_table(rows, is_of_job=job is not None)


async def _read(
    job: str | None, namespace: str | None, place: tuple[str | None, str | None, Path | None]
) -> list[GapRow]:
    from controller.cli.where import opened_log
    from controller.cli.why import find

    async with opened_log(*place) as log:
        uid = (await find(log, job, namespace))[0].job_uid if job else None
        return await log.gaps(uid)


def _print_table(rows: list[GapRow], *, is_of_job: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from controller.model.instants import text_of

    table = Table(box=None, pad_edge=False)
    for title in (
        "FROM",
        "TO",
        "CLOSED",
        "POS",
        "REASON",
        "RESOURCES",
        "CHANGED OF THE JOB" if is_of_job else "CHANGED",
    ):
        table.add_column(title, no_wrap=True)
    for row in rows:
        times = [text_of(at) if at is not None else "" for at in (row.from_at, row.to_at, row.closed_at)]
        times[0] = times[0] or "ever"
        times[2] = times[2] or "not yet"
        cells = (*times, str(row.position), row.reason, ", ".join(row.resources), str(row.changed_count))
        table.add_row(*(Text(cell) for cell in cells))
    console = Console()
    Console(width=None if console.is_terminal else 200).print(table)
