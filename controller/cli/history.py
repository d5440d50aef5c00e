"""`tfjob history JOB`: a job's events in order, each with the conditions that it changed; with --follow as they come.

In: a name (or namespace/name, or a uid), filters. Out: a table, or one JSON object a line. Exit 1 when no such job is
known; --follow ends with the job, or with Ctrl-C.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP
from controller.errors import UserError

if TYPE_CHECKING:
    from controller.history import Row, Wanted
    from controller.log import EventLog
    from controller.model.events import Event

POLL_SECONDS = 0.5
"""How often --follow looks: a person reads it."""
UNFOLDED_SECONDS = 3.0
"""An event is shown when it is folded, with what it changed; if nobody folds, after this long without."""
TIME_HELP = "RFC 3339, or how long ago: 90s, 10m, 2h, 3d."
_AGO = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def history(
    job: str = typer.Argument(help="Name, namespace/name, or uid."),
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Unset: wherever a job of that name is."),
    slot: list[str] = typer.Option([], help="Only what concerns this slot, as worker-0; may be given again."),
    kind: list[str] = typer.Option(
        [], help="TFJob, Pod, Service, PodGroup, Notice, Controller or Watch; may be given again."
    ),
    since: str | None = typer.Option(None, help=f"Only from then on. {TIME_HELP}"),
    until: str | None = typer.Option(None, help=f"Only before then. {TIME_HELP}"),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on with what happens, until the job is over."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Show what happened to a job, in order, with the conditions that each event changed."""
    wanted = _wanted(slot, kind, since, until)
    if follow:
        import msgspec

        def show(row: Row) -> None:
            typer.echo(msgspec.json.encode(row).decode() if as_json else _line(row))

        try:
            asyncio.run(_follow(job, namespace, (database_url, cluster, state_dir), wanted, show))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return
    rows, others = asyncio.run(_read(job, namespace, (database_url, cluster, state_dir), wanted))
    if as_json:
        import msgspec

        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    _print_table(rows)
    if others:
        typer.echo(f"Older jobs of this name: {', '.join(others)} (give the uid to see one)")


Place = tuple[str | None, str | None, Path | None]
"""Database URL, cluster, state folder, as given."""


async def _read(job: str, namespace: str | None, place: Place, wanted: Wanted) -> tuple[list[Row], list[str]]:
    from controller.cli.where import opened_log
    from controller.cli.why import find
    from controller.history import timeline

    async with opened_log(*place) as log:
        found = await find(log, job, namespace)
        uid = found[0].job_uid
        rows = timeline(await log.read_job(uid), await log.transitions_of(uid), found[0].name)
        return [row for row in rows if wanted.has(row)], [each.job_uid for each in found[1:]]


async def _follow(job: str, namespace: str | None, place: Place, wanted: Wanted, show: Callable[[Row], None]) -> None:
    from controller.cli.where import opened_log
    from controller.cli.why import find
    from controller.history import timeline

    async with opened_log(*place) as log:
        found = (await find(log, job, namespace))[0]
        async for events in _as_folded(log, found.job_uid):
            for row in timeline(events, await log.transitions_of(found.job_uid), found.name):
                if wanted.has(row):
                    show(row)


async def _as_folded(log: EventLog, uid: str) -> AsyncIterator[list[Event]]:
    """A job's events, those that are there at once and then as they come, when their transitions are in the log."""
    waiting, after = await log.read_job(uid), 0
    seen_at = time.monotonic()
    while True:
        # Read in this order: what is over by now has no event that the next look would miss.
        is_over = all(each.is_over for each in await log.find_job(uid))
        later = await log.read_later(uid, max(after, waiting[-1].position if waiting else 0))
        if later:
            waiting, seen_at = [*waiting, *later], time.monotonic()
        cursor = await log.cursor()
        is_late = time.monotonic() - seen_at > UNFOLDED_SECONDS
        ready = [event for event in waiting if event.position <= cursor or is_late]
        if ready:
            yield ready
            after = ready[-1].position
            waiting = waiting[len(ready) :]
        if is_over and not waiting:
            return
        await asyncio.sleep(POLL_SECONDS)


def _wanted(slots: list[str], kinds: list[str], since: str | None, until: str | None) -> Wanted:
    from controller.history.timeline import KINDS, Wanted
    from controller.model.replicas import slot_of

    for text in slots:
        if slot_of(text) is None:
            raise UserError(f"--slot {text}: a slot is a type and an index, as worker-0")
    for text in kinds:
        if text.lower() not in {each.lower() for each in KINDS}:
            raise UserError(f"--kind {text}: it is one of {', '.join(KINDS)}")
    return Wanted(
        slots=frozenset(str(slot_of(text)) for text in slots),
        kinds=frozenset(text.lower() for text in kinds),
        since=_instant("--since", since),
        until=_instant("--until", until),
    )


def _instant(option: str, text: str | None) -> int | None:
    from controller.model.instants import SECOND, instant_of

    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * SECOND)
    try:
        return instant_of(text)
    except ValueError:
        raise UserError(f"{option} {text}: {TIME_HELP}") from None


def _line(row: Row) -> str:
    return f"{row.at[11:23]}  {row.position}  {row.subject}: {row.what}" + (
        f"  [{_changed(row)}]" if row.changed else ""
    )


def _changed(row: Row) -> str:
    return ", ".join(row.changed) + (" (by a relist)" if row.by_gap and row.changed else "")


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
        cells = (row.at[11:23], str(row.position), row.subject, row.what, _changed(row))
        table.add_row(*(Text(cell) for cell in cells))
    # A pipe gets whole lines: width is only bounded where a person looks.
    console = Console()
    Console(width=None if console.is_terminal else 240).print(table)
