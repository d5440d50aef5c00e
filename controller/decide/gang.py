"""The job's PodGroup: whether its scheduler lets pods in, and what is asked for it (RULES §7, §10).

In: the state of a job that is not left alone, the settings. Out: actions, a timer, what stalls the job. It is written
when what it is made from changed, and when a pod is made after others are done: never for what its scheduler writes.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.fold.groups import lets_pods_in
from controller.fold.state import GroupSeen, JobState, Refusal
from controller.model.actions import (
    Action,
    Because,
    CreatePod,
    CreatePodGroup,
    DeletePodGroup,
    UpdatePodGroup,
)
from controller.model.settings import GangScheduler, PolicySettings


def may_start_pods(state: JobState, settings: PolicySettings) -> bool:
    """Without a gang scheduler always; else when its PodGroup lets them in."""
    scheduler = settings.gang_scheduler
    if scheduler is GangScheduler.NONE:
        return True
    group = state.group
    return (
        group is not None
        and group.scheduler is scheduler
        and not group.is_delete_asked
        and lets_pods_in(group)
    )  # fmt: skip


def members_of(state: JobState) -> int:
    """minMember, in pods: what the policy asks for, or all; no more than are left when others are done for good."""
    total, asked = state.spec.total(), state.spec.min_available
    if asked is None:
        asked = total
    done = sum(tally.succeeded + tally.failed_for_good for tally in state.tallies.values())
    # More than there are replicas is what the user wrote: the job waits until that is edited.
    return min(asked, max(asked, total) - done)


def wants_group(state: JobState, settings: PolicySettings) -> bool:
    """The job is to have a PodGroup now."""
    return settings.gang_scheduler is not GangScheduler.NONE and state.may_run() and state.spec.total() > 0


def group_actions(
    state: JobState, settings: PolicySettings, others: Iterable[Action], *, may_delete: bool
) -> list[Action]:
    """What is asked for the PodGroup; `others` is what is asked for the slots at the same time."""
    scheduler, group = settings.gang_scheduler, state.group
    if scheduler is GangScheduler.NONE or state.is_terminating or state.is_adopted_end:
        return []
    if group is not None and not group.is_delete_asked and may_delete and not state.is_group_asked:
        because = _must_go(state, settings, group)
        if because is not None:
            return [DeletePodGroup(because, group.uid, group.scheduler)]
    if state.is_group_asked or not wants_group(state, settings):
        return []
    if state.group_refusal is not None and not state.group_refusal.is_due:
        return []
    members, key = members_of(state), state.spec.gang_key
    if group is None:
        return [CreatePodGroup(members, scheduler, key)]
    if group.is_delete_asked or group.scheduler is not scheduler:
        return []
    is_other = group.key != key
    is_too_large = members < group.min_member and any(isinstance(each, CreatePod) for each in others)
    return [UpdatePodGroup(group.uid, members, scheduler, key)] if is_other or is_too_large else []


def group_refusal_of(state: JobState, settings: PolicySettings) -> Refusal | None:
    """Why the PodGroup cannot be made; None when that keeps no pod from being made."""
    if settings.gang_scheduler is GangScheduler.NONE or state.group is not None:
        return None
    return state.group_refusal


def _must_go(state: JobState, settings: PolicySettings, group: GroupSeen) -> Because | None:
    if state.has_ended():
        # The terminal condition is written first (RULES §6).
        return Because.JOB_ENDED if state.is_end_written else None
    if state.spec.is_suspended:
        return Because.SUSPENDED
    if state.spec.total() == 0:
        return Because.SCALED_DOWN
    return Because.REPLACED if group.scheduler is not settings.gang_scheduler else None
