"""Every kind of slot state × every kind of observation: no pair is undefined, and none breaks the rules of the list."""

from __future__ import annotations

from typing import Any

import pytest

from controller.decide import asked_of, is_over, is_wanted, status_of
from controller.fold import decode_state, encode_state
from controller.model import actions
from controller.model.actions import Holder, Outcome, Result
from controller.model.events import (
    ActionSettled,
    ClockJumped,
    Decided,
    GapOpened,
    GapReason,
    LeaderElected,
    NoticeObserved,
    Op,
    PodGroupObserved,
    ServiceObserved,
    SettingsRecorded,
    Synced,
    TimerFired,
    TimerKind,
)
from controller.model.objects import Notice, ObjectMeta, PodGroup, Service
from controller.model.replicas import ReplicaType
from controller.model.settings import PolicySettings
from tests.core.test_properties import check_list
from tests.core.words import UID, Line, at, ended, job, pod

WORKER = ReplicaType.WORKER
CREATE = actions.CreatePod(WORKER, 1, 1)
SERVICE = actions.CreateService(WORKER, 1)


def running(uid: str = "p1", **more: Any) -> Any:
    return pod("worker-1", uid=uid, state={"running": {}}, **more)


def failed(code: int = 137, uid: str = "p1", **more: Any) -> Any:
    return pod("worker-1", uid=uid, phase="Failed", state={"terminated": ended(code)}, **more)


def begin(line: Line, policy: str) -> None:
    line.see_job(job({"Worker": {"replicas": 2, "restartPolicy": policy}}))


def ask(line: Line, *found: actions.Action) -> int:
    line.fold(line.event(Decided(found), 1, Op.DECIDED, job_uid=UID))
    return line.position


def settle(line: Line, position: int, action: actions.Action, outcome: Outcome) -> None:
    line.fold(line.event(ActionSettled(position, 0, 1, action, outcome), 2, Op.ACTION, job_uid=UID))


def _created(line: Line) -> None:
    settle(line, ask(line, CREATE), CREATE, Outcome(Result.DONE, code=201, uid="p1"))


def _refused(line: Line) -> None:
    settle(line, ask(line, CREATE), CREATE, Outcome(Result.REFUSED, code=403, message="exceeded quota"))


def _taken(line: Line) -> None:
    holder = Holder("other", deletion_timestamp="2026-01-01T00:00:30Z")
    outcome = Outcome(Result.REFUSED, code=409, reason="AlreadyExists", holder=holder)
    settle(line, ask(line, CREATE), CREATE, outcome)


def _stopping(line: Line) -> None:
    line.see_pod(running(), 2)
    ask(line, actions.DeletePod("a-worker-1", "p1", actions.Because.SUSPENDED))


SLOTS: dict[str, Any] = {
    "nothing yet": lambda line: None,
    "creation in flight": lambda line: ask(line, CREATE),
    "created, not seen": _created,
    "refused": _refused,
    "name taken": _taken,
    "pending": lambda line: line.see_pod(pod("worker-1", uid="p1", phase="Pending"), 2),
    "unschedulable": lambda line: line.see_pod(
        pod("worker-1", uid="p1", phase="Pending", status={
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}), 2),
    "running": lambda line: line.see_pod(running(), 2),
    "unknown": lambda line: line.see_pod(pod("worker-1", uid="p1", phase="Unknown"), 2),
    "terminating": lambda line: line.see_pod(running(deletion=(40, 30)), 2),
    "stopping": _stopping,
    "crashing": lambda line: line.see_pod(
        pod("worker-1", uid="p1", state={"waiting": {"reason": "CrashLoopBackOff"}}, last=ended(1), restarts=2), 2),
    "succeeded": lambda line: line.see_pod(pod("worker-1", uid="p1", phase="Succeeded",
                                               state={"terminated": ended(0)}), 6),
    "failed": lambda line: line.see_pod(failed(), 6),
    "failed for good": lambda line: line.see_pod(failed(2), 6),
    "evicted": lambda line: line.see_pod(pod("worker-1", uid="p1", phase="Failed", status={"reason": "Evicted"}), 6),
    "gone": lambda line: (line.see_pod(running(), 2), line.see_pod(running(), 3, Op.DELETED)),
}  # fmt: skip


def _service(line: Line, op: Op) -> None:
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "1"}
    owner = running().metadata.owner_references
    metadata = ObjectMeta(name="a-worker-1", namespace="n", uid="s1", labels=labels, owner_references=owner)
    line.fold(line.event(ServiceObserved(Service(metadata)), 9, op, uid="s1", name="a-worker-1", job_uid=UID))


def _timer(kind: TimerKind, *, of_slot: bool = False) -> Any:
    slot = (WORKER, 1) if of_slot else (None, None)
    return lambda line: line.fold(line.event(TimerFired(kind, at(8), *slot), 9, Op.TIMER, job_uid=UID))


def _fact(fact: Any, op: Op) -> Any:
    return lambda line: line.fold(line.event(fact, 9, op))


def _outcome(action: Any, outcome: Outcome) -> Any:
    return lambda line: settle(line, ask(line, action), action, outcome)


