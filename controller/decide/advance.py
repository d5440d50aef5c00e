"""One step of one job: fold the event, bring the conditions up to it, name what is wanted now (DESIGN §2).

In: a state (None before the first), an event, the context. Out: the next state, transitions, actions, timers.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from controller.decide.agenda import NOTHING, agenda_of, stall_of, wants_to_run
from controller.decide.evaluate import evaluate, evaluate_stalled
from controller.decide.status import digest_now
from controller.decide.wanted import actions_of, timers_of
from controller.fold.apply import apply
from controller.fold.context import Context
from controller.fold.counts import with_slot
from controller.fold.draft import Draft
from controller.fold.jobs import begin_job
from controller.fold.state import JobState, Slot, Verdict
from controller.model import actions
from controller.model.actions import Action
from controller.model.events import (
    DELETIONS,
    ActionSettled,
    Event,
    JobObserved,
    Synced,
    Timer,
    TimerFired,
    Transition,
)
from controller.model.replicas import SlotId
from controller.model.settings import PolicySettings


class Step(NamedTuple):
    """`actions` is what is to be asked for newly, the whole of it; they become one DECIDED event. `timers` are all.

    `judged` names the slots whose newest attempt has just been found ended.
    """

    state: JobState
    transitions: tuple[Transition, ...] = ()
    actions: tuple[Action, ...] = ()
    timers: tuple[Timer, ...] = ()
    judged: tuple[SlotId, ...] = ()


def advance(state: JobState | None, event: Event, context: Context) -> Step | None:
    """Folds one event. None only when there is no state and the event does not begin a job."""
    if state is None:
        if not isinstance(event.fact, JobObserved) or event.op in DELETIONS:
            return None
        draft = Draft(begin_job(event, event.fact.job))
        draft.state.position = event.position
        _begin(draft, is_new=not event.fact.job.status)
    else:
        draft = Draft(state)
        apply(draft, event, context)
    return _stepped(draft, event, context)


def restored(state: JobState, context: Context) -> Step:
    """What a decoded snapshot asks for and waits for, before any further event."""
    draft = Draft(state)
    if context.gap_open or state.spec.is_left_alone():
        # What is wanted is named when the relist is through, or never.
        return Step(draft.state)
    draft.touch_all()
    _derive(draft, context.settings)
    return Step(draft.state, (), actions_of(draft, context.settings), timers_of(draft.state, context.settings))


def _begin(draft: Draft, *, is_new: bool) -> None:
    draft.touch_all()
    if draft.state.is_at_rest() or not is_new:
        return
    for replica in draft.state.spec.replicas:
        if replica.sets_restart_policy:
            draft.notify(
                "Warning",
                "SetPodTemplateRestartPolicy",
                f"{replica.key}: the template's restartPolicy is overwritten by the replica's {replica.restart_policy}",
            )


def _stepped(draft: Draft, event: Event, context: Context) -> Step:
    state = draft.state
    if state.spec.is_left_alone():
        return Step(state)
    transitions: list[Transition] = []
    is_synced = isinstance(event.fact, Synced)
    if is_synced:
        # Nothing was named while the gap was open, whatever changed.
        draft.touch_all()
    has_moved = draft.has_moved or bool(state.unjudged) or isinstance(event.fact, TimerFired)
    if not context.gap_open and (has_moved or draft.touched):
        if has_moved:
            transitions += evaluate(draft, event, by_gap=is_synced)
            _tell_birth(draft)
        stalls = state.stalls
        _derive(draft, context.settings)
        if has_moved or state.stalls is not stalls:
            transitions += evaluate_stalled(draft, event, by_gap=is_synced)
        if draft.touched is None:
            state.change_status()
    if isinstance(event.fact, ActionSettled) and isinstance(event.fact.action, actions.PatchStatus):
        _note_written(draft, context.settings)
    if context.gap_open:
        # What is wanted is named when the relist is through.
        return Step(state)
    transitions = [structs.replace(each, ordinal=number) for number, each in enumerate(transitions)]
    found = actions_of(draft, context.settings)
    return Step(state, tuple(transitions), found, timers_of(state, context.settings), tuple(draft.judged))


def _note_written(draft: Draft, settings: PolicySettings) -> None:
    """A status that was written and is still the newest has the end in it, if there is one."""
    state = draft.state
    if state.has_ended() and not state.is_end_written and digest_now(state) == state.written_digest:
        state.is_end_written = True
        draft.touch_all()
    if draft.touched is None:
        _derive(draft, settings)


def _derive(draft: Draft, settings: PolicySettings) -> None:
    """Makes agendas and stalls anew for the slots that changed."""
    state = draft.state
    if draft.touched is None:
        for replica in state.spec.replicas:
            for index in range(replica.count):
                slot_id = SlotId(replica.type, index)
                if slot_id not in state.slots:
                    draft.put(Slot(replica.type, index))
        touched = set(state.slots)
    else:
        touched = draft.touched
    may_run, tallies = state.may_run(), state.tallies
    for slot_id in touched:
        slot = state.slots.get(slot_id)
        if slot is None:
            continue
        tally = tallies.get(slot_id.type)
        is_quiet = may_run and tally is not None and slot_id.index < tally.total and _is_quiet(slot)
        agenda = NOTHING if is_quiet else agenda_of(state, slot, settings)
        if agenda.actions or agenda.timers:
            draft.own("agendas")[slot_id] = agenda
        elif slot_id in state.agendas:
            draft.own("agendas").pop(slot_id)
        stall = None if is_quiet else stall_of(state, slot, settings)
        is_stalled = slot_id in state.stalls
        if stall is not None:
            draft.own("stalls")[slot_id] = stall
        elif is_stalled:
            draft.own("stalls").pop(slot_id)
        if is_stalled != (stall is not None):
            state.stalled = with_slot(state.stalled, slot_id, is_in=stall is not None)


def _is_quiet(slot: Slot) -> bool:
    """A slot of a job that may run, with a pod that lives and a service: the usual case, which asks for nothing."""
    attempt, service = slot.attempt, slot.service
    return (
        attempt is not None
        and service is not None
        and slot.verdict is Verdict.OPEN
        and attempt.ending is None
        and not attempt.is_gone
        and attempt.terminating_at is None
        and not attempt.stop_asked_at
        and attempt.waits is None
        and not service.is_delete_asked
        and slot.pod_refusal is None
        and slot.service_refusal is None
    )


def _tell_birth(draft: Draft) -> None:
    """One Event for all first pods together, naming them."""
    state = draft.state
    if state.is_birth_told or not state.tallies or state.is_at_rest():
        return
    if all(tally.born == tally.total for tally in state.tallies.values()):
        state.is_birth_told = True
        names = [slot.attempt.name for slot in state.slots.values() if slot.attempt and wants_to_run(state, slot)]
        if names:
            draft.notify("Normal", "SuccessfulCreatePod", f"Created {len(names)} pods: {', '.join(names)}"[:1000])
