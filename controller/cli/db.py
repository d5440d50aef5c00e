"""`tfjob db`: the schema of the log's database, brought up to date or only looked at.

In: a database URL. Out: one line; exit 1 when `check` finds that the database cannot be used as it is.
"""

from __future__ import annotations

import asyncio
import os

import typer

from controller.errors import UserError

app = typer.Typer(help="The database of the event log.", no_args_is_help=True)

_URL = typer.Option(None, "--database-url", help="Postgres URL; also $TFJOB_DATABASE_URL.")


def _url(given: str | None) -> str:
    url = given or os.environ.get("TFJOB_DATABASE_URL")
    if not url:
        raise UserError("--database-url (or $TFJOB_DATABASE_URL) is needed: postgresql://user:password@host:5432/tfjob")
    return url


@app.command("upgrade")
def upgrade(database_url: str | None = _URL) -> None:
    """Bring the database's schema to what this tfjob-controller works with."""
    from controller.log import migrate

    done = asyncio.run(migrate.upgrade(_url(database_url)))
    for remark in done.remarks:
        typer.echo(f"tfjob: {remark}", err=True)
    typer.echo(f"schema revision {done.database}")


@app.command("check")
def check(database_url: str | None = _URL) -> None:
    """Say whether the database fits this tfjob-controller; changes nothing."""
    from controller.log import migrate

    found = asyncio.run(migrate.check(_url(database_url)))
    problem = found.problem()
    if problem:
        raise UserError(problem, exit_code=1)
    typer.echo(f"schema revision {found.database}")
