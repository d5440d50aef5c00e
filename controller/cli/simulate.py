"""`tfjob simulate FILE…`: scenario files against today's rules, in virtual time, or on an API server.

In: files and folders. Out: what held and what differed; exit 0 when all held, 1 when not, 2 for a malformed file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from controller.scenario import FileResult, Malformed

PROGRESS_FROM = 20
"""So many files get a progress bar on a terminal."""
ENDINGS = ("*.yaml", "*.yml")


def simulate(
    files: list[Path] = typer.Argument(metavar="FILE...", help="Scenario files, or folders of them."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a file: steps, status, transitions, actions."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show the status after every step."),
    on_local: bool = typer.Option(False, "--local", help="Play on the local API server, with a whole controller."),
    on_cluster: bool = typer.Option(
        False, "--cluster", help="Play on the API server of the kubeconfig; this command plays kubelet and controller."
    ),
    kubeconfig: Path | None = typer.Option(None, help="With --cluster; unset: $KUBECONFIG, ~/.kube/config."),
    context: str | None = typer.Option(None, help="With --cluster: context of the kubeconfig."),
    max_wait: float = typer.Option(15.0, min=0, help="Seconds. A file that waits longer at once is left out there."),
    log_level: str = typer.Option("error", help="Of the runner's own controller, on stderr."),
    at_once: int = typer.Option(8, min=1, help="Files at a time, with --cluster or --local."),
) -> None:
    """Play scenarios and say what held."""
    import msgspec

    from controller.errors import UserError
    from controller.scenario import Malformed

    if on_local and on_cluster:
        raise UserError("--local and --cluster are two ways: name one")
    if (kubeconfig or context) and not on_cluster:
        raise UserError("--kubeconfig and --context go with --cluster")
    paths = _expanded(files)
    if on_local or on_cluster:
        from controller.cli.logging import configure_logging
        from controller.cli.playing import played_live

        configure_logging("people", log_level)
        results = played_live(
            paths, kubeconfig, context, is_local=on_local, max_wait=max_wait, at_once=at_once, is_verbose=verbose
        )
    else:
        results = _played(paths, is_verbose=verbose)
    held = differed = malformed = left_out = 0
    for path, result in zip(paths, _tracked(results, len(paths), is_plain=as_json), strict=True):
        if isinstance(result, Malformed):
            malformed += 1
            typer.echo(str(result), err=True)
            if as_json:
                _print_json({"file": str(path), "held": False, "malformed": str(result)})
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


def _played(paths: list[Path], *, is_verbose: bool) -> Iterator[FileResult | Malformed]:
    """The results of the pure core."""
    from controller.scenario import Malformed, play_file

    for path in paths:
        try:
            yield play_file(path, is_verbose=is_verbose)
        except Malformed as error:
            yield error


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


def _tracked(
    results: Iterable[FileResult | Malformed], count: int, *, is_plain: bool
) -> Iterable[FileResult | Malformed]:
    """The results, with a progress bar below what is printed when there are many and a person looks on."""
    if count < PROGRESS_FROM or not sys.stderr.isatty() or (is_plain and sys.stdout.isatty()):
        yield from results
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as progress:
        yield from progress.track(results, total=count, description="Playing")


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
