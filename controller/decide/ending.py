"""Succeeded and Failed: whether the job has come to its end, and by what (RULES §4.4, §4.5, §12).

In: a state in which every known end of an attempt is judged. Out: the end, or None.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.decide.reasons import (
    DEADLINE_EXCEEDED,
    FAILED,
    INVALID_SPEC,
    JOB_FAILED,
    JOB_SUCCEEDED,
    SUCCEEDED,
    ending_words,
)
from controller.decide.running import is_counted
from controller.fold.state import Ending, JobState, Slot, Tally, Verdict
from controller.model.instants import SECOND, Instant
from controller.model.replicas import ReplicaType, SlotId


class JobEnd(NamedTuple):
    """The terminal condition: its type, reason and message."""

    type: str
    reason: str
    message: str


def end_of(state: JobState) -> JobEnd | None:
    """The end that the state amounts to; among what one relist brought, success wins over failure."""
    who = f"TFJob {state.namespace}/{state.name}"
    if state.problem:
        return JobEnd(FAILED, INVALID_SPEC, f"{who} cannot run: {state.problem}")
    by = _success(state)
    if by is not None:
        if _is_late(state, by[1]):
            return _deadline(state, who)
        return JobEnd(SUCCEEDED, JOB_SUCCEEDED, f"{who} successfully completed.")
    failed = _failure(state)
    if failed is not None:
        reason, slot, ending = failed
        if _is_late(state, ending):
            return _deadline(state, who)
        words = ending_words(slot.id, ending)
        if reason != JOB_FAILED:
            used, limit = sum(state.retries.values()), state.spec.backoff_limit
            return JobEnd(FAILED, reason, f"{who} failed: {words}; {used} retries used, backoffLimit is {limit}")
        return JobEnd(FAILED, reason, f"{who} failed: {words}")
    return _deadline(state, who) if state.is_deadline else None


def _deadline(state: JobState, who: str) -> JobEnd:
    seconds = state.spec.deadline_seconds
    return JobEnd(FAILED, DEADLINE_EXCEEDED, f"{who} was active longer than activeDeadlineSeconds ({seconds} s)")


def _is_late(state: JobState, ending: Ending | None) -> bool:
    """The end came after the deadline, by the kubelet's time (RULES §12)."""
    seconds = state.spec.deadline_seconds
    if ending is None or seconds is None or state.start_time is None:
        return False
    due: Instant = state.start_time + seconds * SECOND
    return ending.latest_at > due


def _success(state: JobState) -> tuple[Slot, Ending | None] | None:
    """The slot whose success completed the job, with its end; None while the job has not succeeded."""
    spec, tallies = state.spec, state.tallies
    decider = spec.decider()
    workers = tallies.get(ReplicaType.WORKER, Tally())
    if decider is None:
        is_all = spec.total() > 0 and all(tally.succeeded == tally.total for tally in tallies.values())
        return _latest(state, None) if is_all else None
    slot = state.slots.get(decider)
    has_decided = slot is not None and slot.verdict is Verdict.SUCCEEDED
    if not has_decided or slot is None:
        return None
    if not spec.all_workers:
        return slot, slot.last
    if workers.succeeded < workers.total:
        return None
    return _latest(state, (decider.type, ReplicaType.WORKER))


def _latest(state: JobState, types: tuple[ReplicaType, ...] | None) -> tuple[Slot, Ending | None]:
    slots = [
        slot
        for slot_id, slot in state.slots.items()
        if is_counted(state, slot_id) and (types is None or slot.type in types)
    ]
    last = max(slots, key=lambda slot: slot.last.latest_at if slot.last else 0)
    return last, last.last


def _failure(state: JobState) -> tuple[str, Slot, Ending] | None:
    """(reason, slot, end) of the first failure that fails the job, in the order of RULES §4.4."""
    found: list[tuple[tuple[int, tuple[int, int]], str, Slot, Ending]] = []
    over = state.failure
    if over is not None:
        slot = state.slots[SlotId(over.type, over.index)]
        found.append(((over.ending.order_at, slot.id.order()), over.reason, slot, over.ending))
    if any(tally.failed_for_good for tally in state.tallies.values()):
        for slot_id in state.told:
            slot = state.slots[slot_id]
            is_over = over is not None and slot_id == (over.type, over.index)
            if slot.verdict is Verdict.FAILED and not is_over and _fails_the_job(state, slot):
                ending = slot.last
                if ending is not None:
                    found.append(((ending.order_at, slot_id.order()), JOB_FAILED, slot, ending))
    if not found:
        return None
    _, reason, slot, ending = min(found, key=lambda each: each[0])
    return reason, slot, ending


def _fails_the_job(state: JobState, slot: Slot) -> bool:
    """Whether this slot's failure for good fails the job (RULES §4.5)."""
    if not is_counted(state, slot.id):
        return False
    decider = state.spec.decider()
    if decider is None or slot.id == decider:
        return True
    if state.spec.all_workers and slot.type is ReplicaType.WORKER:
        return True
    if state.rules == "v1alpha2":
        return slot.type is ReplicaType.PS
    return not (state.spec.dynamic_workers and slot.type is ReplicaType.WORKER)
