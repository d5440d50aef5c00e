"""What one slot asks for and waits for now: its pod, its service, their going (RULES §3, §6–§10).

In: the state of a job that is not left alone, one of its slots. Out: actions and timers, and what stalls it. Never:
what is in flight already.
"""

from __future__ import annotations

from controller.decide.cleanup import pod_must_go
from controller.decide.gang import group_refusal_of, may_start_pods
from controller.decide.reasons import FAILED_CREATE, NAME_TAKEN, POD_TERMINATING
from controller.fold.state import Agenda, Attempt, JobState, Refusal, Slot, Verdict
from controller.model.actions import (
    Action,
    Because,
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    Holder,
    ReleasePod,
)
from controller.model.events import Timer, TimerKind
from controller.model.instants import MINUTE, Instant, instant_of
from controller.model.names import object_name
from controller.model.settings import PolicySettings

STALL_FROM_TRIES = 3
"""A busy or faulty server is said to stall the job from the third try on; a refusal does at once."""
STALL_AFTER = 5 * MINUTE
"""A pod that needs longer to go is said to stall the job (RULES §4.6)."""

NOTHING = Agenda()


def agenda_of(state: JobState, slot: Slot, settings: PolicySettings) -> Agenda:
    """What this slot asks for and waits for, in the order in which it is to be sent."""
    actions: list[Action] = []
    timers: list[Timer] = []
    _release(slot, actions)
    if state.is_deleted or state.is_terminating or state.is_adopted_end:
        return Agenda(tuple(actions)) if actions else NOTHING
    may_delete = state.pause is None or state.pause.is_due
    will_run = wants_to_run(state, slot)
    attempt = slot.attempt
    because = pod_must_go(state, slot, settings, will_run=will_run)
    if attempt is not None and because is not None and not attempt.stop_asked_at and may_delete:
        actions.append(DeletePod(attempt.name, attempt.uid, because))
    if will_run and may_start_pods(state, settings):
        _create(state, slot, actions, timers)
    keeps_pod = attempt is not None and not attempt.is_gone and because is None and not attempt.stop_asked_at
    keeps_pod = keeps_pod and slot.index < state.spec.count(slot.type)
    service = slot.service
    if service and not service.is_delete_asked and not will_run and not keeps_pod and may_delete:
        waits_for_end = state.has_ended() and not state.is_end_written
        if not waits_for_end:
            name = object_name(state.name, slot.id)
            actions.append(DeleteService(name, service.uid, because or _why_not(state, slot)))
    _stall_timer(state, slot, will_run, timers)
    return Agenda(tuple(actions), tuple(timers)) if actions or timers else NOTHING


def wants_to_run(state: JobState, slot: Slot) -> bool:
    """The job wants this slot to have a pod now or next."""
    return state.may_run() and slot.index < state.spec.count(slot.type) and slot.verdict is Verdict.OPEN


def stall_of(state: JobState, slot: Slot, settings: PolicySettings) -> tuple[str, str] | None:
    """(reason, message) of what, outside the job, keeps a wanted slot from running (RULES §4.6)."""
    if not wants_to_run(state, slot):
        return None
    attempt = slot.attempt
    if attempt is not None and not attempt.is_gone:
        if attempt.is_live() and attempt.waits and not slot.is_stall_due:
            return attempt.waits
        if slot.is_stall_due and _no_longer_runs(attempt.phase, attempt):
            return (
                POD_TERMINATING,
                f"pod {attempt.name} has been terminating for over 5 minutes and its place is needed",
            )
    refused = [("pod", slot.pod_refusal), ("service", slot.service_refusal)]
    if attempt is None or attempt.is_gone:
        refused.insert(0, ("PodGroup", group_refusal_of(state, settings)))
    for kind, refusal in refused:
        if refusal is not None and (found := _refusal_stall(state, slot, kind, refusal)):
            return found
    holder = _known_holder(state, slot, "pod")
    return _holder_stall(slot, holder, object_name(state.name, slot.id)) if holder else None


