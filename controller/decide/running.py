"""Running and Restarting: which slots must run, by policy set (RULES §4.2, §4.3).

In: a state. Out: whether the job runs, and what is being retried.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.decide.reasons import ending_words
from controller.fold.exit_codes import meaning_of
from controller.fold.state import JobState, Slot, Tally, Verdict
from controller.model.replicas import ReplicaType, SlotId


class Progress(NamedTuple):
    """`runs`: Running's rule holds. `is_retrying`: a slot is being retried. `ps_steady`: all PS run or have succeeded
    (asked by v1alpha2 only)."""

    runs: bool
    is_retrying: bool
    ps_steady: bool


def progress_of(state: JobState) -> Progress:
    """Reads the rules of the job's policy set."""
    is_retrying = any(tally.retried for tally in state.tallies.values())
    if state.rules == "v1alpha2":
        ps = state.tallies.get(ReplicaType.PS, Tally())
        ps_steady = ps.steady == ps.total
        return Progress(_runs_v1alpha2(state, ps_steady), is_retrying, ps_steady)
    return Progress(_runs_v1(state), is_retrying, True)


def _runs_v1alpha2(state: JobState, ps_steady: bool) -> bool:
    decider = state.spec.decider()
    if decider is not None:
        return ps_steady and slot_runs(state.slots.get(decider))
    tallies = state.tallies.values()
    return all(tally.steady == tally.total for tally in tallies) and any(tally.running for tally in tallies)


def _runs_v1(state: JobState) -> bool:
    decider = state.spec.decider()
    workers = state.tallies.get(ReplicaType.WORKER, Tally())
    if decider is None:
        return any(tally.running for tally in state.tallies.values())
    if decider.type is ReplicaType.WORKER:
        return workers.running > 0
    slot = state.slots.get(decider)
    if slot_runs(slot):
        return True
    has_succeeded = slot is not None and slot.verdict is Verdict.SUCCEEDED
    return state.spec.all_workers and has_succeeded and workers.running > 0


def slot_runs(slot: Slot | None) -> bool:
    """Its pod runs, also while it terminates, and is not being retried."""
    return (
        slot is not None
        and slot.attempt is not None
        and slot.attempt.is_live()
        and slot.attempt.phase == "Running"
        and not slot.is_retried()
    )


def restarting_message(state: JobState) -> str:
    """Names the first slot that is being retried, its attempt and code, and how many retries are used."""
    first = next(state.slots[slot_id] for slot_id in state.retried if is_counted(state, slot_id))
    count = sum(tally.retried for tally in state.tallies.values())
    others = f", and {count - 1} more" if count > 1 else ""
    used, limit = sum(state.retries.values()), state.spec.backoff_limit
    retries = f"{used} {'retry' if used == 1 else 'retries'} used" + (f" of {limit}" if limit is not None else "")
    return f"{_retry_words(first)}{others}; {retries}"


def _retry_words(slot: Slot) -> str:
    attempt = slot.attempt
    if attempt is not None and attempt.is_crashing and attempt.is_live():
        meaning = meaning_of(attempt.crash_code or 0)
        code = f"{attempt.crash_code}" + (f" ({meaning})" if meaning else "")
        return f"{slot.id} (pod {attempt.name}, attempt {attempt.number}) exited with code {code} and restarts in place"
    assert slot.retry is not None
    return ending_words(slot.id, slot.retry.ending)


def is_counted(state: JobState, slot_id: SlotId) -> bool:
    """Within the replicas of its type."""
    return slot_id.index < state.spec.count(slot_id.type)