OBSERVATIONS: dict[str, Any] = {
    "pod pending": lambda line: line.see_pod(pod("worker-1", uid="p1", phase="Pending"), 9),
    "pod running": lambda line: line.see_pod(running(), 9),
    "pod succeeded": lambda line: line.see_pod(
        pod("worker-1", uid="p1", phase="Succeeded", state={"terminated": ended(0, seconds=8)}), 9),
    "pod failed": lambda line: line.see_pod(failed(), 9),
    "pod terminating": lambda line: line.see_pod(running(deletion=(40, 30)), 9),
    "pod gone": lambda line: line.see_pod(running(), 9, Op.DELETED),
    "pod lost in a relist": lambda line: line.see_pod(running(), 9, Op.SYNC_DELETED),
    "another pod of the slot": lambda line: line.see_pod(running("p2", created=5), 9, Op.ADDED),
    "an older pod of the slot": lambda line: line.see_pod(running("p0", created=-60), 9, Op.ADDED),
    "a pod of another owner": lambda line: line.see_pod(running("x", owner="other"), 9, Op.ADDED),
    "its going": lambda line: line.see_pod(running("x", owner="other"), 9, Op.DELETED),
    "a pod without a slot": lambda line: line.see_pod(
        pod("worker-1", uid="q", labels={"training.kubeflow.org/replica-index": "x"}), 9, Op.ADDED),
    "service seen": lambda line: _service(line, Op.ADDED),
    "service gone": lambda line: _service(line, Op.DELETED),
    "suspended": lambda line: line.see_job(job({"Worker": {"replicas": 2}}, runPolicy={"suspend": True}), 9, version=9),
    "scaled down": lambda line: line.see_job(job({"Worker": {"replicas": 1}}), 9, version=9),
    "scaled up": lambda line: line.see_job(job({"Worker": {"replicas": 4}}), 9, version=9),
    "invalid": lambda line: line.see_job(job({"Wroker": {}}), 9, version=9),
    "managed elsewhere": lambda line: line.see_job(job(runPolicy={"managedBy": "a.b/c"}), 9, version=9),
    "job gone": lambda line: line.see_job(job(), 9, Op.DELETED, version=9),
    "pod created": _outcome(CREATE, Outcome(Result.DONE, code=201, uid="p9")),
    "pod refused": _outcome(CREATE, Outcome(Result.REFUSED, code=403, message="no")),
    "pod unknown": _outcome(CREATE, Outcome(Result.UNKNOWN)),
    "pod's name is our own": _outcome(CREATE, Outcome(
        Result.REFUSED, code=409, reason="AlreadyExists", holder=Holder("p1", owner_uid=UID))),
    "service created": _outcome(SERVICE, Outcome(Result.DONE, code=201, uid="s9")),
    "service refused": _outcome(SERVICE, Outcome(Result.REFUSED, code=403, message="no")),
    "deletion done": _outcome(actions.DeletePod("a-worker-1", "p1", actions.Because.REPLACED), Outcome(Result.DONE)),
    "deletion refused": _outcome(
        actions.DeletePod("a-worker-1", "p1", actions.Because.REPLACED), Outcome(Result.REFUSED, code=500)),
    "collection refused": _outcome(
        actions.DeleteOwned("pods", actions.Because.JOB_ENDED), Outcome(Result.REFUSED, code=429)),
    "status written": _outcome(actions.PatchStatus(True), Outcome(Result.DONE, status_digest="d")),
    "status in conflict": _outcome(
        actions.PatchStatus(True), Outcome(Result.REFUSED, code=409, reason="Conflict", resource_version="1")),
    "status refused": _outcome(actions.PatchStatus(True), Outcome(Result.REFUSED, code=422, reason="Invalid")),
    "event refused": _outcome(actions.EmitNotice("Normal", "A", "b"), Outcome(Result.REFUSED, code=403)),
    "backoff is over": _timer(TimerKind.BACKOFF, of_slot=True),
    "creation may be tried again": _timer(TimerKind.CREATE_RETRY, of_slot=True),
    "five minutes of terminating": _timer(TimerKind.STALL, of_slot=True),
    "deadline": _timer(TimerKind.DEADLINE),
    "ttl": _timer(TimerKind.TTL),
    "pause is over": _timer(TimerKind.ACTION_RETRY),
    "gap": _fact(GapOpened(("pods",), GapReason.EXPIRED, None, at(9)), Op.GAP),
    "cluster restored": _fact(GapOpened(("pods",), GapReason.CLUSTER_RESTORED, None, at(9)), Op.GAP),
    "synced": _fact(Synced(("pods",)), Op.SYNCED),
    "settings": _fact(SettingsRecorded(PolicySettings()), Op.SETTINGS),
    "leader": _fact(LeaderElected("h", 1, "0", 1), Op.LEADER),
    "clock": _fact(ClockJumped(9.0, True), Op.CLOCK),
    "notice": _fact(NoticeObserved(Notice(ObjectMeta(name="e"))), Op.ADDED),
    "pod group": _fact(PodGroupObserved(PodGroup(ObjectMeta(name="a"))), Op.ADDED),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
@pytest.mark.parametrize("slot", SLOTS, ids=list(SLOTS))
def test_no_pair_is_undefined(slot: str, policy: str) -> None:
    for name, observe in OBSERVATIONS.items():
        line = Line()
        begin(line, policy)
        SLOTS[slot](line)
        before = line.state
        assert before is not None
        observe(line)
        after, step = line.state, line.last
        assert after is not None and step is not None, name
        event = line.event(Synced(()), 9, Op.SYNCED)
        check_list(None, after, event)
        assert decode_state(encode_state(after)).slots == after.slots, name
        status_of(after)
        is_over(after)
        for action in (*asked_of(after).values(), *step.actions):
            assert is_wanted(after, action) in (True, False), name
        for action in step.actions:
            assert action not in asked_of(after).values() or isinstance(action, actions.EmitNotice), name
