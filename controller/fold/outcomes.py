"""What the controller asked for, and what became of it (DESIGN §2, RULES §11).

In: DECIDED events and outcomes. Out: what is in flight, refusals, pauses. The fold knows the controller's own
requests from here only.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from controller.fold.draft import Draft, replace_slot
from controller.fold.groups import ask_group, group_deleted, settle_group
from controller.fold.judge import series_seconds
from controller.fold.pods import born
from controller.fold.refusals import NOT_WANTED, own_uid, refusal_of
from controller.fold.state import Pause, ServiceSeen, Slot
from controller.fold.whose import slot_of_pod, slot_of_service
from controller.model import actions
from controller.model.actions import OBSERVING, Action, Outcome, Result
from controller.model.events import ActionSettled, Decided, Event
from controller.model.instants import SECOND, Instant
from controller.model.names import object_name
from controller.model.replicas import SlotId

STATUS_RETRY = 30 * SECOND
"""So long a refused status waits for the version that it was refused for."""

_replace = msgspec.structs.replace
_NEVER_REFUSED = (404, 409, 422)
_SAID_ONLY = (actions.PatchStatus, actions.EmitNotice)
"""Words, not deeds: nobody else sends these, so one that is not sent is over."""
_NEVER_PAUSED = (
    actions.EmitNotice,
    actions.CreatePod,
    actions.CreateService,
    actions.CreatePodGroup,
    actions.UpdatePodGroup,
)
"""A success of these says nothing of a pause: they are asked for while it lasts."""


def decided(draft: Draft, event: Event, fact: Decided) -> None:
    """Marks everything that was asked for as in flight."""
    asked = draft.own("asked")
    for ordinal, action in enumerate(fact.actions):
        asked[event.position, ordinal] = action
        _ask(draft, action, event.observed_at)


def settled(draft: Draft, event: Event, fact: ActionSettled) -> None:
    """Folds one outcome. An unknown one leaves its action in flight: a look follows."""
    key = (fact.decided_position, fact.ordinal)
    if key not in draft.state.asked or fact.outcome.result in (Result.UNKNOWN, Result.NOT_SENT):
        return
    is_observing = fact.outcome.reason == OBSERVING
    if is_observing and not isinstance(fact.action, _SAID_ONLY):
        # As if it were on its way: whoever acts here does it, or nobody. The watch says which.
        return
    draft.own("asked").pop(key)
    if isinstance(fact.action, actions.PatchStatus) and (fact.outcome.result is Result.DONE or is_observing):
        # What was decided after the end carried the end.
        state = draft.state
        if state.has_ended() and not state.is_end_written and fact.decided_position > state.end_position:
            state.is_end_written = True
            draft.touch_all()
    _settle(draft, fact.action, fact.outcome, event.observed_at)


def _ask(draft: Draft, action: Action, at: Instant) -> None:
    state = draft.state
    match action:
        case actions.CreatePod(type=kind, index=index):
            slot = draft.slot(SlotId(kind, index))
            draft.put(replace_slot(slot, is_creating=True))
        case actions.CreateService(type=kind, index=index):
            draft.put(replace_slot(draft.slot(SlotId(kind, index)), is_creating_service=True))
        case actions.DeletePod(name=name, uid=uid):
            _ask_pod(draft, name, uid, at)
        case actions.DeleteService():
            _mark_service(draft, action, is_asked=True)
        case actions.DeleteOwned(kind=kind_name):
            for slot in list(state.slots.values()):
                if kind_name == "pods" and slot.attempt and not slot.attempt.is_gone:
                    _ask_pod(draft, slot.attempt.name, slot.attempt.uid, at)
                if kind_name == "services" and slot.service:
                    draft.put(replace_slot(slot, service=_replace(slot.service, is_delete_asked=True)))
            for uid, stray in list(state.strays.items()) if kind_name == "pods" else ():
                _ask_pod(draft, stray.name, uid, at)
        case actions.EmitNotice():
            state.notices = tuple(notice for notice in state.notices if notice != action)
        case actions.DeleteJob():
            state.is_delete_asked = True
        case actions.PatchStatus():
            state.is_status_asked, state.is_status_urgent, state.is_status_wanted = True, False, False
        case actions.ReleasePod():
            _mark_release(draft, action, is_asked=True)
        case actions.CreatePodGroup() | actions.UpdatePodGroup() | actions.DeletePodGroup():
            ask_group(draft, action)
        case _ as never:
            assert_never(never)


def _ask_pod(draft: Draft, name: str, uid: str, at: Instant) -> None:
    if uid in draft.state.strays:
        draft.own("strays")[uid] = _replace(draft.state.strays[uid], is_delete_asked=True)
        return
    slot = slot_of_pod(draft.state, name, uid)
    if slot and slot.attempt and not slot.attempt.stop_asked_at:
        # An end that was observed before this event is no stop (RULES §11).
        attempt = _replace(slot.attempt, stop_asked_at=at, is_stop=slot.attempt.ending is None)
        draft.put(replace_slot(slot, attempt=attempt))


def _mark_release(draft: Draft, action: actions.ReleasePod, *, is_asked: bool) -> None:
    name, uid = action.name, action.uid
    if uid in draft.state.strays:
        draft.own("strays")[uid] = _replace(draft.state.strays[uid], is_release_asked=is_asked)
        return
    slot = slot_of_pod(draft.state, name, uid)
    if slot and slot.attempt:
        draft.put(replace_slot(slot, attempt=_replace(slot.attempt, is_release_asked=is_asked)))


def _mark_service(draft: Draft, action: actions.DeleteService, *, is_asked: bool) -> None:
    slot = slot_of_service(draft.state, action.name, action.uid)
    if slot and slot.service:
        draft.put(replace_slot(slot, service=_replace(slot.service, is_delete_asked=is_asked)))


def _settle(draft: Draft, action: Action, outcome: Outcome, at: Instant) -> None:
    state = draft.state
    is_done = outcome.result is Result.DONE
    match action:
        case actions.CreatePod(type=kind, index=index):
            draft.put(_pod_created(draft, draft.slot(SlotId(kind, index)), outcome, at))
        case actions.CreateService(type=kind, index=index):
            draft.put(_service_created(draft, draft.slot(SlotId(kind, index)), outcome, at))
        case actions.DeletePod(name=name, uid=uid):
            if not is_done:
                _unask_pod(draft, name, uid)
                _pause(draft, outcome, at)
        case actions.DeleteService():
            if not is_done:
                _mark_service(draft, action, is_asked=False)
                _pause(draft, outcome, at)
        case actions.DeleteOwned(kind=kind_name):
            if not is_done:
                _unask_all(draft, kind_name)
                _pause(draft, outcome, at)
        case actions.PatchStatus():
            _status_written(draft, outcome, at)
        case actions.DeleteJob():
            # Gone or another one of that name: the watch will say so; anything else is asked again.
            if not is_done and outcome.code not in _NEVER_REFUSED:
                state.is_delete_asked = False
                _pause(draft, outcome, at)
        case actions.EmitNotice():
            pass
        case actions.ReleasePod():
            _mark_release(draft, action, is_asked=is_done)
            if not is_done:
                _pause(draft, outcome, at)
        case actions.CreatePodGroup() | actions.UpdatePodGroup():
            settle_group(draft, action, outcome, at)
        case actions.DeletePodGroup():
            group_deleted(draft, action, outcome)
            if not is_done:
                _pause(draft, outcome, at)
        case _ as never:
            assert_never(never)
    if state.pause is not None and is_done and not isinstance(action, _NEVER_PAUSED):
        state.pause = None


def _pod_created(draft: Draft, slot: Slot, outcome: Outcome, at: Instant) -> Slot:
    name = object_name(draft.state.name, slot.id)
    uid = outcome.uid if outcome.result is Result.DONE else own_uid(draft, outcome)
    known = slot.attempt
    if uid and known and known.uid == uid:
        return replace_slot(slot, is_creating=False)
    if uid and (known is None or known.is_gone):
        slot = born(slot, uid, name, at)
        assert slot.attempt is not None
        return replace_slot(slot, attempt=_replace(slot.attempt, has_uid_label=True))
    refusal = None if uid else refusal_of(draft, slot.pod_refusal, outcome, name, at)
    return replace_slot(slot, is_creating=False, pod_refusal=refusal)


def _service_created(draft: Draft, slot: Slot, outcome: Outcome, at: Instant) -> Slot:
    uid = outcome.uid if outcome.result is Result.DONE else own_uid(draft, outcome)
    if uid:
        service = slot.service or ServiceSeen(uid=uid, has_uid_label=True, created_at=at)
        return replace_slot(slot, is_creating_service=False, service=service, service_refusal=None)
    name = object_name(draft.state.name, slot.id)
    refusal = refusal_of(draft, slot.service_refusal, outcome, name, at)
    return replace_slot(slot, is_creating_service=False, service_refusal=refusal)


def _unask_pod(draft: Draft, name: str, uid: str) -> None:
    if uid in draft.state.strays:
        draft.own("strays")[uid] = _replace(draft.state.strays[uid], is_delete_asked=False)
        return
    slot = slot_of_pod(draft.state, name, uid)
    if slot and slot.attempt:
        draft.put(replace_slot(slot, attempt=_replace(slot.attempt, stop_asked_at=None, is_stop=False)))


def _unask_all(draft: Draft, kind: str) -> None:
    for slot in list(draft.state.slots.values()):
        if kind == "pods" and slot.attempt and slot.attempt.stop_asked_at and not slot.attempt.is_gone:
            _unask_pod(draft, slot.attempt.name, slot.attempt.uid)
        if kind == "services" and slot.service:
            draft.put(replace_slot(slot, service=_replace(slot.service, is_delete_asked=False)))


def _status_written(draft: Draft, outcome: Outcome, at: Instant) -> None:
    state = draft.state
    state.is_status_asked = False
    version = int(outcome.resource_version) if outcome.resource_version else 0
    if outcome.result is Result.DONE:
        state.written_digest = outcome.status_digest or ""
        state.resource_version = max(state.resource_version, version)
    elif outcome.reason == NOT_WANTED:
        pass
    elif outcome.reason == OBSERVING:
        state.written_digest = outcome.status_digest or ""
    elif outcome.reason == "Invalid":
        # Said once: the same content is not sent again, and what waits for the write goes on.
        state.written_digest = outcome.status_digest or ""
        state.is_end_written = state.is_end_written or state.has_ended()
        draft.notify("Warning", "StatusRefused", f"The API server refuses the status: {outcome.message[:500]}")
        draft.touch_all()
    elif outcome.code in (404, 409):
        # Nothing is written before the watch has shown a newer version, or that the job is gone.
        state.awaits_version_above = max(state.awaits_version_above, version or state.resource_version)
        # A conflict of which the watch shows nothing must not keep the status for ever.
        state.status_retry_at = at + STATUS_RETRY if outcome.code == 409 else 0
    else:
        _pause(draft, outcome, at)
    state.is_status_dirty = True


def _pause(draft: Draft, outcome: Outcome, at: Instant) -> None:
    if outcome.reason == NOT_WANTED:
        return
    tries = (draft.state.pause.tries if draft.state.pause else 0) + 1
    wait = max(series_seconds(tries), outcome.retry_after_seconds or 0)
    draft.state.pause = Pause(tries, at + int(wait * SECOND))
    draft.touch_all()
