"""Timers that fired: what was waiting for an instant may go on (RULES §11).

In: a TIMER event. Out: flags in the draft; whether anything follows is for decide/ to say.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from controller.fold.draft import Draft, replace_slot
from controller.model.events import TimerFired, TimerKind
from controller.model.instants import SECOND
from controller.model.replicas import SlotId

_replace = msgspec.structs.replace


def timer_fired(draft: Draft, fact: TimerFired) -> None:
    """Marks what the timer was for as due. A timer whose reason has changed since is passed over."""
    state = draft.state
    if fact.type is not None and fact.index is not None:
        _slot_timer(draft, fact, SlotId(fact.type, fact.index))
        return
    match fact.timer:
        case TimerKind.DEADLINE:
            seconds = state.spec.deadline_seconds
            # A suspension stops the clock (RULES §7).
            if state.start_time is not None and seconds is not None and state.may_run():
                state.is_deadline = fact.due_at >= state.start_time + seconds * SECOND
        case TimerKind.TTL:
            seconds = state.spec.ttl_seconds
            if state.completion_time is not None and seconds is not None:
                state.is_ttl_due = fact.due_at >= state.completion_time + seconds * SECOND
        case TimerKind.ACTION_RETRY:
            if state.status_retry_at and fact.due_at >= state.status_retry_at:
                state.status_retry_at = state.awaits_version_above = 0
                draft.touch_all()
            if state.pause and fact.due_at >= state.pause.due_at:
                state.pause = _replace(state.pause, is_due=True)
                draft.touch_all()
        case TimerKind.POD_GROUP_RETRY:
            if state.group_refusal and fact.due_at >= state.group_refusal.due_at:
                state.group_refusal = _replace(state.group_refusal, is_due=True)
        case TimerKind.BACKOFF | TimerKind.CREATE_RETRY | TimerKind.STALL:
            pass
        case _ as never:
            assert_never(never)


def _slot_timer(draft: Draft, fact: TimerFired, slot_id: SlotId) -> None:
    slot = draft.state.slots.get(slot_id)
    if slot is None:
        return
    match fact.timer:
        case TimerKind.BACKOFF:
            if slot.retry and fact.due_at >= slot.retry.due_at:
                slot = replace_slot(slot, retry=_replace(slot.retry, is_due=True))
        case TimerKind.CREATE_RETRY:
            for field in ("pod_refusal", "service_refusal"):
                refusal = getattr(slot, field)
                if refusal and fact.due_at >= refusal.due_at:
                    slot = replace_slot(slot, **{field: _replace(refusal, is_due=True)})
        case TimerKind.STALL:
            slot = replace_slot(slot, is_stall_due=True)
        case TimerKind.DEADLINE | TimerKind.TTL | TimerKind.ACTION_RETRY | TimerKind.POD_GROUP_RETRY:
            pass
        case _ as never:
            assert_never(never)
    draft.put(slot)
