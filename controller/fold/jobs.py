"""The TFJob as observed: its first sight, its edits, its going (RULES §1, §8, §11).

In: a job event. Out: a new state, or the draft's spec. After the first observation our own status is never an input.
"""

from __future__ import annotations

from typing import Any

from controller.fold.admission import problems_of
from controller.fold.counts import count_slots
from controller.fold.draft import Draft, replace_slot
from controller.fold.spec import RETRYABLE_ANNOTATION, rules_of, spec_of
from controller.fold.state import CONDITION_TYPES, Condition, JobState, Slot, Verdict
from controller.model.events import DELETIONS, SYNCS, Event
from controller.model.instants import Instant, instant_of
from controller.model.objects import TFJob
from controller.model.replicas import ReplicaType, SlotId, replica_type_of

FINAL = ("Succeeded", "Failed")
MOST_SLOTS = 10_000
"""Of one type, that are read from a status that was found: whatever stands there must not fill the memory."""


def begin_job(event: Event, job: TFJob) -> JobState:
    """The state of a job that is seen for the first time; a status that it has is where its history begins."""
    state = JobState(
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        rules=rules_of(job),
        resource_version=event.resource_version,
        generation=job.metadata.generation,
        spec=spec_of(job),
        created_at=event.observed_at,
        spec_key=_spec_key(event, job),
        problem=_problem(job),
        is_terminating=job.metadata.deletion_timestamp is not None,
    )
    state.foreign_conditions = _foreign(job)
    if job.status:
        _adopt(state, job.status, event.observed_at)
    count_slots(state)
    return state


def observe_job(draft: Draft, event: Event, job: TFJob) -> None:
    """Folds a later observation of the job."""
    state = draft.state
    if event.op in DELETIONS:
        state.is_deleted = True
        draft.touch_all()
        return
    # A list may show an older version than the newest known: the cluster was set back (RULES §11).
    is_listed = event.op in SYNCS
    state.resource_version = (
        event.resource_version if is_listed else max(state.resource_version, event.resource_version)
    )
    if job.metadata.deletion_timestamp and not state.is_terminating:
        state.is_terminating = True
        draft.touch_all()
    if job.metadata.generation != state.generation:
        state.generation = job.metadata.generation
        state.change_status()
    foreign = _foreign(job)
    if foreign != state.foreign_conditions:
        state.foreign_conditions = foreign
    spec_key = _spec_key(event, job)
    if spec_key is not None and spec_key == state.spec_key:
        return
    state.spec_key = spec_key
    spec, problem = spec_of(job), _problem(job)
    if spec != state.spec or problem != state.problem:
        state.spec, state.problem = spec, problem
        _end_surplus_retries(draft)
        draft.retally()
        draft.touch_all()


def _end_surplus_retries(draft: Draft) -> None:
    """A slot scaled away while it waited for its replacement runs again at once when it comes back (RULES §12)."""
    for slot in list(draft.state.slots.values()):
        if slot.retry is not None and slot.index >= draft.state.spec.count(slot.type):
            draft.put(replace_slot(slot, retry=None))


def _foreign(job: TFJob) -> tuple[dict[str, Any], ...]:
    """The conditions that somebody else keeps on the job."""
    entries = (job.status or {}).get("conditions")
    found = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    return tuple(each for each in found if each.get("type") not in CONDITION_TYPES)


def _spec_key(event: Event, job: TFJob) -> str | None:
    """Equal for observations whose spec, as decisions read it, is equal; None where that is not known."""
    own = (job.metadata.annotations or {}).get(RETRYABLE_ANNOTATION, "")
    return f"{event.spec_hash} {own}" if event.spec_hash else None


def _problem(job: TFJob) -> str | None:
    metadata = {"name": job.metadata.name, "annotations": job.metadata.annotations or {}}
    problems = problems_of({"metadata": metadata, "spec": job.spec})
    return str(problems[0]) if problems else None


def _adopt(state: JobState, status: dict[str, Any], at: Instant) -> None:
    """Takes over what a status says: conditions, times, retries, slots (RULES §11)."""
    state.conditions = tuple(_conditions(status, at))
    state.start_time = _instant(status.get("startTime"))
    state.completion_time = _instant(status.get("completionTime"))
    # Whoever wrote the status has told of the first pods, unless there are none yet.
    state.is_birth_told = bool(state.conditions) and not state.spec.is_suspended
    ended = [each for each in state.conditions if each.type in FINAL and each.is_true]
    if ended:
        state.verdict = ended[-1].type
        state.is_adopted_end = True
        state.is_end_written = True
        state.adopted_status = status
        if state.completion_time is None:
            state.completion_time = ended[-1].last_transition_time
    for key, count in _items(status.get("restarts")):
        kind = replica_type_of(key)
        if kind is not None and isinstance(count, int):
            state.retries[kind] = count
    for key, words in _items(status.get("slots")):
        kind = replica_type_of(key)
        if kind is not None and isinstance(words, dict):
            _adopt_slots(state, kind, words)


def _adopt_slots(state: JobState, kind: ReplicaType, words: dict[str, Any]) -> None:
    for field, verdict in (("succeeded", Verdict.SUCCEEDED), ("failed", Verdict.FAILED)):
        for index in indexes_of(words.get(field)):
            state.slots[SlotId(kind, index)] = Slot(kind, index, attempts=1, verdict=verdict)
    for key, count in _items(words.get("attempts")):
        if key.isascii() and key.isdigit() and int(key) < MOST_SLOTS and isinstance(count, int):
            slot_id = SlotId(kind, int(key))
            # The newest attempt's pod, if it is there, is observed next and counts as this one.
            slot = state.slots.get(slot_id, Slot(kind, slot_id.index))
            state.slots[slot_id] = replace_slot(slot, attempts=max(1, count))


def indexes_of(text: Any) -> list[int]:
    """Reads `0-3,7` of a status."""
    found: list[int] = []
    for part in str(text or "").split(","):
        low, _, high = part.strip().partition("-")
        if part.isascii() and low.isdigit() and (not high or high.isdigit()):
            found += range(int(low), min(int(high or low) + 1, MOST_SLOTS))
    return found


def _conditions(status: dict[str, Any], at: Instant) -> list[Condition]:
    found = []
    for entry in status["conditions"] if isinstance(status.get("conditions"), list) else ():
        if isinstance(entry, dict) and entry.get("type") in CONDITION_TYPES:
            changed = _instant(entry.get("lastTransitionTime")) or at
            found.append(
                Condition(
                    type=entry["type"],
                    status=str(entry.get("status", "")),
                    reason=str(entry.get("reason", "")),
                    message=str(entry.get("message", "")),
                    last_update_time=_instant(entry.get("lastUpdateTime")) or changed,
                    last_transition_time=changed,
                )
            )
    return found


def _instant(value: Any) -> Instant | None:
    try:
        return instant_of(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
