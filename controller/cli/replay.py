"""`tfjob replay FILE|JOB`: a history folded with this code, beside what was decided then; `--step` walks through it.

In: a tape, or a job of the log; edits. Out: transitions side by side. Exit 0 the same, 1 different, 2 nothing was
replayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from controller.cli.where import CLUSTER_HELP, DATABASE_HELP, STATE_HELP
from controller.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.history.replay import Change, Replayed
    from controller.history.tape import Recorded

POLICIES = ("v1", "v1alpha2")


def replay(
    what: str = typer.Argument(help="A tape, or a job of the log: name, namespace/name, or uid."),
    namespace: str | None = typer.Option(None, "--namespace", "-n", help="Unset: wherever a job of that name is."),
    until: str | None = typer.Option(None, help="Only up to this position, or this time (RFC 3339)."),
    step: bool = typer.Option(False, "--step", help="Every event: the state before and after, actions, rule."),
    edit: list[str] = typer.Option(
        [], help="What would have been with spec.runPolicy.backoffLimit=3; may be given again."
    ),
    policy: str | None = typer.Option(None, help="What would have been under v1 or v1alpha2."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a job."),
    database_url: str | None = typer.Option(None, help=DATABASE_HELP),
    cluster: str | None = typer.Option(None, help=CLUSTER_HELP),
    state_dir: Path | None = typer.Option(None, help=STATE_HELP),
) -> None:
    """Fold a job's history with this code and compare it with what was decided then."""
    from controller.history.replay import replay as replayed

    change = _change(edit, policy)
    differs = False
    for recorded in _recorded(what, namespace, (database_url, cluster, state_dir)):
        upto = _upto(recorded, until)
        if step:
            _walk(recorded, upto, change)
        result = replayed(recorded, upto=upto, change=change)
        differs |= result.difference is not None
        if as_json:
            import msgspec

            typer.echo(msgspec.json.encode(plain_of(result)).decode())
        else:
            _print(result)
    raise typer.Exit(int(differs))


def plain_of(result: Replayed) -> dict[str, Any]:
    """A result as JSON has it."""
    plain: dict[str, Any] = result._asdict()
    plain["transitions"] = [each._asdict() | {"same": each.is_same} for each in result.transitions]
    plain["difference"] = result.difference._asdict() if result.difference else None
    return plain


def _recorded(
    what: str, namespace: str | None, place: tuple[str | None, str | None, Path | None]
) -> Iterator[Recorded]:
    from controller.history.tape import check_tape, read_tape

    path = Path(what)
    if path.is_file():
        # Asked first, so that no first half of a damaged tape is replayed.
        check_tape(path)
        yield from read_tape(path)
        return
    import asyncio

    yield asyncio.run(_of_log(what, namespace, place))


async def _of_log(job: str, namespace: str | None, place: tuple[str | None, str | None, Path | None]) -> Recorded:
    from controller.cli.where import opened_log
    from controller.cli.why import find
    from controller.history.tape_log import recorded_of

    async with opened_log(*place) as log:
        return await recorded_of(log, (await find(log, job, namespace))[0].job_uid)


def _change(edits: list[str], policy: str | None) -> Change | None:
    import json

    from controller.fold.spec import VERSION_ANNOTATION
    from controller.history.replay import annotated, edited

    changes = []
    for text in edits:
        path, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--edit {text}: a path and a value, as spec.runPolicy.backoffLimit=3")
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        try:
            changes.append(edited(path, parsed))
        except ValueError as error:
            raise UserError(f"--edit {error}") from None
    if policy is not None:
        if policy not in POLICIES:
            raise UserError(f"--policy {policy}: it is one of {', '.join(POLICIES)}")
        changes.append(annotated(VERSION_ANNOTATION, f"kubeflow.org/{policy}"))
    if not changes:
        return None

    def change(event: Any) -> Any:
        for each in changes:
            event = each(event)
        return event

    return change


def _upto(recorded: Recorded, until: str | None) -> int | None:
    if until is None:
        return None
    if until.isdecimal():
        return int(until)
    from controller.model.instants import instant_of

    try:
        at = instant_of(until)
    except ValueError:
        raise UserError(f"--until {until}: a position, or a time as 2026-01-31T12:00:00Z") from None
    return max((event.position for event in recorded.events if event.observed_at <= at), default=0)


def _walk(recorded: Recorded, upto: int | None, change: Change | None) -> None:
    """The plain mode: every event, for pipes and files."""
    from controller.history.replay import fold_job
    from controller.history.replay_step import lines_of_step

    for moment in fold_job(recorded, change):
        if upto is not None and moment.event.position > upto:
            return
        for line in lines_of_step(moment):
            typer.echo(line)


def _print(result: Replayed) -> None:
    difference = result.difference
    verdict = "same" if difference is None else "DIFFERS"
    typer.echo(f"{verdict}  {result.namespace}/{result.name} ({result.uid}), {result.events} events")
    for each in result.transitions:
        shown = each.recorded or each.now
        if shown is None:
            continue
        mark = " " if each.is_same else "!"
        left, right = (f"{one.type} {one.status} {one.reason}" if one else "-" for one in (each.recorded, each.now))
        typer.echo(f"  {mark} {shown.position:>8}  {left:<44} {right if not each.is_same else 'the same'}")
    if difference is None:
        return
    typer.echo(f"  first difference: after event {difference.position} ({difference.event})")
    typer.echo(f"    {difference.what}")
    if difference.rule:
        typer.echo(f"    rule: {difference.rule}")
    for title, conditions in (("then", difference.recorded), ("now", difference.now)):
        typer.echo(f"    {title}:" + ("" if conditions else " no conditions"))
        for kind, words in conditions.items():
            typer.echo(f"      {kind} {words}")
