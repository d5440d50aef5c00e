"""The projector at a start: what the events behind the cursor must not do again."""

from __future__ import annotations

from typing import Any

from controller.fold import Context, decode_state
from controller.model.events import JobObserved, Op
from controller.run.project import Projector
from tests.core.words import UID, Line, job

WHERE: dict[str, Any] = {"uid": UID, "namespace": "n", "name": "a", "job_uid": UID, "resource_version": 1}


def test_a_job_that_is_over_behind_the_cursor_is_not_begun_anew() -> None:
    """Its state was saved with its end while another job held the cursor back; a start reads its last events again."""
    line = Line()
    ops = (Op.ADDED, Op.MODIFIED, Op.DELETED)
    events = [line.event(JobObserved(job()), at, op, **WHERE) for at, op in enumerate(ops)]
    first = Projector(Context(), lambda: 0.0)
    first.fold(events)
    snapshot = first.take_writes().snapshots[-1]
    assert snapshot.is_over
    again = Projector(Context(), lambda: 0.0)
    again.restore([(decode_state(snapshot.state), snapshot.position)], cursor=1)
    again.fold(events[1:])
    assert list(again.states()) == [] and again.take_writes().snapshots == []
