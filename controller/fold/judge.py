"""What follows from an attempt's end: done, retried, stopped, or failed for good (RULES §3, §4.5).

In: the slots whose end was not judged yet. Out: verdicts, retries, a failure that goes over the job's limit.
"""

from __future__ import annotations

from controller.fold.draft import Draft, replace_slot
from controller.fold.exit_codes import is_retryable
from controller.fold.spec import RestartPolicy
from controller.fold.state import End, Ending, Failure, JobState, Retry, Slot, Verdict
from controller.model.instants import MINUTE, SECOND, Instant
from controller.model.replicas import SlotId

BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
"""The failure that would need one retry more than backoffLimit allows."""

LONGEST_WAIT_SECONDS = 300
RESET_AFTER_SECONDS = 10 * MINUTE // SECOND
"""An attempt that ran so long begins the series of waits anew."""


def series_seconds(step: int) -> int:
    """1, 2, 4 … 300 seconds: the wait before try `step` (from 1); none before the first (step 0)."""
    return 0 if step <= 0 else min(LONGEST_WAIT_SECONDS, 1 << min(step - 1, 9))


def judge(draft: Draft, at: Instant) -> None:
    """Judges every end that is waiting, in the order of finishedAt, then type, then index. `at` is the observation."""
    state = draft.state
    if not state.unjudged:
        return
    waiting = sorted(set(state.unjudged), key=lambda slot_id: _order(draft.slot(slot_id), slot_id))
    state.unjudged = ()
    for slot_id in waiting:
        slot = draft.slot(slot_id)
        ending = slot.attempt.ending if slot.attempt else None
        if ending is not None:
            draft.put(_judged(draft, slot, ending, at))
            draft.judged.append(slot_id)


def goes_over_limit(state: JobState, more: int) -> bool:
    """Whether `more` retries beside those used, and those that crashing slots are about to use, are too many."""
    limit = state.spec.backoff_limit
    if limit is None:
        return False
    crashing = sum(tally.crashing for tally in state.tallies.values())
    return sum(state.retries.values()) + crashing + more > limit


def count_retries(draft: Draft, slot: Slot, count: int) -> None:
    """Adds to the retries of a type."""
    if count:
        retries = draft.own("retries")
        retries[slot.type] = draft.state.retries.get(slot.type, 0) + count
        draft.state.change_status()


def _order(slot: Slot, slot_id: SlotId) -> tuple[int, tuple[int, int]]:
    ending = slot.attempt.ending if slot.attempt else None
    return (ending.order_at if ending else 0), slot_id.order()


def _judged(draft: Draft, slot: Slot, ending: Ending, at: Instant) -> Slot:
    state = draft.state
    if slot.verdict is not Verdict.OPEN:
        # What a status that was found says of it stands (RULES §11).
        return replace_slot(slot, last=ending, retry=None)
    if ending.how is End.SUCCEEDED:
        return replace_slot(slot, last=ending, verdict=Verdict.SUCCEEDED, retry=None)
    if ending.how is End.STOPPED or slot.index >= state.spec.count(slot.type):
        # A surplus slot is no failure, whatever it ended with (RULES §8).
        return replace_slot(slot, last=ending, retry=None)
    if state.is_at_rest() or not _is_retried(state, slot, ending):
        return replace_slot(slot, last=ending, verdict=Verdict.FAILED, retry=None)
    if ending.how is End.FAILED:
        # The slot's own crash is this failure, not another one beside it.
        own_crash = int(bool(slot.attempt and slot.attempt.is_crashing and slot.attempt.is_live()))
        if goes_over_limit(state, 1 - own_crash):
            if state.failure is None:
                state.failure = Failure(BACKOFF_LIMIT_EXCEEDED, slot.type, slot.index, ending)
            return replace_slot(slot, last=ending, verdict=Verdict.FAILED, retry=None)
        count_retries(draft, slot, 1)
    step = 0 if ending.ran_seconds >= RESET_AFTER_SECONDS else slot.backoff_step
    wait = series_seconds(step)
    retry = Retry(ending, due_at=at + wait * SECOND, is_due=wait == 0)
    return replace_slot(slot, last=ending, retry=retry, backoff_step=step + 1)


def _is_retried(state: JobState, slot: Slot, ending: Ending) -> bool:
    policy = state.spec.restart_policy(slot.type)
    if policy is RestartPolicy.NEVER:
        return False
    if policy is RestartPolicy.EXIT_CODE and ending.how is End.FAILED:
        return is_retryable(ending.code or 0, state.rules, state.spec.retryable)
    return True
