"""The job's PodGroup as observed, and what became of what was asked for it (RULES §7, §10).

In: PodGroup events, actions and their outcomes. Out: the group in the draft. Slots are looked at anew only where the
group lets pods in or holds them back now: its scheduler writes counts into it all the time.
"""

from __future__ import annotations

import msgspec

from controller.fold.draft import Draft
from controller.fold.refusals import NOT_WANTED, own_uid, refusal_of
from controller.fold.state import GroupSeen
from controller.model import actions
from controller.model.actions import Outcome, Result
from controller.model.events import DELETIONS, Event
from controller.model.instants import Instant
from controller.model.objects import PodGroup
from controller.model.settings import GangScheduler

_replace = msgspec.structs.replace
_HELD_BACK = ("", "Pending")


def lets_pods_in(group: GroupSeen | None) -> bool:
    """Volcano has taken the group into its queue, or the scheduler has none: scheduler-plugins (RULES §10)."""
    if group is None:
        return False
    return group.scheduler is GangScheduler.SCHEDULER_PLUGINS or group.phase not in _HELD_BACK


def observe_group(draft: Draft, event: Event, seen: PodGroup, scheduler: GangScheduler) -> None:
    """Folds one observation of a PodGroup that belongs to the job, or carries its name."""
    state = draft.state
    known = state.group
    is_known = known is not None and known.uid == event.uid
    if event.op in DELETIONS:
        refusal = state.group_refusal
        if refusal is not None and refusal.holder is not None and refusal.holder.uid == event.uid:
            # A name that is freed is taken at once (RULES §12).
            state.group_refusal = None
            draft.touch_all()
        if is_known:
            _set(draft, None)
        return
    metadata = seen.metadata
    owner = metadata.controller()
    if owner is None or owner.uid != state.uid or event.name != state.name:
        return
    after = known if known is not None and is_known else GroupSeen(event.uid, scheduler)
    _set(
        draft,
        _replace(
            after,
            phase=str((seen.status or {}).get("phase") or ""),
            is_seen=True,
            is_delete_asked=after.is_delete_asked or metadata.deletion_timestamp is not None,
        ),
    )


def lose_unlisted_group(draft: Draft, since: Instant) -> None:
    """A group that was created before a relist began and that neither it nor the watch ever showed is gone."""
    group = draft.state.group
    if group is not None and not group.is_seen and group.created_at <= since:
        _set(draft, None)


def ask_group(draft: Draft, action: actions.CreatePodGroup | actions.UpdatePodGroup | actions.DeletePodGroup) -> None:
    """Something of the group is in flight."""
    state = draft.state
    if not isinstance(action, actions.DeletePodGroup):
        state.is_group_asked = True
    elif state.group is not None and state.group.uid == action.uid:
        _set(draft, _replace(state.group, is_delete_asked=True))


def settle_group(
    draft: Draft, action: actions.CreatePodGroup | actions.UpdatePodGroup, outcome: Outcome, at: Instant
) -> None:
    """The group is there as it was asked for, or the next try waits."""
    state = draft.state
    state.is_group_asked = False
    if outcome.result is not Result.DONE:
        if outcome.reason != NOT_WANTED:
            state.group_refusal = refusal_of(draft, state.group_refusal, outcome, f"PodGroup {state.name}", at)
            draft.touch_all()
        return
    if state.group_refusal is not None:
        state.group_refusal = None
        draft.touch_all()
    uid = outcome.uid or own_uid(draft, outcome)
    known = state.group
    if known is not None and known.uid == uid:
        _set(draft, _replace(known, key=action.key, min_member=action.min_member))
    elif known is None and uid and isinstance(action, actions.CreatePodGroup):
        phase = (outcome.holder.phase if outcome.holder else None) or ""
        _set(draft, GroupSeen(uid, action.scheduler, phase, action.key, action.min_member, created_at=at))


def group_deleted(draft: Draft, action: actions.DeletePodGroup, outcome: Outcome) -> None:
    """A deletion is done when the watch shows it; there was nothing to delete, or it was refused: at once."""
    group = draft.state.group
    if group is None or group.uid != action.uid:
        return
    if outcome.result is not Result.DONE:
        _set(draft, _replace(group, is_delete_asked=False))
    elif outcome.code == 404:
        _set(draft, None)


def _set(draft: Draft, group: GroupSeen | None) -> None:
    before = draft.state.group
    draft.state.group = group
    if lets_pods_in(before) != lets_pods_in(group):
        draft.touch_all()