def _release(slot: Slot, actions: list[Action]) -> None:
    attempt = slot.attempt
    if attempt is None or attempt.is_gone or not attempt.has_finalizer or attempt.is_release_asked:
        return
    is_going = attempt.terminating_at is not None and (attempt.has_ended_by_phase() or not attempt.node)
    if attempt.ending is not None or is_going:
        actions.append(ReleasePod(attempt.name, attempt.uid))


def _create(state: JobState, slot: Slot, actions: list[Action], timers: list[Timer]) -> None:
    attempt, retry = slot.attempt, slot.retry
    needs_pod = attempt is None or attempt.ending is not None or attempt.is_gone
    if needs_pod and retry is not None and not retry.is_due:
        timers.append(Timer(retry.due_at, TimerKind.BACKOFF, slot.type, slot.index))
    elif (
        (attempt is None or attempt.is_gone)
        and not slot.is_creating
        and _may_create(state, slot, "pod", slot.pod_refusal, timers)
    ):
        actions.append(CreatePod(slot.type, slot.index, slot.attempts + 1))
    if (
        slot.service is None
        and not slot.is_creating_service
        and _may_create(state, slot, "service", slot.service_refusal, timers)
    ):
        actions.append(CreateService(slot.type, slot.index))


def _may_create(state: JobState, slot: Slot, kind: str, refusal: Refusal | None, timers: list[Timer]) -> bool:
    """Not while somebody else is known to hold the name, nor before the next try is due."""
    if refusal is None:
        return _known_holder(state, slot, kind) is None
    if refusal.is_held and _known_holder(state, slot, kind) is not None:
        return False
    if not refusal.is_due:
        timers.append(Timer(refusal.due_at, TimerKind.CREATE_RETRY, slot.type, slot.index))
        return False
    return True


def _known_holder(state: JobState, slot: Slot, kind: str) -> Holder | None:
    return state.holders.get(f"{kind}/{object_name(state.name, slot.id)}") if state.holders else None


def _refusal_stall(state: JobState, slot: Slot, kind: str, refusal: Refusal) -> tuple[str, str] | None:
    if refusal.holder is not None:
        name = f"PodGroup {state.name}" if kind == "PodGroup" else object_name(state.name, slot.id)
        return _holder_stall(slot, refusal.holder, name)
    if refusal.reason == NAME_TAKEN:
        return NAME_TAKEN, refusal.message
    if refusal.may_pass and refusal.tries < STALL_FROM_TRIES:
        return None
    return FAILED_CREATE, f"{kind} of {slot.id}: {refusal.message}"


def _holder_stall(slot: Slot, holder: Holder, name: str) -> tuple[str, str] | None:
    if holder.deletion_timestamp is None:
        return NAME_TAKEN, f"{name} belongs to something else (uid {holder.uid})"
    if slot.is_stall_due and holder.phase != "Running":
        return (
            POD_TERMINATING,
            f"{name} of an older job has been terminating for over 5 minutes and its place is needed",
        )
    return None


def _no_longer_runs(phase: str, attempt: Attempt) -> bool:
    return phase != "Running" or attempt.ending is not None


def _stall_timer(state: JobState, slot: Slot, will_run: bool, timers: list[Timer]) -> None:
    if slot.is_stall_due or not will_run:
        return
    since: Instant | None = None
    attempt = slot.attempt
    if attempt is not None and not attempt.is_gone and attempt.terminating_at is not None:
        since = attempt.terminating_at if _no_longer_runs(attempt.phase, attempt) else None
    else:
        refusal = slot.pod_refusal
        holder = refusal.holder if refusal else _known_holder(state, slot, "pod")
        if holder and holder.deletion_timestamp:
            since = instant_of(holder.deletion_timestamp)
    if since is not None:
        timers.append(Timer(since + STALL_AFTER, TimerKind.STALL, slot.type, slot.index))


def _why_not(state: JobState, slot: Slot) -> Because:
    """Why a service whose pod is gone already goes too."""
    if state.has_ended():
        return Because.JOB_ENDED
    if slot.index >= state.spec.count(slot.type):
        return Because.SCALED_DOWN
    return Because.SUSPENDED if state.spec.is_suspended else Because.REPLACED
