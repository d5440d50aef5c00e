"""Pods as observed: whose they are, which attempt they are, and what each observation changes (RULES §2, §9).

In: a pod event. Out: slots, strays and holders of names in the draft.
"""

from __future__ import annotations

import msgspec

from controller.fold.context import Context
from controller.fold.draft import Draft, replace_slot
from controller.fold.endings import ending_of, main_status, vanished
from controller.fold.in_place import in_place_of
from controller.fold.judge import BACKOFF_LIMIT_EXCEEDED, count_retries, goes_over_limit
from controller.fold.state import Attempt, End, Ending, Failure, Slot, Stray
from controller.fold.strays import add_stray, observe_stray
from controller.fold.waiting import waits_of
from controller.fold.whose import slot_named, slot_of_pod
from controller.model.actions import Because, Holder
from controller.model.events import DELETIONS, SYNCS, Event, Op
from controller.model.instants import SECOND, instant_of
from controller.model.names import (
    JOB_UID_LABEL,
    POD_FINALIZER,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
    slot_of_name,
)
from controller.model.objects import ContainerStatus, ObjectMeta, Pod
from controller.model.replicas import SlotId, replica_type_of

_replace = msgspec.structs.replace


def observe_pod(draft: Draft, event: Event, pod: Pod, context: Context) -> None:
    """Folds one observation of a pod that belongs to the job, or carries its name."""
    owner = pod.metadata.controller()
    if event.op is Op.SYNC_DELETED and owner is None:
        _observe_lost(draft, event, pod)
        return
    if owner is None or owner.uid != draft.state.uid:
        observe_bystander(draft, event, "pod", pod.metadata, pod.status.phase)
        return
    uid = event.uid
    if uid in draft.state.strays:
        observe_stray(draft, event, pod)
        return
    known = slot_named(draft.state, event.name)
    if known is not None and known.attempt is not None and known.attempt.uid == uid:
        # Labels that somebody changes later do not move it.
        _observe_attempt(draft, event, pod, known, known.attempt, context)
        return
    slot_id = slot_of_labels(pod.metadata)
    if slot_id is None or (slot_id not in draft.state.slots and slot_id.index >= draft.state.spec.count(slot_id.type)):
        if event.op not in DELETIONS:
            add_stray(draft, event, pod, Because.INVALID_INDEX)
        return
    slot = draft.slot(slot_id)
    attempt = slot.attempt
    if attempt is not None and attempt.uid == uid:
        _observe_attempt(draft, event, pod, slot, attempt, context)
        return
    if event.op in DELETIONS:
        return
    was_counted = is_adopted(slot)
    if attempt is None or attempt.is_gone:
        slot = born(slot, uid, event.name, event.observed_at)
    elif _created_at(pod.metadata, event) < attempt.created_at and attempt.is_live():
        # Two live pods in one slot: the older is kept (RULES §9).
        stray = Stray(attempt.name, Because.DUPLICATE, attempt.has_uid_label, has_finalizer=attempt.has_finalizer)
        draft.own("strays")[attempt.uid] = stray
        slot = replace_slot(slot, attempt=Attempt(number=attempt.number, uid=uid, name=event.name))
    else:
        add_stray(draft, event, pod, Because.DUPLICATE)
        return
    assert slot.attempt is not None
    newest = slot.attempt
    if was_counted:
        status = main_status(pod)
        newest = _replace(newest, restarts_seen=status.restart_count if status else 0)
    _observe_attempt(draft, event, pod, slot, newest, context)


def _observe_lost(draft: Draft, event: Event, pod: Pod) -> None:
    """A pod that a relist found gone: nothing is known of it but its name and uid, nor how it ended."""
    if event.uid in draft.state.strays:
        draft.own("strays").pop(event.uid)
        return
    slot = slot_of_pod(draft.state, event.name, event.uid)
    if slot is not None and slot.attempt is not None:
        _lose(draft, event, slot, slot.attempt)
        return
    observe_bystander(draft, event, "pod", pod.metadata, None)


def lose_unlisted_pods(draft: Draft, event: Event, since: int) -> None:
    """Pods that were created before a relist began and that neither it nor the watch ever showed are gone."""
    for slot in list(draft.state.slots.values()):
        attempt = slot.attempt
        if attempt and not attempt.is_seen and not attempt.is_gone and attempt.created_at <= since:
            _lose(draft, event, slot, attempt)


