"""`tfjob why JOB`: why a job failed, or what it waits for; also of jobs that no longer exist.

In: a name (or namespace/name, or a uid). Out: a few lines, or one JSON object. Exit 1 when no such job is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP
from controller.errors import UserError

if TYPE_CHECKING:
    from controller.history import Answer
    from controller.log import EventLog, JobRow

MOST_NEAR = 3


def why(
    job: str = typer.Argument(help="Name, namespace/name, or uid."),
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Unset: wherever a job of that name is."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object; times in microseconds since 1970."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Say what failed first, with which exit code, who ended it and what came of it; or what the job waits for."""
    import asyncio

    answer, others = asyncio.run(_read(job, namespace, database_url, cluster, state_dir))
    if as_json:
        import msgspec

        plain = msgspec.to_builtins(answer) | {"others": others}
        typer.echo(msgspec.json.encode(plain).decode())
        return
    from controller.history import lines_of

    for line in lines_of(answer):
        typer.echo(line)
    if others:
        typer.echo(f"Older jobs of this name: {', '.join(others)} (give the uid to ask about one)")


async def _read(
    job: str, namespace: str | None, database_url: str | None, cluster: str | None, state_dir: Path | None
) -> tuple[Answer, list[str]]:
    from controller.cli.where import opened_log

    async with opened_log(database_url, cluster, state_dir) as log:
        found = await find(log, job, namespace)
        return await answer_of(log, found[0]), [each.job_uid for each in found[1:]]


async def answer_of(log: EventLog, job: JobRow) -> Answer:
    """The answer for a job that the log has. Raises UserError when it was never folded."""
    from controller.fold import Context, context_after, decode_state
    from controller.history import Evidence, why_of

    record = await log.job_record(job.job_uid)
    if record is None:
        raise UserError(f"{job.namespace}/{job.name} is in the log, but no controller has folded it yet", exit_code=1)
    state = decode_state(record.state)
    context = Context()
    for event in await log.cluster_facts(state.position):
        context = context_after(context, event)
    evidence = Evidence(
        state=state,
        settings=context.settings,
        transitions=await log.transitions_of(job.job_uid),
        attempts=record.failures,
        events=record.events,
        parked=record.parked,
    )
    return why_of(evidence)


async def find(log: EventLog, job: str, namespace: str | None) -> list[JobRow]:
    """The jobs of that name or uid, newest first. Raises UserError with the names that are near when there is none."""
    found = await log.find_job(job, namespace)
    if found:
        return found
    import difflib

    names = sorted({f"{space}/{name}" for space, name in await log.job_names()})
    by_name = {full.rpartition("/")[2]: full for full in names}
    near = difflib.get_close_matches(job.rpartition("/")[2], by_name, n=MOST_NEAR, cutoff=0.5)
    where = f" in namespace {namespace}" if namespace else ""
    hint = f"did you mean {', '.join(by_name[name] for name in near)}?" if near else "`tfjob list` shows those that are"
    raise UserError(f"no job {job!r}{where} in the log; {hint}", exit_code=1)
