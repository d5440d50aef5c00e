"""What a job that has not ended waits for, in words a person can act on.

In: a folded state. Out: one line for each thing that is waited for. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.decide.agenda import stall_of, wants_to_run
from controller.decide.reasons import ending_words
from controller.fold import JobState
from controller.fold.exit_codes import meaning_of
from controller.fold.state import Slot, Verdict
from controller.history.describe import plain
from controller.model.instants import SECOND, text_of
from controller.model.replicas import ReplicaType
from controller.model.settings import PolicySettings

MOST = 5
"""Slots that are named of those that wait for the same; the rest are counted."""


def waits_of(state: JobState, settings: PolicySettings) -> list[str]:
    """What is waited for now; empty of a job that has ended or is gone."""
    if state.has_ended() or state.is_deleted:
        return []
    if state.spec.is_left_alone():
        return [f"nothing: managedBy {plain(state.spec.managed_by)} says that another controller runs it"]
    if state.is_terminating:
        return ["its own deletion: the TFJob has a deletionTimestamp, and gets no new pods"]
    if state.spec.is_suspended:
        return ["spec.runPolicy.suspend to become false"]
    slots = sorted(state.slots.values(), key=lambda each: each.id.order())
    wanted = [slot for slot in slots if wants_to_run(state, slot)]
    waits: list[str] = []
    for look in (lambda slot: _stalled(state, slot, settings), _retried, _starting):
        waits += _named(wanted, look)
    return [*waits, *_end(state)]


def _named(slots: list[Slot], look: Callable[[Slot], str | None]) -> list[str]:
    found = [words for slot in slots if (words := look(slot))]
    return found[:MOST] + ([f"{len(found) - MOST} more slots like these"] if len(found) > MOST else [])


def _stalled(state: JobState, slot: Slot, settings: PolicySettings) -> str | None:
    stall = stall_of(state, slot, settings)
    return f"{slot.id}: {stall[0]}: {plain(stall[1])}" if stall else None


def _retried(slot: Slot) -> str | None:
    attempt, retry = slot.attempt, slot.retry
    if attempt is not None and attempt.is_crashing and attempt.is_live():
        code = attempt.crash_code
        meaning = ", ".join(each for each in (meaning_of(code or 0), attempt.crash_reason) if each)
        return f"{slot.id}: the kubelet to restart it in place after code {code}" + (f" ({meaning})" if meaning else "")
    if retry is None:
        return None
    if not retry.is_due:
        return f"{slot.id}: its next attempt, not before {text_of(retry.due_at)}, after {_last(slot)}"
    if attempt is not None and not attempt.is_gone and attempt.ending is not None:
        return f"{slot.id}: pod {attempt.name} to go, before its next attempt, after {_last(slot)}"
    return f"{slot.id}: its next attempt to run, after {_last(slot)}"


def _last(slot: Slot) -> str:
    assert slot.retry is not None
    return plain(ending_words(slot.id, slot.retry.ending))


def _starting(slot: Slot) -> str | None:
    attempt = slot.attempt
    if slot.retry is not None or (attempt is not None and attempt.waits):
        return None
    if attempt is None or attempt.is_gone:
        return None if slot.pod_refusal else f"{slot.id}: its pod to be created"
    if attempt.is_live() and attempt.phase == "Pending":
        where = f"start on {attempt.node}" if attempt.node else "be given a node"
        return f"{slot.id}: pod {attempt.name} to {where}"
    return None


def _end(state: JobState) -> list[str]:
    """Whose end decides, and the deadline (RULES §4.4)."""
    spec, decider = state.spec, state.spec.decider()
    waits = []
    if decider is None:
        waits.append("every replica to succeed")
    elif spec.all_workers:
        first = "" if decider.type is ReplicaType.WORKER else f"{decider} and "
        waits.append(f"{first}every Worker to succeed ({_done(state)})")
    else:
        waits.append(f"{decider} to succeed: it decides the job")
    if spec.deadline_seconds is not None and state.start_time is not None:
        due = text_of(state.start_time + spec.deadline_seconds * SECOND)
        waits.append(f"at the latest {due}: activeDeadlineSeconds {spec.deadline_seconds}")
    return waits


def _done(state: JobState) -> str:
    workers = [slot for slot in state.slots.values() if slot.type is ReplicaType.WORKER]
    done = sum(slot.verdict is Verdict.SUCCEEDED for slot in workers)
    return f"{done} of {state.spec.count(ReplicaType.WORKER)} have"