def _lose(draft: Draft, event: Event, slot: Slot, attempt: Attempt) -> None:
    ending = attempt.ending or vanished(attempt, event, True)
    lost = _replace(attempt, is_gone=True, is_crashing=False, waits=None, ending=ending)
    draft.put(replace_slot(slot, attempt=lost))
    if attempt.ending is None:
        draft.state.unjudged = (*draft.state.unjudged, slot.id)


def slot_of_labels(metadata: ObjectMeta) -> SlotId | None:
    """The slot that an object's labels name; None when they name none. Values are read in any case (RULES §10)."""
    labels = metadata.labels or {}
    kind = replica_type_of(labels.get(REPLICA_TYPE_LABEL, ""))
    index = labels.get(REPLICA_INDEX_LABEL, "")
    if kind is None or not (index.isascii() and index.isdigit()) or len(index) > 9:
        return None
    return SlotId(kind, int(index))


def born(slot: Slot, uid: str, name: str, at: int) -> Slot:
    """The slot with its next attempt, of which only the uid is known yet."""
    # A slot that was adopted with a count has its newest attempt among the pods that are seen next.
    number = slot.attempts if is_adopted(slot) else slot.attempts + 1
    return replace_slot(
        slot,
        attempts=number,
        attempt=Attempt(number=number, uid=uid, name=name, created_at=at, alive_at=at),
        is_creating=False,
        pod_refusal=None,
        is_stall_due=False,
        retry=_replace(slot.retry, is_replaced=True) if slot.retry else None,
    )


def is_adopted(slot: Slot) -> bool:
    """Known only from a status that was found: its pod, if there is one, was counted there already (RULES §11)."""
    return slot.attempt is None and slot.attempts > 0 and not slot.is_creating


def observe_bystander(draft: Draft, event: Event, kind: str, metadata: ObjectMeta, phase: str | None) -> None:
    """A pod or service that carries the job's name and is not the job's: it may hold a slot's name (RULES §9)."""
    is_there = event.op not in DELETIONS
    if is_there and (metadata.labels or {}).get(JOB_UID_LABEL) == draft.state.uid:
        draft.own("borrowers")[event.uid] = kind
    elif event.uid in draft.state.borrowers:
        draft.own("borrowers").pop(event.uid)
    slot_id = slot_of_name(draft.state.name, event.name)
    if slot_id is None:
        return
    key = f"{kind}/{event.name}"
    known = draft.state.holders.get(key)
    slot = draft.slot(slot_id)
    refusal = slot.pod_refusal if kind == "pod" else slot.service_refusal
    is_holder = bool(refusal and refusal.holder and refusal.holder.uid == event.uid)
    if not is_there:
        if known and known.uid == event.uid:
            draft.own("holders").pop(key)
        # A name that is freed is taken at once (RULES §12).
        refusal = None if is_holder else refusal
        slot = replace_slot(slot, is_stall_due=False) if is_holder else slot
    else:
        owner = metadata.controller()
        holder = Holder(
            uid=event.uid,
            owner_uid=owner.uid if owner else None,
            owner_kind=owner.kind if owner else None,
            phase=phase,
            deletion_timestamp=metadata.deletion_timestamp,
        )
        if known != holder:
            draft.own("holders")[key] = holder
        if is_holder and refusal:
            refusal = _replace(refusal, holder=holder, is_held=True)
    field = "pod_refusal" if kind == "pod" else "service_refusal"
    if slot_id in draft.state.slots or refusal:
        draft.put(replace_slot(slot, **{field: refusal}))
    if draft.touched is not None and slot_id.index < draft.state.spec.count(slot_id.type):
        draft.touched.add(slot_id)


