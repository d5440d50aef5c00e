"""Which pods must go, and why: at the end, at a suspension, when scaled away, to be replaced (RULES §3, §6–§8).

In: a state and one of its slots. Out: the reason, or None to keep the pod.
"""

from __future__ import annotations

from controller.fold.state import Attempt, JobState, Slot, Verdict
from controller.model.actions import Because
from controller.model.settings import CleanPodPolicy, PolicySettings


def clean_pod_policy(state: JobState, settings: PolicySettings) -> CleanPodPolicy:
    """The job's cleanPodPolicy: what it says, else All (v1alpha2) or the setting (v1)."""
    if state.spec.clean_pod_policy is not None:
        return state.spec.clean_pod_policy
    return CleanPodPolicy.ALL if state.rules == "v1alpha2" else settings.default_clean_pod_policy


def pod_must_go(state: JobState, slot: Slot, settings: PolicySettings, *, will_run: bool) -> Because | None:
    """Why the slot's existing pod is to be deleted now; None when it stays, or there is none."""
    attempt = slot.attempt
    if attempt is None or attempt.is_gone:
        return None
    if state.has_ended():
        # The terminal condition is written first (RULES §6).
        return _at_the_end(state, attempt, settings) if state.is_end_written else None
    if slot.index >= state.spec.count(slot.type):
        return Because.SCALED_DOWN
    if state.spec.is_suspended:
        has_ended = attempt.ending is not None or attempt.has_ended_by_phase()
        return None if has_ended else Because.SUSPENDED
    if will_run and attempt.ending is not None and slot.verdict is Verdict.OPEN:
        is_waiting = slot.retry is not None and not slot.retry.is_due
        return None if is_waiting else Because.REPLACED
    return None


def _at_the_end(state: JobState, attempt: Attempt, settings: PolicySettings) -> Because | None:
    if state.completion_time is not None and attempt.created_at > state.completion_time:
        return Because.CREATED_AFTER_END
    policy = clean_pod_policy(state, settings)
    if policy is CleanPodPolicy.ALL:
        return Because.JOB_ENDED
    if attempt.has_ended_by_phase():
        return None
    if state.is_deadline:
        return Because.DEADLINE
    return Because.JOB_ENDED if policy is CleanPodPolicy.RUNNING else None
