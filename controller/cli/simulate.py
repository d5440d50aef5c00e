"""`tfjob simulate FILE…`: scenario files against today's rules, in virtual time.

In: files and folders. Out: what held and what differed; exit 0 when all held, 1 when not, 2 for a malformed file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from controller.scenario.report import FileResult

PROGRESS_FROM = 20
"""So many files get a progress bar on a terminal."""
ENDINGS = ("*.yaml", "*.yml")


def simulate(
    files: list[Path] = typer.Argument(metavar="FILE...", help="Scenario files, or folders of them."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a file: steps, status, transitions, actions."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show the status after every step."),
) -> None:
    """Play scenarios against the pure core and say what held."""
    import msgspec

    from controller.scenario import Malformed, play_file

    held = differed = malformed = left_out = 0
    for path in _tracked(_expanded(files), is_plain=as_json):
        try:
            result = play_file(path, is_verbose=verbose)
        except Malformed as error:
            malformed += 1
            typer.echo(str(error), err=True)
            if as_json:
                _print_json({"file": str(path), "held": False, "malformed": str(error)})
            continue
        left_out += result.left_out is not None
        held += result.held and result.left_out is None
        differed += not result.held
        if as_json:
            _print_json(msgspec.to_builtins(result))
        else:
            _print(result)
    if not as_json:
        others = f", {left_out} left out" if left_out else ""
        typer.echo(f"{held} held, {differed} differed, {malformed} malformed{others}")
    raise typer.Exit(2 if malformed else int(differed > 0))


def _expanded(files: list[Path]) -> list[Path]:
    """The files, folders replaced by the scenarios in them. Raises UserError for a folder without any."""
    from controller.errors import UserError

    found: list[Path] = []
    for each in files:
        if each.is_dir():
            inside = sorted({path for ending in ENDINGS for path in each.rglob(ending)})
            if not inside:
                raise UserError(f"{each}: no scenario in this folder (*.yaml)")
            found += inside
        else:
            found.append(each)
    return found


def _tracked(paths: list[Path], *, is_plain: bool) -> Iterable[Path]:
    """The paths, with a progress bar below what is printed when there are many and a person looks on."""
    if len(paths) < PROGRESS_FROM or not sys.stderr.isatty() or (is_plain and sys.stdout.isatty()):
        yield from paths
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as progress:
        yield from progress.track(paths, description="Playing")


def _print_json(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(value))


def _print(result: FileResult) -> None:
    import json

    if result.left_out is not None:
        typer.echo(f"left out  {result.file}: {result.title} ({result.left_out})")
        return
    expected = [step for step in result.steps if step.held is not None]
    if result.held:
        typer.echo(f"held      {result.file}: {result.title} ({_counted(len(expected))})")
    else:
        held = sum(step.held is True for step in expected)
        typer.echo(f"DIFFERED  {result.file}: {result.title} ({held} of {_counted(len(expected))} held)")
    for step in result.steps:
        for difference in step.differences:
            typer.echo(f"    {step.path}: {difference}")
        if step.status is not None:
            typer.echo(f"    {step.path}: {step.verb}, status {json.dumps(step.status)}")
    if result.error:
        typer.echo(f"    {result.error}")


def _counted(count: int) -> str:
    return f"{count} expectation{'' if count == 1 else 's'}"