def _observe_attempt(draft: Draft, event: Event, pod: Pod, slot: Slot, attempt: Attempt, context: Context) -> None:
    policy = draft.state.spec.restart_policy(slot.type)
    by_gap = context.gap_open or event.op in SYNCS
    restarts_in_pod = (pod.spec.restart_policy or policy.in_pod) != "Never"
    main = main_status(pod)
    in_place = in_place_of(pod, main, attempt, restarts_in_pod)
    is_gone = event.op in DELETIONS
    seen = _seen(event, pod, main, attempt)
    ending, alive_at = attempt.ending, attempt.alive_at
    has_ended = main is not None and main.state is not None and main.state.terminated is not None
    if ending is None and (is_gone or has_ended or pod.status.phase in ("Succeeded", "Failed")):
        ending = ending_of(pod, seen, policy, event, by_gap)
        if is_gone and ending is None:
            ending = vanished(seen, event, by_gap)
    elif ending is None:
        alive_at = event.observed_at
    crash = in_place.crash
    is_crashing = ending is None and crash is not None
    after = _replace(
        seen,
        alive_at=alive_at,
        restarts_seen=in_place.restarts_seen,
        is_crashing=is_crashing,
        crash_code=crash.exit_code if crash else attempt.crash_code,
        crash_reason=(crash.reason or "") if crash else attempt.crash_reason,
        waits=None if ending else waits_of(pod),
        ending=ending,
        is_gone=is_gone,
    )
    is_new_crash = is_crashing and not attempt.is_crashing
    retry = slot.retry
    if retry and retry.is_replaced and ending is None and after.phase == "Running" and not is_crashing:
        retry = None
    slot = replace_slot(slot, attempt=after, retry=retry)
    draft.put(slot)
    if attempt.ending is None and ending is not None:
        draft.state.unjudged = (*draft.state.unjudged, slot.id)
    if in_place.counted and not attempt.ending and not draft.state.has_ended():
        count_retries(draft, slot, in_place.counted)
    is_failure = (in_place.counted or is_new_crash) and ending is None and not after.stop_asked_at
    if is_failure and slot.index < draft.state.spec.count(slot.type):
        _check_limit(draft, event, slot, after, pod)


def _seen(event: Event, pod: Pod, main: ContainerStatus | None, attempt: Attempt) -> Attempt:
    """The attempt with what the observation says of the pod, apart from ends and restarts."""
    metadata = pod.metadata
    terminating_at, kill_asked_at = attempt.terminating_at, attempt.kill_asked_at
    if metadata.deletion_timestamp and terminating_at is None:
        grace = metadata.deletion_grace_period_seconds or 0
        terminating_at = event.observed_at
        # A grace of 0 is the kubelet's own confirmation: the time of the request is unknown (RULES §11).
        kill_asked_at = instant_of(metadata.deletion_timestamp) - grace * SECOND if grace else 0
    running = main.state.running if main and main.state else None
    return _replace(
        attempt,
        phase=pod.status.phase,
        is_seen=True,
        name=event.name,
        node=pod.spec.node_name or attempt.node,
        created_at=_created_at(metadata, event),
        has_uid_label=JOB_UID_LABEL in (metadata.labels or {}),
        has_finalizer=POD_FINALIZER in (metadata.finalizers or ()),
        terminating_at=terminating_at,
        kill_asked_at=kill_asked_at,
        started_at=instant_of(running.started_at) if running and running.started_at else attempt.started_at,
    )


def _check_limit(draft: Draft, event: Event, slot: Slot, attempt: Attempt, pod: Pod) -> None:
    """A restart in place that goes over the limit fails the job when it is seen (RULES §3)."""
    state = draft.state
    if state.is_at_rest() or state.failure is not None or not goes_over_limit(state, 0):
        return
    status = main_status(pod)
    ended = status.last_state.terminated if status and status.last_state else None
    if attempt.is_crashing and status and status.state and status.state.terminated:
        ended = status.state.terminated
    ending = Ending(
        how=End.FAILED,
        pod=attempt.name,
        attempt=attempt.number,
        code=ended.exit_code if ended else None,
        reason=(ended.reason or "") if ended else "",
        message=(ended.message or "") if ended else "",
        observed_at=event.observed_at,
        order_at=event.observed_at,
        latest_at=event.observed_at,
        position=event.position,
    )
    state.failure = Failure(BACKOFF_LIMIT_EXCEEDED, slot.type, slot.index, ending)


def _created_at(metadata: ObjectMeta, event: Event) -> int:
    return instant_of(metadata.creation_timestamp) if metadata.creation_timestamp else event.observed_at
