"""Tapes and the log: a job's history out of it, and a tape's histories into an empty one.

In: a log, uids; recorded jobs. Out: recorded jobs; the log filled. Imported events keep their order and get new
positions from 1; what names a position follows. Never: an import into a log that has events.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from msgspec import structs

from controller.decide import is_over
from controller.errors import UserError
from controller.fold import encode_state
from controller.history.replay import fold_job
from controller.history.tape import JobLine, Recorded
from controller.log import Append, EventLog, JobSnapshot, NewEvent
from controller.log.records import BATCH_ROWS
from controller.model.events import ActionSettled, AnyFact, Event, JobObserved, Transition


async def recorded_of(log: EventLog, uid: str) -> Recorded:
    """A job as the log has it. Raises UserError when it has no such job."""
    found = await log.find_job(uid)
    cursor = await log.cursor()
    transitions = await log.transitions_of(uid)
    events = await log.read_job(uid)
    first = next((event.position for event in events if isinstance(event.fact, JobObserved)), None)
    if not found or first is None:
        raise UserError(f"the log has no job of uid {uid}", exit_code=1)
    row = found[0]
    before = await log.cluster_facts(first - 1)
    known = {event.position for event in events}
    events = sorted([*events, *(each for each in before if each.position not in known)], key=attrgetter("position"))
    line = JobLine(row.job_uid, row.namespace, row.name, cursor, row.is_over, row.parked)
    return Recorded(line, events, [each for each in transitions if each.position <= cursor])


async def import_jobs(log: EventLog, jobs: Iterable[Recorded], holder: str, code_version: str) -> int:
    """Fills an empty log; returns the number of events. Raises UserError when it is not empty."""
    if await log.position() > 0:
        raise UserError("this cluster's log has events already; name a new one with --cluster", exit_code=1)
    recorded = list(jobs)
    merged = {event.position: event for each in recorded for event in each.events}
    places = {position: number for number, position in enumerate(sorted(merged), start=1)}
    await log.lead(holder, code_version)
    ordered = [merged[position] for position in sorted(merged)]
    for start in range(0, len(ordered), BATCH_ROWS):
        batch = [_new_of(event, places) for event in ordered[start : start + BATCH_ROWS]]
        added = await log.commit(Append(batch))
        if len(added) != len(batch):
            raise UserError("the tape's events do not follow each other: nothing after them was imported", exit_code=1)
    await log.commit(
        Append(
            transitions=[(each.job.uid, _moved(one, places)) for each in recorded for one in each.transitions],
            snapshots=[snapshot for each in recorded if (snapshot := _snapshot(each, places)) is not None],
            cursor=len(ordered),
        )
    )
    return len(ordered)


def _new_of(event: Event, places: dict[int, int]) -> NewEvent:
    is_own = event.resource_version == 0
    return NewEvent(
        op=event.op,
        fact=_fact(event, places),
        observed_at=event.observed_at,
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        resource_version=event.resource_version,
        job_uid=event.job_uid,
        job_name=event.job_name,
        spec_hash=event.spec_hash,
        key=f"tape/{event.position}" if is_own else None,
    )


def _fact(event: Event, places: dict[int, int]) -> AnyFact:
    if isinstance(event.fact, ActionSettled):
        decided = event.fact.decided_position
        return structs.replace(event.fact, decided_position=places.get(decided, decided))
    return event.fact


def _moved(transition: Transition, places: dict[int, int]) -> Transition:
    return structs.replace(transition, position=places.get(transition.position, transition.position))


def _snapshot(recorded: Recorded, places: dict[int, int]) -> JobSnapshot | None:
    events = [
        structs.replace(event, position=places[event.position], fact=_fact(event, places)) for event in recorded.events
    ]
    last = None
    for moment in fold_job(Recorded(recorded.job, events, [])):
        last = moment
    if last is None:
        return None
    state = last.after
    return JobSnapshot(
        job_uid=state.uid,
        namespace=state.namespace,
        name=state.name,
        position=max(places.values()),
        state=encode_state(state),
        phase=state.conditions[-1].type if state.conditions else "",
        is_over=is_over(state),
        parked=recorded.job.parked,
    )
