"""The command `tfjob` (also `kubectl tfjob`): one file per command group.

In: words from a shell. Out: words for a person or JSON, and an exit code: 0 as wished, 1 not so, 2 nothing was started.
Commands import what they need when they run, so that a short one starts quickly.
"""

from __future__ import annotations

import sys

import typer

from controller import __version__
from controller.cli import (
    controller,
    db,
    diff,
    export,
    gaps,
    history,
    jobs,
    local,
    replay,
    simulate,
    sql,
    uninstall,
    why,
)
from controller.errors import UserError

app = typer.Typer(
    name="tfjob",
    help="TFJobs whose history is kept: run them, ask why they failed, replay what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("controller")(controller.run)
app.command("local")(local.run)
app.command("simulate")(simulate.simulate)
app.command("gaps")(gaps.gaps)
app.command("sql")(sql.sql)
app.command("list")(jobs.list_jobs)
app.command("why")(why.why)
app.command("history")(history.history)
app.command("export")(export.export)
app.command("import")(export.import_tape)
app.command("replay")(replay.replay)
app.command("diff")(diff.diff)
app.command("uninstall")(uninstall.uninstall)
app.add_typer(db.app, name="db")
app.add_typer(export.tape, name="tape")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"tfjob {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Say which this is."),
) -> None:
    pass


def main() -> None:
    """Runs the command line; a UserError is one line on stderr and its exit code."""
    try:
        app()
    except UserError as error:
        typer.echo(f"tfjob: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough.
        sys.stderr.close()
        sys.exit(0)
