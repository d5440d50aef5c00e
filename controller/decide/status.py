"""The status subresource as it is written to the API server (RULES §5).

In: a state. Out: plain JSON, and a digest of its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from controller.decide.conditions import plain_of
from controller.fold.state import CONDITION_TYPES, JobState, Tally, Verdict
from controller.model.instants import text_of
from controller.model.replicas import ReplicaType


def status_of(state: JobState) -> dict[str, Any]:
    """The whole status. An end that was found on the API server stays as it was found (RULES §11)."""
    if state.is_adopted_end and state.adopted_status is not None:
        return dict(state.adopted_status)
    status: dict[str, Any] = {
        # Ours stand last: the last entry is the job's state (RULES §4).
        "conditions": [*state.foreign_conditions, *(plain_of(entry, text_of) for entry in state.conditions)],
        "replicaStatuses": {each.type.value: _counts(state, each.type) for each in state.spec.replicas},
    }
    if state.rules == "v1alpha2":
        status["tfReplicaStatuses"] = {each.key: _counts(state, each.type) for each in state.spec.replicas}
    if state.start_time is not None:
        status["startTime"] = text_of(state.start_time)
    if state.completion_time is not None:
        status["completionTime"] = text_of(state.completion_time)
    restarts = {kind.value: count for kind, count in sorted(state.retries.items()) if count}
    if restarts:
        status["restarts"] = restarts
    slots = _slots(state)
    if slots:
        status["slots"] = slots
    decider = state.spec.decider()
    status["decider"] = str(decider) if decider is not None else "all"
    status["observedGeneration"] = state.generation
    status["logPosition"] = state.status_position
    return status


def digest_of(status: dict[str, Any]) -> str:
    """A digest of what a status says; logPosition and the conditions of others are no part of it."""
    content = {key: value for key, value in status.items() if key != "logPosition"}
    content["conditions"] = [each for each in status.get("conditions") or () if each.get("type") in CONDITION_TYPES]
    return hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=12).hexdigest()


def digest_now(state: JobState) -> str:
    """The digest of the status as it is now, made once for what it says."""
    if not state.status_digest:
        state.status_digest = digest_of(status_of(state))
    return state.status_digest


def ranges_text(indexes: Iterable[int]) -> str:
    """Indexes compactly: `0-3,7`."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _counts(state: JobState, kind: ReplicaType) -> dict[str, int]:
    """active, succeeded and failed of a type; zeros are left out, as the API's users have them."""
    tally = state.tallies.get(kind, Tally())
    counts = {"active": tally.active, "succeeded": tally.succeeded, "failed": tally.failed}
    return {key: count for key, count in counts.items() if count}


def _slots(state: JobState) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for kind, slot_ids in groupby(state.told, key=itemgetter(0)):
        slots = [state.slots[slot_id] for slot_id in slot_ids]
        words: dict[str, Any] = {}
        for field, verdict in (("succeeded", Verdict.SUCCEEDED), ("failed", Verdict.FAILED)):
            text = ranges_text([slot.index for slot in slots if slot.verdict is verdict])
            if text:
                words[field] = text
        attempts = {str(slot.index): slot.attempts for slot in slots if slot.attempts > 1}
        if attempts:
            words["attempts"] = attempts
        if state.spec.replica(kind) is not None:
            found[kind.value] = words
    return found
