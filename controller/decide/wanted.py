"""What the job as a whole asks for now, beside its slots: order, collections, status, TTL, Events (RULES §5, §6, §8).

In: the state of a job that is not left alone, its agendas right. Out: the actions for one DECIDED event, and timers.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.decide.cleanup import clean_pod_policy
from controller.decide.gang import group_actions, wants_group
from controller.decide.status import digest_now
from controller.fold.draft import Draft
from controller.fold.state import JobState
from controller.model import actions
from controller.model.actions import Action, Because
from controller.model.events import Timer, TimerKind
from controller.model.instants import SECOND
from controller.model.replicas import SlotId
from controller.model.settings import CleanPodPolicy, PolicySettings

COLLECT_FROM = 2
"""So many deletions of one kind go as one deletecollection."""


def actions_of(draft: Draft, settings: PolicySettings) -> tuple[Action, ...]:
    """Everything that is to be asked for newly, in the order in which it is to be sent."""
    state = draft.state
    # Most of the slots that have an agenda only wait.
    asking = [slot_id for slot_id, agenda in state.agendas.items() if agenda.actions] if state.agendas else []
    if state.is_deleted:
        # Its pods still wait to be let go (DESIGN §6).
        ended = [action for slot_id in sorted(asking) for action in state.agendas[slot_id].actions]
        return (*ended, *_released_strays(state))
    found: list[Action] = []
    may_ask = state.pause is None or state.pause.is_due
    if _wants_status(state) and may_ask:
        found.append(actions.PatchStatus(urgent=state.is_status_urgent))
    of_slots: list[Action] = []
    if asking:
        asking.sort(key=SlotId.order)
        of_slots = [action for slot_id in asking for action in state.agendas[slot_id].actions]
        # Surplus slots go from the highest index down (RULES §8).
        of_slots.sort(key=_place)
    # The PodGroup is made before its pods.
    found += group_actions(state, settings, of_slots, may_delete=may_ask)
    if of_slots:
        found += _collected(state, of_slots, settings)
    if may_ask:
        if state.strays:
            found += _strays(state)
            found += _released_strays(state)
        found += state.notices
        if state.is_ttl_due and state.has_ended() and not state.is_terminating and not state.is_delete_asked:
            found.append(actions.DeleteJob(Because.TTL))
    return tuple(found)


def timers_of(state: JobState, settings: PolicySettings) -> tuple[Timer, ...]:
    """Every instant at which the job wants to be woken."""
    if state.is_deleted or state.is_terminating:
        return ()
    found = [timer for agenda in state.agendas.values() for timer in agenda.timers] if state.agendas else []
    seconds = state.spec.deadline_seconds
    if state.may_run() and seconds is not None and state.start_time is not None and not state.is_deadline:
        found.append(Timer(state.start_time + seconds * SECOND, TimerKind.DEADLINE))
    ttl = state.spec.ttl_seconds
    if state.has_ended() and ttl is not None and state.completion_time is not None and not state.is_ttl_due:
        found.append(Timer(state.completion_time + ttl * SECOND, TimerKind.TTL))
    if state.group_refusal is not None and not state.group_refusal.is_due and wants_group(state, settings):
        found.append(Timer(state.group_refusal.due_at, TimerKind.POD_GROUP_RETRY))
    if state.pause is not None and not state.pause.is_due:
        found.append(Timer(state.pause.due_at, TimerKind.ACTION_RETRY))
    if state.status_retry_at and state.awaits_version_above >= state.resource_version > 0:
        found.append(Timer(state.status_retry_at, TimerKind.ACTION_RETRY))
    return tuple(sorted(found)) if len(found) > 1 else tuple(found)


def _wants_status(state: JobState) -> bool:
    """The status differs from what was written last, and may be written now. Equal content is never written twice."""
    if state.is_status_asked or state.is_adopted_end or state.is_terminating:
        return False
    if state.is_status_dirty:
        state.is_status_dirty = False
        state.is_status_wanted = digest_now(state) != state.written_digest
        if state.is_status_wanted:
            state.status_position = state.position
    return state.is_status_wanted and not state.awaits_version_above >= state.resource_version > 0


def _collected(state: JobState, asked: list[Action], settings: PolicySettings) -> list[Action]:
    """At the end, all pods and all services by one request each, where nothing else carries the label (RULES §6)."""
    if not state.has_ended() or clean_pod_policy(state, settings) is not CleanPodPolicy.ALL:
        return asked
    pods = [each for each in asked if isinstance(each, actions.DeletePod)]
    services = [each for each in asked if isinstance(each, actions.DeleteService)]
    rest = [each for each in asked if not isinstance(each, actions.DeletePod | actions.DeleteService)]
    # What is in flight could land after the collection without being part of it.
    if any(slot.is_creating or slot.is_creating_service for slot in state.slots.values()):
        return asked
    return [
        *_collection("pods", pods, _may_collect_pods(state)),
        *_collection("services", services, _may_collect_services(state)),
        *rest,
    ]


def _collection(
    kind: str, deletions: Sequence[actions.DeletePod | actions.DeleteService], is_allowed: bool
) -> list[Action]:
    if len(deletions) < COLLECT_FROM or not is_allowed:
        return list(deletions)
    first = deletions[0]
    return [actions.DeleteOwned(kind, first.because)]


def _may_collect_pods(state: JobState) -> bool:
    if "pod" in state.borrowers.values():
        return False
    attempts = [slot.attempt for slot in state.slots.values() if slot.attempt and not slot.attempt.is_gone]
    return all(each.has_uid_label for each in attempts) and all(each.has_uid_label for each in state.strays.values())


def _may_collect_services(state: JobState) -> bool:
    if "service" in state.borrowers.values():
        return False
    return all(slot.service.has_uid_label for slot in state.slots.values() if slot.service)


def _strays(state: JobState) -> list[Action]:
    if state.is_adopted_end:
        return []
    return [
        actions.DeletePod(stray.name, uid, Because(stray.reason))
        for uid, stray in state.strays.items()
        if not stray.is_delete_asked
    ]


def _released_strays(state: JobState) -> list[Action]:
    """A pod without a slot has no end that would be waited for."""
    return [
        actions.ReleasePod(stray.name, uid)
        for uid, stray in state.strays.items()
        if stray.has_finalizer and not stray.is_release_asked
    ]


def _place(action: Action) -> int:
    """Lowest first: a surplus pod's index, turned round."""
    if isinstance(action, actions.DeletePod) and action.because is Because.SCALED_DOWN:
        return -int(action.name.rpartition("-")[2])
    return 0
