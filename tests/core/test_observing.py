"""A controller that only observes: what it decides and does not send makes nothing loop, stall or fail."""

from __future__ import annotations

from typing import Any

import pytest

from controller.decide import digest_of, status_of
from controller.model import actions
from controller.model.actions import OBSERVING, Action, Outcome, Result
from controller.model.events import ActionSettled, Decided, Op
from controller.model.objects import TFJob
from tests.core.words import UID, Line, ended, job, pod

RESTARTING = {"Worker": {"replicas": 1, "restartPolicy": "OnFailure"}}


def unsent(line: Line, seconds: float) -> list[Action]:
    """All that is decided until nothing more is, each action with the outcome that it was not sent."""
    found: list[Action] = []
    assert line.last is not None and line.state is not None
    while line.last.actions:
        asked = line.last.actions
        assert len(found) < 20, "it decides the same again and again"
        found += asked
        decided = line.event(Decided(asked), seconds, Op.DECIDED, job_uid=UID)
        line.fold(decided)
        for ordinal, action in enumerate(asked):
            status = status_of(line.state) if isinstance(action, actions.PatchStatus) else None
            outcome = Outcome(Result.REFUSED, reason=OBSERVING, status_digest=digest_of(status) if status else None)
            settled = ActionSettled(decided.position, ordinal, 1, action, outcome)
            line.fold(line.event(settled, seconds, Op.ACTION, job_uid=UID))
    return found


def observed(found: TFJob | None = None, **spec: Any) -> Line:
    line = Line()
    line.see_job(found or job(**spec))
    return line


def test_a_job_is_decided_on_once_and_nothing_of_it_waits_or_stalls() -> None:
    line = observed()
    kinds = [type(each).__name__ for each in unsent(line, 1)]
    assert kinds == ["PatchStatus", "CreatePod", "CreateService"]
    assert line.last is not None
    assert line.last.timers == () and line.conditions() == {"Created": "True"}


def test_what_the_other_operator_does_is_followed_to_the_end_and_the_cleanup_is_decided() -> None:
    line = observed(runPolicy={"cleanPodPolicy": "All"})
    unsent(line, 1)
    line.see_pod(pod(state={"running": {}}), 2)
    assert line.conditions() == {"Created": "True", "Running": "True"}
    unsent(line, 2)
    line.see_pod(pod(phase="Succeeded", state={"terminated": ended(0)}), 6)
    decided = unsent(line, 6)
    assert line.conditions() == {"Created": "True", "Running": "False", "Succeeded": "True"}
    assert actions.DeletePod("a-worker-0", "pod-uid", actions.Because.JOB_ENDED) in decided


@pytest.mark.parametrize("seconds", [7.0, 8.0])
def test_a_retry_is_the_other_operator_s(seconds: float) -> None:
    """It replaces the pod, at its own pace."""
    line = observed(job(RESTARTING))
    unsent(line, 1)
    line.see_pod(pod(state={"running": {}}), 2)
    failed = pod(phase="Failed", state={"terminated": ended(137)})
    line.see_pod(failed, 6)
    decided = unsent(line, 6)
    assert actions.DeletePod("a-worker-0", "pod-uid", actions.Because.REPLACED) in decided
    assert line.conditions()["Restarting"] == "True"
    line.see_pod(failed, 6.5, Op.DELETED)
    unsent(line, 6.5)
    line.see_pod(pod(uid="second", state={"running": {}}), seconds)
    unsent(line, seconds)
    assert line.conditions() == {"Created": "True", "Running": "True", "Restarting": "False"}
    assert line.state is not None and sum(line.state.retries.values()) == 1
