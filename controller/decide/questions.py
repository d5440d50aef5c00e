"""What others ask of a state: what is in flight, whether an action is still wanted, whether the job is over.

In: a state. Out: answers. Never: a change.
"""

from __future__ import annotations

from typing import assert_never

from controller.decide.agenda import wants_to_run
from controller.fold.state import JobState
from controller.fold.whose import slot_of_pod, slot_of_service
from controller.model import actions
from controller.model.actions import Action
from controller.model.replicas import SlotId


def asked_of(state: JobState) -> dict[tuple[int, int], Action]:
    """(decided position, ordinal) → action: asked for, and no outcome is known."""
    return dict(state.asked)


def is_over(state: JobState) -> bool:
    """The job and all of its objects are gone: nothing can happen to it any more."""
    return state.is_deleted and not any(
        (slot.attempt is not None and not slot.attempt.is_gone) or slot.service is not None
        for slot in state.slots.values()
    )


def is_wanted(state: JobState, action: Action) -> bool:
    """Still wanted now; asked right before an action is sent."""
    if state.spec.is_left_alone() or (state.is_deleted and not isinstance(action, actions.ReleasePod)):
        return False
    match action:
        case actions.CreatePod(type=kind, index=index):
            slot = state.slots.get(SlotId(kind, index))
            is_free = slot is not None and (slot.attempt is None or slot.attempt.is_gone)
            return slot is not None and is_free and wants_to_run(state, slot)
        case actions.CreateService(type=kind, index=index):
            slot = state.slots.get(SlotId(kind, index))
            return slot is not None and slot.service is None and wants_to_run(state, slot)
        case actions.DeletePod(name=name, uid=uid):
            slot = slot_of_pod(state, name, uid)
            is_there = slot is not None and slot.attempt is not None and not slot.attempt.is_gone
            return is_there or uid in state.strays
        case actions.DeleteService(name=name, uid=uid):
            return slot_of_service(state, name, uid) is not None
        case actions.PatchStatus():
            return not state.is_adopted_end
        case actions.DeleteJob():
            # The TTL may have been taken away since (RULES §6).
            return state.spec.ttl_seconds is not None
        case actions.CreatePodGroup():
            return state.may_run() and state.group is None
        case actions.UpdatePodGroup(uid=uid):
            return state.may_run() and state.group is not None and state.group.uid == uid
        case actions.DeletePodGroup(uid=uid):
            return state.group is not None and state.group.uid == uid
        case actions.DeleteOwned() | actions.ReleasePod() | actions.EmitNotice():
            return True
        case _ as never:
            assert_never(never)
