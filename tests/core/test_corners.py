"""Corners of the rules, each as a short history (RULES §6–§9, §11, §12)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.decide import digest_of, restored, status_of
from controller.fold import JobState, decode_state, encode_state
from controller.model import actions
from controller.model.actions import Action, Outcome, Result
from controller.model.events import (
    ActionSettled,
    Decided,
    GapOpened,
    GapReason,
    Op,
    Synced,
    TimerFired,
    TimerKind,
)
from controller.model.objects import TFJob
from controller.model.replicas import ReplicaType, SlotId
from tests.core.words import UID, Line, at, ended, job, pod

WORKER = ReplicaType.WORKER
FINALIZER = "tfjob.kubeflow.org/end-recorded"


def settle(line: Line, action: Action, outcome: Outcome, seconds: float) -> None:
    """Asks for one action and folds its outcome."""
    line.fold(line.event(Decided((action,)), seconds, Op.DECIDED, job_uid=UID))
    line.fold(line.event(ActionSettled(line.position, 0, 1, action, outcome), seconds, Op.ACTION, job_uid=UID))


def state_of(line: Line) -> JobState:
    assert line.state is not None
    return line.state


def slot_of(line: Line, index: int) -> Any:
    return state_of(line).slots[SlotId(WORKER, index)]


def with_metadata(found: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **changes))


def with_status(found: TFJob, status: dict[str, Any]) -> TFJob:
    return msgspec.structs.replace(found, status=status)


def asked(line: Line) -> tuple[Action, ...]:
    assert line.last is not None
    return line.last.actions


def crashing(restarts: int, **more: Any) -> Any:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    return pod(
        "worker-1", uid="p1", state=waiting, last=ended(1), restarts=restarts, restart_policy="OnFailure", **more
    )


def test_the_retries_of_an_ended_job_stay() -> None:
    line = Line()
    line.see_job(job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}, runPolicy={"cleanPodPolicy": "None"}))
    line.see_pod(crashing(1), 2)
    line.see_pod(pod("worker-0", phase="Succeeded", state={"terminated": ended(0)}), 6)
    assert line.conditions()["Succeeded"] == "True"
    line.see_pod(crashing(4), 9)
    assert state_of(line).retries == {WORKER: 1}


@pytest.mark.parametrize("limit", [0, 1])
def test_a_surplus_slot_that_crashes_fails_nothing(limit: int) -> None:
    line = Line()
    policy = {"backoffLimit": limit}
    line.see_job(job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}, runPolicy=policy))
    running = pod("worker-1", uid="p1", state={"running": {}}, restart_policy="OnFailure")
    line.see_pod(pod("worker-0", state={"running": {}}), 2)
    line.see_pod(running, 2)
    line.see_job(job({"Worker": {"replicas": 1, "restartPolicy": "OnFailure"}}, runPolicy=policy), 3, Op.MODIFIED, 5)
    line.see_pod(crashing(3), 4)
    assert "Failed" not in line.conditions()


def test_a_slot_scaled_away_and_back_while_it_waits_runs_again_at_once() -> None:
    line = Line()
    two = job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}})
    line.see_job(two)
    for number in range(3):
        uid = f"p{number}"
        failed = pod("worker-1", uid=uid, phase="Failed", state={"terminated": ended(1)})
        line.see_pod(failed, 6 + number)
        if number < 2:
            line.see_pod(failed, 6.5 + number, Op.DELETED)
    assert slot_of(line, 1).retry.due_at > at(8.5)
    line.see_job(job({"Worker": {"replicas": 1, "restartPolicy": "OnFailure"}}), 8.2, Op.MODIFIED, 5)
    line.see_pod(failed, 8.3, Op.DELETED)
    line.see_job(two, 8.4, Op.MODIFIED, 6)
    assert actions.CreatePod(WORKER, 1, 4) in asked(line)


def test_the_finalizer_goes_off_the_pods_of_a_deleted_job() -> None:
    line = Line()
    found = job()
    line.see_job(found)
    held = with_metadata(pod(state={"running": {}}), finalizers=(FINALIZER,))
    line.see_pod(held, 2)
    line.see_job(found, 3, Op.DELETED, 5)
    going = pod(phase="Failed", state={"terminated": ended(143)}, deletion=(34, 30))
    line.see_pod(with_metadata(going, finalizers=(FINALIZER,)), 5)
    assert asked(line) == (actions.ReleasePod("a-worker-0", "pod-uid"),)


def test_the_status_is_written_anew_after_the_cluster_was_set_back() -> None:
    line = Line()
    found = job()
    line.see_job(found, version=900)
    write = actions.PatchStatus(urgent=True)
    written = digest_of(status_of(state_of(line)))
    settle(line, write, Outcome(Result.DONE, code=200, resource_version="901", status_digest=written), 2)
    line.fold(line.event(GapOpened(("tfjobs",), GapReason.CLUSTER_RESTORED, None, at(3)), 3, Op.GAP))
    line.see_job(found, 3, Op.SYNC_MODIFIED, 500)
    step = line.fold(line.event(Synced(("tfjobs",)), 3, Op.SYNCED))
    assert state_of(line).resource_version == 500
    assert [each for each in step.actions if isinstance(each, actions.PatchStatus)]


def test_a_status_write_that_finds_no_job_waits_for_the_watch() -> None:
    line = Line()
    line.see_job(job(), version=7)
    settle(line, actions.PatchStatus(urgent=True), Outcome(Result.REFUSED, code=404, reason="NotFound"), 2)
    assert not [each for each in asked(line) if isinstance(each, actions.PatchStatus)]


def test_a_job_that_is_left_alone_is_the_same_after_a_restart() -> None:
    line = Line()
    line.see_job(job(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    again = restored(decode_state(encode_state(state_of(line))), line.context)
    assert encode_state(again.state) == encode_state(state_of(line))
    assert (again.actions, again.timers) == ((), ())


def test_attempts_are_counted_on_from_a_status_that_was_found() -> None:
    line = Line()
    status = {
        "conditions": [{"type": "Running", "status": "True"}],
        "slots": {"Worker": {"attempts": {"0": 3}}},
    }
    line.see_job(with_status(job({"Worker": {"restartPolicy": "OnFailure"}}), status))
    create = actions.CreatePod(WORKER, 0, 4)
    assert create in asked(line)
    settle(line, create, Outcome(Result.DONE, code=201, uid="p4"), 2)
    assert slot_of(line, 0).attempts == 4


def test_a_verdict_that_was_found_stays() -> None:
    line = Line()
    status = {"conditions": [{"type": "Running", "status": "True"}], "slots": {"Worker": {"succeeded": "1"}}}
    line.see_job(with_status(job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}), status))
    line.see_pod(pod("worker-1", uid="p1", phase="Failed", state={"terminated": ended(137)}), 6)
    assert slot_of(line, 1).verdict == "succeeded"
    assert slot_of(line, 1).retry is None
    assert line.conditions().get("Restarting") != "True"


@pytest.mark.parametrize("word", ["²", "0-²", "0-4000000000", "x", ""])
def test_a_found_status_of_any_shape_is_read(word: str) -> None:
    line = Line()
    slots = {"Worker": {"succeeded": word, "attempts": {word: 2}}}
    status = {"conditions": [{"type": "Running", "status": "True"}], "slots": slots}
    line.see_job(with_status(job(), status))
    assert len(state_of(line).slots) < 100_000


def test_a_pod_whose_labels_somebody_changes_stays_in_its_slot() -> None:
    line = Line()
    line.see_job(job({"Worker": {"replicas": 2}}))
    line.see_pod(pod(state={"running": {}}), 2)
    moved = with_metadata(pod(state={"running": {}}), labels={"training.kubeflow.org/replica-type": "worker"})
    line.see_pod(moved, 3)
    assert not [each for each in asked(line) if isinstance(each, actions.DeletePod)]
    line.see_pod(moved, 4, Op.DELETED)
    assert slot_of(line, 0).attempt.is_gone


def test_foreign_conditions_are_carried_over() -> None:
    line = Line()
    theirs = {"type": "QuotaReserved", "status": "True", "reason": "x", "message": "", "extra": "kept"}
    line.see_job(with_status(job(), {"conditions": [theirs, {"type": "Created", "status": "True"}]}))
    entries = status_of(state_of(line))["conditions"]
    assert entries[0] == theirs
    assert [each["type"] for each in entries] == ["QuotaReserved", "Created"]
    later = {**theirs, "status": "False"}
    before = digest_of(status_of(state_of(line)))
    line.see_job(with_status(job(), {"conditions": [later]}), 3, Op.MODIFIED, 5)
    assert status_of(state_of(line))["conditions"][0] == later
    assert digest_of(status_of(state_of(line))) == before, "what others write is no change of ours"


def test_pods_of_nobody_with_the_job_s_label_keep_a_collection_away() -> None:
    line = Line()
    label = {"tfjob.kubeflow.org/job-uid": UID}
    line.see_job(job({"Worker": {"replicas": 2}}, runPolicy={"cleanPodPolicy": "All"}))
    line.see_pod(pod("worker-1", uid="p1", state={"running": {}}, labels=label), 2)
    copied = with_metadata(pod("worker-9", uid="copy", owner="nobody", labels=label), name="a-copy")
    line.see_pod(copied, 3)
    line.see_pod(pod("worker-0", phase="Succeeded", state={"terminated": ended(0)}, labels=label), 6)
    digest = digest_of(status_of(state_of(line)))
    settle(line, actions.PatchStatus(urgent=True), Outcome(Result.DONE, code=200, status_digest=digest), 7)
    found = asked(line)
    assert not [each for each in found if isinstance(each, actions.DeleteOwned) and each.kind == "pods"]
    assert {each.uid for each in found if isinstance(each, actions.DeletePod)} == {"p1", "pod-uid"}
    step = line.see_pod(copied, 8, Op.DELETED)
    assert [each for each in step.actions if isinstance(each, actions.DeleteOwned) and each.kind == "pods"]


@pytest.mark.parametrize(("created", "is_lost"), [(2, True), (5, False)])
def test_what_was_created_before_a_relist_and_is_not_in_it_is_gone(created: float, is_lost: bool) -> None:
    """A pod that came and went while the watch was cut has no observation that could say so."""
    line = Line()
    line.see_job(job({"Worker": {"restartPolicy": "OnFailure"}}))
    service = actions.CreateService(WORKER, 0)
    both: tuple[Action, ...] = (actions.CreatePod(WORKER, 0, 1), service)
    line.fold(line.event(Decided(both), 1, Op.DECIDED, job_uid=UID))
    position = line.position
    resources = ("tfjobs", "pods", "services")

    def answers(seconds: float) -> None:
        for ordinal, action in enumerate(both):
            outcome = Outcome(Result.DONE, code=201, uid=f"u{ordinal}")
            line.fold(line.event(ActionSettled(position, ordinal, 1, action, outcome), seconds, Op.ACTION, job_uid=UID))

    if is_lost:
        answers(created)
    line.fold(line.event(GapOpened(resources, GapReason.EXPIRED, at(1), at(4)), 4, Op.GAP))
    if not is_lost:
        answers(created)
    step = line.fold(line.event(Synced(resources), 6, Op.SYNCED))
    wanted = {each for each in step.actions if isinstance(each, actions.CreatePod | actions.CreateService)}
    assert wanted == ({actions.CreatePod(WORKER, 0, 2), service} if is_lost else set())
    assert not state_of(line).relists


def test_a_suspension_stops_the_deadline_s_clock() -> None:
    line = Line()
    policy = {"activeDeadlineSeconds": 10}
    line.see_job(job(runPolicy=policy))
    line.see_job(job(runPolicy={**policy, "suspend": True}), 5, Op.MODIFIED, 3)
    line.fold(line.event(TimerFired(TimerKind.DEADLINE, at(10)), 10, Op.TIMER, job_uid=UID))
    assert "Failed" not in line.conditions()


def test_the_finalizer_goes_off_a_pod_without_a_slot() -> None:
    line = Line()
    line.see_job(job())
    stray = with_metadata(pod("worker-7", uid="s", state={"running": {}}), finalizers=(FINALIZER,))
    release = actions.ReleasePod("a-worker-7", "s")
    assert release in line.see_pod(stray, 2).actions
    settle(line, release, Outcome(Result.DONE, code=200), 3)
    assert release not in asked(line)


def test_a_found_status_without_conditions_is_taken_over() -> None:
    line = Line()
    line.see_job(with_status(job(), {"startTime": "2025-01-01T00:00:00Z", "restarts": {"Worker": 2}}))
    assert state_of(line).retries == {WORKER: 2}
    assert status_of(state_of(line))["startTime"] == "2025-01-01T00:00:00Z"


def test_nothing_is_said_of_a_job_that_was_found_ended() -> None:
    line = Line()
    template = {"spec": {"restartPolicy": "Always", "containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
    found = job({"Worker": {"template": template}})
    assert line.see_job(with_status(found, {"conditions": [{"type": "Succeeded", "status": "True"}]})).actions == ()
