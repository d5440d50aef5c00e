"""The status as it is written: what is ours, what is somebody else's, what was found there (RULES §5, §11)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.decide import digest_of, status_of
from controller.model import actions
from controller.model.actions import Outcome, Result
from controller.model.events import ActionSettled, Decided, Op, TimerFired, TimerKind
from controller.model.objects import TFJob
from tests.core.words import UID, Line, at, ended, job, pod

THEIRS = {"type": "QuotaReserved", "status": "True", "reason": "Admitted"}


def with_status(status: dict[str, Any], **spec: Any) -> TFJob:
    return msgspec.structs.replace(job(**spec), status=status)


def test_conditions_of_others_are_carried_over_before_ours_and_cause_no_write() -> None:
    line = Line()
    line.see_job(job())
    before = digest_of(status_of(line.state))  # type: ignore[arg-type]
    step = line.see_job(with_status({"conditions": [THEIRS]}), 2, version=2)
    status = status_of(step.state)
    assert [entry["type"] for entry in status["conditions"]] == ["QuotaReserved", "Created"]
    assert digest_of(status) == before


@pytest.mark.parametrize(
    ("replicas", "decider"),
    [
        ({"Worker": {}, "PS": {}}, "worker-0"),
        ({"Worker": {}, "Chief": {}}, "chief-0"),
        ({"PS": {"replicas": 2}, "Evaluator": {}}, "all"),
    ],
)
def test_the_status_names_the_slot_that_decides(replicas: dict[str, Any], decider: str) -> None:
    line = Line()
    line.see_job(job(replicas))
    assert status_of(line.state)["decider"] == decider  # type: ignore[arg-type]


def test_a_job_first_seen_with_a_status_begins_there() -> None:
    line = Line()
    found = {
        "conditions": [
            {"type": "Created", "status": "True", "reason": "TFJobCreated", "message": "m",
             "lastTransitionTime": "2025-12-31T00:00:00Z"},
            {"type": "Running", "status": "True", "reason": "TFJobRunning", "message": "m",
             "lastTransitionTime": "2025-12-31T01:00:00Z"},
        ],
        "startTime": "2025-12-31T00:00:01Z",
        "restarts": {"Worker": 3},
        "slots": {"Worker": {"succeeded": "1", "attempts": {"0": 4}}},
    }  # fmt: skip
    line.see_job(with_status(found, replicas={"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}))
    line.see_pod(pod("worker-0", state={"running": {}}, restarts=2, last=ended(1)), 1)
    status = status_of(line.state)  # type: ignore[arg-type]
    assert line.conditions() == {"Created": "True", "Running": "True"}
    assert status["startTime"] == "2025-12-31T00:00:01Z" and status["restarts"] == {"Worker": 3}
    assert status["slots"] == {"Worker": {"succeeded": "1", "attempts": {"0": 4}}}
    assert status["replicaStatuses"] == {"Worker": {"active": 1, "succeeded": 1}}


def test_an_end_that_was_found_stays_byte_for_byte_and_its_pods_as_they_are() -> None:
    line = Line()
    both = [{"type": "Succeeded", "status": "True"}, {"type": "Failed", "status": "True"}, THEIRS]
    found = {"conditions": both, "completionTime": "2025-12-31T02:00:00Z", "odd": {"kept": 1}}
    step = line.see_job(with_status(found, runPolicy={"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}))
    assert status_of(step.state) == found and step.actions == ()
    assert [timer.timer.value for timer in step.timers] == ["TTL"]
    step = line.see_pod(pod("worker-0", state={"running": {}}), 5)
    assert step.actions == () and status_of(step.state) == found


def test_equal_content_is_never_written_twice() -> None:
    line = Line()
    step = line.see_job(job())
    wanted = [each for each in step.actions if isinstance(each, actions.PatchStatus)]
    assert wanted == [actions.PatchStatus(urgent=True)]

    line.fold(line.event(Decided(tuple(wanted)), 1, Op.DECIDED, job_uid=UID))
    digest = digest_of(status_of(line.state))  # type: ignore[arg-type]
    outcome = Outcome(Result.DONE, status_digest=digest, resource_version="5")
    step = line.fold(line.event(ActionSettled(2, 0, 1, wanted[0], outcome), 2, Op.ACTION, job_uid=UID))
    assert not [each for each in step.actions if isinstance(each, actions.PatchStatus)]


def test_a_status_that_met_a_conflict_of_which_nothing_is_seen_is_written_again() -> None:
    line = Line()
    line.see_job(job())
    assert line.last is not None
    line.fold(line.event(Decided(line.last.actions), 1, Op.DECIDED, uid=UID, job_uid=UID))
    conflict = Outcome(Result.REFUSED, code=409, reason="Conflict", resource_version="1")
    refused = ActionSettled(2, 0, 1, actions.PatchStatus(urgent=True), conflict)
    step = line.fold(line.event(refused, 2, Op.ACTION, uid=UID, job_uid=UID))
    assert not any(isinstance(action, actions.PatchStatus) for action in step.actions)
    assert [each.due_at for each in step.timers if each.timer is TimerKind.ACTION_RETRY] == [at(32)]
    step = line.fold(line.event(TimerFired(TimerKind.ACTION_RETRY, at(32)), 32, Op.TIMER, uid=UID, job_uid=UID))
    assert any(isinstance(action, actions.PatchStatus) for action in step.actions)
    assert not step.timers
