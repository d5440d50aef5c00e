"""Stalled by refused creations: at once when the object is refused, later when the server is only busy (RULES §4.6)."""

from __future__ import annotations

import pytest

from controller.model import actions
from controller.model.actions import Outcome, Result
from controller.model.events import ActionSettled, Decided, Op, TimerFired, TimerKind
from controller.model.replicas import ReplicaType
from tests.core.words import UID, Line, at, job

CREATE = actions.CreatePod(ReplicaType.WORKER, 0, 1)


def refuse(line: Line, outcome: Outcome, seconds: float) -> None:
    line.fold(line.event(Decided((CREATE,)), seconds, Op.DECIDED, job_uid=UID))
    line.fold(line.event(ActionSettled(line.position, 0, 1, CREATE, outcome), seconds, Op.ACTION, job_uid=UID))


@pytest.mark.parametrize(
    ("code", "tries_until_stalled"), [(403, 1), (400, 1), (422, 1), (404, 1), (429, 3), (500, 3), (503, 3), (0, 3)]
)
def test_when_a_refused_creation_stalls_the_job(code: int, tries_until_stalled: int) -> None:
    line = Line()
    line.see_job(job())
    found = []
    for number in range(4):
        refuse(line, Outcome(Result.REFUSED, code=code, message="no"), 10.0 * number)
        found.append(line.conditions().get("Stalled"))
        assert line.state is not None
        due = at(10.0 * number + 9)
        line.fold(
            line.event(
                TimerFired(TimerKind.CREATE_RETRY, due, ReplicaType.WORKER, 0), 10.0 * number + 9, Op.TIMER, job_uid=UID
            )
        )
    assert found.index("True") + 1 == tries_until_stalled


def test_it_turns_false_when_the_pod_is_created() -> None:
    line = Line()
    line.see_job(job())
    refuse(line, Outcome(Result.REFUSED, code=403, message="exceeded quota"), 1)
    assert line.conditions()["Stalled"] == "True"
    refuse(line, Outcome(Result.DONE, code=201, uid="p"), 5)
    assert line.conditions()["Stalled"] == "False"
