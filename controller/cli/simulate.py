"""`tfjob simulate FILE…`: scenario files against today's rules, in virtual time.

In: files and folders. Out: what held and what differed; exit 0 when all held, 1 when not, 2 for a malformed file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from controller.scenario.report import FileResult

PROGRESS_FROM = 20
"""So many files get a progress bar on a terminal."""


def simulate(
    files: list[Path] = typer.Argument(metavar="FILE...", help="Scenario files, or folders of them."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a file: steps, status, transitions, actions."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show the status after every expectation."),
) -> None:
    """Play scenarios against the pure core and say what held."""
    import sys

    import msgspec

    from controller.scenario import Malformed, play_file

    paths = [path for each in files for path in (sorted(each.glob("*.yaml")) if each.is_dir() else [each])]
    results: list[FileResult] = []
    malformed: list[str] = []
    for path in _tracked(paths):
        try:
            result = play_file(path, is_verbose=verbose)
        except Malformed as error:
            malformed.append(str(error))
            continue
        results.append(result)
        if as_json:
            sys.stdout.buffer.write(msgspec.json.encode({"held": result.held, **msgspec.to_builtins(result)}) + b"\n")
        elif verbose or not result.held:
            _print(result, verbose)
    for line in malformed:
        typer.echo(line, err=True)
    if not as_json:
        failed = sum(not result.held for result in results)
        typer.echo(f"{len(results) - failed} held, {failed} differed, {len(malformed)} malformed")
    raise typer.Exit(2 if malformed else int(any(not result.held for result in results)))


def _tracked(paths: list[Path]) -> Iterable[Path]:
    import sys

    if len(paths) < PROGRESS_FROM or not sys.stderr.isatty():
        return paths
    from rich.console import Console
    from rich.progress import track

    return track(paths, description="Playing", console=Console(stderr=True), transient=True)


def _print(result: FileResult, verbose: bool) -> None:
    import json

    typer.echo(f"{'held' if result.held else 'DIFFERED'}  {result.file}: {result.title}")
    for step in result.steps:
        for difference in step.differences:
            typer.echo(f"    {step.path}: {difference}")
        if verbose and step.status is not None:
            typer.echo(f"    {step.path}: status {json.dumps(step.status)}")
    if result.error:
        typer.echo(f"    {result.error}")
