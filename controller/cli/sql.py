"""`tfjob sql "SELECT …"`: a question to the schema `audit`, with the role that may read and nothing else.

In: one SQL statement. Out: a table, or one JSON object a line. For administrators: it needs the database's URL.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from controller.cli.where import DATABASE_HELP, STATE_HELP

if TYPE_CHECKING:
    from controller.log.audit_query import Answer


def sql(
    statement: str = typer.Argument(help="One statement; the views are in docs/SQL.md. `-`: from standard input."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Ask the history in SQL, read-only (docs/SQL.md has twenty questions)."""
    import asyncio
    import sys

    text = sys.stdin.read() if statement == "-" else statement
    answer = asyncio.run(_ask(text.strip().rstrip(";"), database_url, state_dir))
    if as_json:
        import msgspec

        for row in answer.rows:
            typer.echo(msgspec.json.encode(dict(zip(answer.columns, map(_plain, row), strict=True))).decode())
    else:
        _print_table(answer)
    if answer.is_cut:
        typer.echo(f"tfjob: only the first {len(answer.rows)} rows are shown", err=True)


async def _ask(statement: str, database_url: str | None, state_dir: Path | None) -> Answer:
    from controller.cli.where import database
    from controller.log.audit_query import ask

    async with database(database_url, state_dir) as url:
        return await ask(url, statement)


def _plain(value: Any) -> Any:
    """What JSON has no word for becomes text; numbers of any precision stay numbers."""
    from datetime import datetime
    from decimal import Decimal

    match value:
        case list():
            return [_plain(each) for each in value]
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _cell(value: Any) -> str:
    from controller.history.describe import plain

    found = _plain(value)
    if found is None:
        return ""
    return plain(", ".join(map(str, found)) if isinstance(found, list) else str(found), 2000)


def _print_table(answer: Answer) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in answer.columns:
        table.add_column(name.upper(), overflow="fold")
    for row in answer.rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console()
    # A pipe gets whole lines: width is only bounded where a person looks.
    Console(width=None if console.is_terminal else 400).print(table)
    typer.echo(f"({len(answer.rows)} rows)")
