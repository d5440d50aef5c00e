"""A state's rows: what the log's projections keep of it, beside its snapshot.

In: a state. Out: the row. Never: anything that the state does not say.
"""

from __future__ import annotations

from controller.fold import JobState
from controller.log import AttemptRow
from controller.model.replicas import SlotId


def attempt_row(state: JobState, slot_id: SlotId) -> AttemptRow:
    """The newest attempt of a slot, whose end was just judged."""
    attempt = state.slots[slot_id].attempt
    assert attempt is not None and attempt.ending is not None
    ending = attempt.ending
    return AttemptRow(
        job_uid=state.uid,
        type=slot_id.type,
        index=slot_id.index,
        attempt=attempt.number,
        pod_name=attempt.name,
        pod_uid=attempt.uid,
        position=ending.position,
        node=attempt.node,
        started_at=attempt.started_at,
        finished_at=ending.order_at,
        exit_code=ending.code,
        how=ending.how.value,
        reason=ending.reason,
        message=ending.message,
    )
