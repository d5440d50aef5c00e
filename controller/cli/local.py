"""`tfjob local FILE…`: TFJobs on this machine: a database, an API server, a kubelet of processes, and the controller.

In: manifests (TFJobs and ConfigMaps). Out: a live table, and what to type next; exit 0 when all Succeeded, 1 when one
did not, 2 when nothing was started.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import STATE_HELP
from controller.errors import UserError

if TYPE_CHECKING:
    import asyncio

    from controller.local.cluster import LocalCluster
    from controller.local.manifests import Manifest

POLL_SECONDS = 0.2


def run(
    files: list[Path] = typer.Argument(None, metavar="[FILE]...", help="YAML files with TFJobs and their ConfigMaps."),
    examples: bool = typer.Option(False, "--examples", help="Run the examples that come with this code."),
    keep: bool = typer.Option(False, "--keep", help="Stay up when the jobs have ended, for kubectl; Ctrl-C ends it."),
    port: int = typer.Option(0, help="Port of the API server on 127.0.0.1; 0 takes a free one."),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
    log_level: str = typer.Option("warning", help="Of the controller's own log lines, on stderr."),
) -> None:
    """Run TFJobs on this machine and show how they end."""
    import asyncio

    from controller.cli.logging import configure_logging
    from controller.local.manifests import load
    from controller.local.shipped import shipped

    paths = list(files or [])
    if examples:
        paths += sorted(shipped("examples").glob("*.yaml"))
    if not paths and not keep:
        raise UserError("name at least one file with a TFJob, or --examples, or --keep for an empty cluster")
    manifests = load(paths) if paths else []
    configure_logging("people", log_level)
    raise typer.Exit(asyncio.run(_run(manifests, keep, port, state_dir)))


async def _run(manifests: list[Manifest], keep: bool, port: int, state_dir: Path | None) -> int:
    import asyncio
    import signal

    from controller.app import Controller
    from controller.kube import connect
    from controller.local.cluster import LocalCluster
    from controller.local.postgres import default_state_dir
    from controller.settings import Settings

    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    typer.echo("Starting Postgres, the API server, the kubelet and the controller on this machine ...")
    async with LocalCluster(state_dir or default_state_dir(), port=port, say=typer.echo) as cluster:
        settings = Settings(
            database_url=cluster.database_url,
            kubeconfig=cluster.kubeconfig,
            redaction_key_file=cluster.redaction_key_file,
        )
        async with await connect(cluster.kubeconfig, None, False) as client:
            stop = asyncio.Event()
            running = asyncio.create_task(Controller(settings, client).run(stop))
            try:
                succeeded = await _until_ended(cluster, manifests, running, interrupted)
                if keep and not interrupted.is_set():
                    typer.echo(f"\nUp until Ctrl-C. In another terminal:\n  export KUBECONFIG={cluster.kubeconfig}")
                    typer.echo("  kubectl get tfjobs,pods --all-namespaces")
                    await interrupted.wait()
            finally:
                stop.set()
                await running
    if interrupted.is_set() and not keep:
        typer.echo("Stopped; what was recorded is kept.", err=True)
        return 130
    return 0 if succeeded else 1


async def _until_ended(
    cluster: LocalCluster, manifests: list[Manifest], running: asyncio.Task[None], interrupted: asyncio.Event
) -> bool:
    """Submits the manifests and shows their jobs until all have ended and are cleaned up. True when all Succeeded."""
    import asyncio
    import time
    from contextlib import nullcontext

    from rich.console import Console
    from rich.live import Live

    from controller.local.following import Following
    from controller.local.table import as_table, as_text

    for manifest in sorted(manifests, key=lambda each: each.kind == "TFJob"):
        cluster.submit(manifest)
    jobs = [(each.namespace, each.name) for each in manifests if each.kind == "TFJob"]
    following = Following(cluster.server.store, jobs, time.monotonic())
    console = Console()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with live or nullcontext():
        while not interrupted.is_set() and not running.done():
            changed = following.look(time.monotonic())
            if live is not None:
                live.update(as_table(list(following.lines.values())), refresh=True)
            else:
                for line in changed:
                    typer.echo(as_text(line))
            if following.is_through(time.monotonic()):
                break
            await asyncio.sleep(POLL_SECONDS)
    if running.done():
        running.result()
    for line in following.lines.values():
        if line.state == "Failed":
            typer.echo(f"{line.name} failed: {line.message}\n  tfjob why {line.name}")
    if jobs and not interrupted.is_set():
        typer.echo("\nWhat happened, in order, and what each event changed:")
        for _, name in jobs:
            typer.echo(f"  tfjob history {name}")
        typer.echo("All jobs that were ever seen:\n  tfjob list")
    return following.all_succeeded()
