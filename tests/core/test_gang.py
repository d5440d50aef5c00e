"""What is asked for a job's PodGroup, and when pods are held back for it (RULES §7, §10)."""

from __future__ import annotations

from typing import Any

import pytest

from controller.decide import digest_of, is_wanted, status_of
from controller.decide.gang import members_of
from controller.fold import Context, decode_state, encode_state
from controller.fold.state import Attempt
from controller.model.actions import (
    Action,
    Because,
    CreatePod,
    CreatePodGroup,
    CreateService,
    DeletePodGroup,
    Holder,
    Outcome,
    PatchStatus,
    Result,
    UpdatePodGroup,
)
from controller.model.events import ActionSettled, Decided, Op, PodGroupObserved, TimerFired, TimerKind
from controller.model.objects import ObjectMeta, OwnerReference, PodGroup, TFJob
from controller.model.replicas import ReplicaType, SlotId
from controller.model.settings import GangScheduler, PolicySettings
from tests.core.words import UID, Line, at, ended, job, pod
from tests.mutants import Change, mutated

VOLCANO, PLUGINS = GangScheduler.VOLCANO, GangScheduler.SCHEDULER_PLUGINS
GROUP = "group-uid"
OK = Outcome(Result.DONE, code=201, uid=GROUP)
TERMINATING = "2026-01-01T00:00:09Z"


def workers(count: int = 2, **policy: Any) -> TFJob:
    """A job of workers that are retried, with a scheduling policy."""
    replica = {"replicas": count, "restartPolicy": "ExitCode"}
    return job({"Worker": replica}, runPolicy={"schedulingPolicy": policy, "cleanPodPolicy": "None"})


class Gang(Line):
    """A job's history under a gang scheduler; what is asked for is decided and answered by `go`."""

    def __init__(self, scheduler: GangScheduler = VOLCANO, found: TFJob | None = None) -> None:
        super().__init__(Context(settings=PolicySettings(gang_scheduler=scheduler)))
        self.job = found or workers()
        self.seconds = 0.0
        self.see_job(self.job)

    def wanted(self, *kinds: type) -> list[Action]:
        assert self.last is not None
        return [each for each in self.last.actions if not kinds or isinstance(each, kinds)]

    def of_group(self) -> list[Action]:
        return self.wanted(CreatePodGroup, UpdatePodGroup, DeletePodGroup)

    def go(self, answer: Outcome = OK) -> list[Action]:
        """Everything that is asked for is decided; the PodGroup's answer is `answer`, everything else is done."""
        self.seconds += 1
        fact = Decided(tuple(self.wanted()))
        decided = self.event(fact, self.seconds, Op.DECIDED, uid=UID, job_uid=UID)
        self.fold(decided)
        for ordinal, action in enumerate(fact.actions):
            done = Outcome(Result.DONE, code=201, uid=f"uid-{decided.position}-{ordinal}", resource_version="2")
            is_group = isinstance(action, CreatePodGroup | UpdatePodGroup | DeletePodGroup)
            if isinstance(action, PatchStatus) and self.state is not None:
                done = Outcome(Result.DONE, status_digest=digest_of(status_of(self.state)), resource_version="2")
            settled = ActionSettled(decided.position, ordinal, 1, action, answer if is_group else done)
            self.fold(self.event(settled, self.seconds, Op.ACTION, uid=UID, job_uid=UID))
        return list(fact.actions)

    def see_group(
        self, phase: str | None, op: Op = Op.MODIFIED, *, uid: str = GROUP, owner: str = UID, going: bool = False
    ) -> list[Action]:
        """The watch shows a PodGroup; what is asked for then."""
        self.seconds += 0.1
        reference = OwnerReference("TFJob", "a", owner, "kubeflow.org/v1", True)
        meta = ObjectMeta(
            name="a", namespace="n", uid=uid, owner_references=(reference,),
            deletion_timestamp=TERMINATING if going else None,
        )  # fmt: skip
        fact = PodGroupObserved(PodGroup(meta, {"phase": phase} if phase is not None else None))
        envelope = {"uid": uid, "namespace": "n", "name": "a", "job_uid": owner, "job_name": "a"}
        self.fold(self.event(fact, self.seconds, op, **envelope))
        return self.wanted()

    def edit(self, found: TFJob) -> list[Action]:
        self.seconds += 1
        self.job = found
        self.see_job(found, self.seconds, Op.MODIFIED, version=self.position + 10)
        return self.of_group()

    def key(self) -> str:
        assert self.state is not None
        return self.state.spec.gang_key

    def slot_id(self, index: int) -> SlotId:
        return SlotId(ReplicaType.WORKER, index)

    def slot(self, index: int) -> Attempt:
        assert self.state is not None
        found = self.state.slots[self.slot_id(index)].attempt
        assert found is not None
        return found

    def end(self, index: int, code: int) -> None:
        """A worker's pod ends with a code."""
        self.seconds += 1
        phase, state = "Failed" if code else "Succeeded", {"terminated": ended(code, seconds=self.seconds)}
        self.see_pod(pod(f"worker-{index}", uid=self.slot(index).uid, phase=phase, state=state), self.seconds)

    def gone(self, index: int) -> None:
        """A worker's pod is gone."""
        self.seconds += 1
        found = pod(f"worker-{index}", uid=self.slot(index).uid, phase="Failed", state={"terminated": ended(137)})
        self.see_pod(found, self.seconds, Op.DELETED)


@pytest.mark.parametrize(
    ("phase", "is_let_in"),
    [(None, False), ("", False), ("Pending", False), ("Inqueue", True), ("Running", True), ("Unknown", True)],
)
def test_volcano_s_group_comes_first_and_pods_when_it_lets_them_in(phase: str | None, is_let_in: bool) -> None:
    gang = Gang()
    assert gang.of_group() == [CreatePodGroup(2, VOLCANO, gang.key())]
    assert gang.wanted(CreatePod, CreateService) == []
    gang.go()
    assert gang.wanted() == [], "its creation lets nothing in"
    gang.see_group(phase, Op.ADDED)
    assert len(gang.wanted(CreatePod)) == len(gang.wanted(CreateService)) == (2 if is_let_in else 0)
    assert gang.of_group() == []


def test_the_group_of_scheduler_plugins_only_has_to_be_there() -> None:
    gang = Gang(PLUGINS)
    assert [type(each) for each in gang.of_group()] == [CreatePodGroup] and gang.wanted(CreatePod) == []
    gang.go()
    assert len(gang.wanted(CreatePod)) == 2


def test_without_a_gang_scheduler_nothing_waits() -> None:
    gang = Gang(GangScheduler.NONE)
    assert gang.of_group() == [] and len(gang.wanted(CreatePod)) == 2


def test_a_group_that_was_there_already_says_its_phase() -> None:
    """As training-operator leaves one: the watch shows it when its labels have been written, or not at all."""
    gang = Gang()
    gang.go(Outcome(Result.DONE, code=200, uid=GROUP, holder=Holder(GROUP, owner_uid=UID, phase="Running")))
    assert len(gang.wanted(CreatePod)) == 2


@pytest.mark.parametrize(
    ("total", "asked", "succeeded", "members"),
    [(4, None, 0, 4), (4, None, 3, 1), (4, 2, 0, 2), (4, 2, 1, 2), (4, 2, 3, 1), (1, 10, 0, 10), (4, 0, 0, 0)],
)
def test_min_member(total: int, asked: int | None, succeeded: int, members: int) -> None:
    """minAvailable or the total, no more than are left; more than there are replicas is left as the user wrote it."""
    gang = Gang(found=workers(total, **({} if asked is None else {"minAvailable": asked})))
    for number in range(succeeded):
        # From the highest down: worker 0 decides.
        index = total - 1 - number
        gang.see_pod(pod(f"worker-{index}", uid=f"p{index}", phase="Succeeded", state={"terminated": ended(0)}), 5)
    assert gang.state is not None
    assert members_of(gang.state) == members


def started(count: int = 2, scheduler: GangScheduler = VOLCANO) -> Gang:
    """A job whose group lets pods in and whose pods run."""
    gang = Gang(scheduler, workers(count))
    gang.go()
    gang.see_group("Inqueue", Op.ADDED)
    gang.go()
    for index in range(count):
        uid = gang.slot(index).uid
        gang.see_pod(pod(f"worker-{index}", uid=uid, state={"running": {}}), gang.seconds)
    gang.go()
    return gang


def scheduler_writes(gang: Gang) -> list[Action]:
    """What is asked for while the scheduler writes into the group, again and again."""
    asked = []
    for phase in ["Pending", "Inqueue", *["Running"] * 20]:
        gang.see_group(phase)
        asked += gang.go() if gang.wanted() else []
    return asked


def test_weakness_29_a_group_is_written_when_it_differs() -> None:
    """Nothing while it is pending, however often that is shown, nor for what its scheduler writes; once for an edit
    that changes it, and lowered when a pod is made after others are done."""
    pending = Gang()
    pending.go()
    for _ in range(20):
        assert pending.see_group("Pending") == [], "neither the group nor the status is written"
    gang = started()
    assert scheduler_writes(gang) == []
    assert gang.edit(workers(2, scheduleTimeoutSeconds=None)) == [UpdatePodGroup(GROUP, 2, VOLCANO, gang.key())]
    gang.go()
    assert gang.edit(workers(2, minAvailable=1)) == [UpdatePodGroup(GROUP, 1, VOLCANO, gang.key())]
    gang.go()
    assert gang.of_group() == []
    assert gang.edit(workers(3, minAvailable=1)) == [UpdatePodGroup(GROUP, 1, VOLCANO, gang.key())]
    gang.go()
    assert scheduler_writes(gang) == []


def test_weakness_29_it_is_noticed_when_it_is_put_in() -> None:
    with mutated([Change("controller.decide.gang", "is_other = group.key != key", "is_other = True")]):
        gang = started()
        assert scheduler_writes(gang) != []


@pytest.mark.parametrize("scheduler", [VOLCANO, PLUGINS])
def test_weakness_29_min_member_is_lowered_before_a_pod_is_replaced(scheduler: GangScheduler) -> None:
    """With three of four done there are not four pods to wait for. No write as they end, one when it matters."""
    gang = started(4, scheduler)
    for index in (1, 2, 3):
        gang.end(index, 0)
        assert gang.of_group() == []
    gang.end(0, 137)
    gang.go()
    gang.gone(0)
    assert gang.of_group() == [UpdatePodGroup(GROUP, 1, scheduler, gang.key())]
    assert gang.wanted(CreatePod) == [CreatePod(gang.slot_id(0).type, 0, 2)]
    kinds = [type(each) for each in gang.wanted()]
    assert kinds.index(UpdatePodGroup) < kinds.index(CreatePod)
    gang.go()
    assert gang.of_group() == []


def test_it_goes_at_the_end_after_the_terminal_condition_is_written() -> None:
    gang = started()
    gang.end(0, 0)
    assert gang.of_group() == [] and [type(each) for each in gang.wanted(PatchStatus)] == [PatchStatus]
    gang.go()
    assert gang.of_group() == [DeletePodGroup(Because.JOB_ENDED, GROUP, VOLCANO)]
    gang.go(Outcome(Result.DONE, code=200))
    assert gang.see_group(None, Op.DELETED) == []


def test_it_goes_at_a_suspension_and_comes_at_the_resume() -> None:
    gang = started()
    assert gang.edit(suspended(True)) == [DeletePodGroup(Because.SUSPENDED, GROUP, VOLCANO)]
    gang.go(Outcome(Result.DONE, code=200))
    assert gang.edit(suspended(False)) == [], "it is on its way out, and its name is taken"
    assert gang.wanted(CreatePod) == []
    gang.see_group(None, Op.DELETED)
    assert [type(each) for each in gang.of_group()] == [CreatePodGroup] and gang.wanted(CreatePod) == []


def suspended(is_suspended: bool) -> TFJob:
    replica = {"replicas": 2, "restartPolicy": "ExitCode"}
    policy = {"schedulingPolicy": {}, "cleanPodPolicy": "None", "suspend": is_suspended}
    return job({"Worker": replica}, runPolicy=policy)


def test_one_that_somebody_deletes_is_made_again() -> None:
    gang = started()
    gang.see_group("Running", going=True)
    assert gang.of_group() == []
    gang.see_group(None, Op.DELETED)
    assert [type(each) for each in gang.of_group()] == [CreatePodGroup]


def test_a_refusal_stalls_the_job_in_the_server_s_words_and_waits() -> None:
    gang = Gang()
    gang.go(Outcome(Result.REFUSED, code=403, reason="Forbidden", message="podgroups is forbidden"))
    assert gang.of_group() == []
    assert gang.conditions()["Stalled"] == "True"
    assert gang.state is not None and gang.last is not None
    stalled = next(each for each in gang.state.conditions if each.type == "Stalled")
    assert (stalled.reason, stalled.message) == (
        "FailedCreate",
        "worker-0: PodGroup of worker-0: podgroups is forbidden (and 1 more)",
    )
    assert [(each.timer, each.due_at) for each in gang.last.timers] == [(TimerKind.POD_GROUP_RETRY, at(2))]
    gang.fold(gang.event(TimerFired(TimerKind.POD_GROUP_RETRY, at(2)), 2, Op.TIMER, uid=UID, job_uid=UID))
    assert [type(each) for each in gang.of_group()] == [CreatePodGroup]
    gang.go()
    gang.see_group("Inqueue", Op.ADDED)
    assert gang.conditions()["Stalled"] == "False"


def test_a_name_that_an_older_job_s_group_holds_is_taken_when_it_is_freed() -> None:
    gang = Gang()
    holder = Holder("old", owner_uid="older-job", owner_kind="TFJob")
    gang.go(Outcome(Result.REFUSED, code=409, reason="AlreadyExists", holder=holder))
    assert gang.of_group() == []
    assert next(each.reason for each in gang.state.conditions if each.type == "Stalled") == "NameTaken"  # type: ignore[union-attr]
    gang.see_group(None, Op.DELETED, uid="old", owner="older-job")
    assert [type(each) for each in gang.of_group()] == [CreatePodGroup]


def test_another_scheduler_s_group_is_replaced() -> None:
    gang = started()
    gang.context = Context(settings=PolicySettings(gang_scheduler=PLUGINS))
    gang.see_job(gang.job, gang.seconds + 1, Op.MODIFIED, version=99)
    assert gang.of_group() == [DeletePodGroup(Because.REPLACED, GROUP, VOLCANO)]
    gang.go(Outcome(Result.DONE, code=404))
    assert [each.scheduler for each in gang.of_group() if isinstance(each, CreatePodGroup)] == [PLUGINS]


def test_what_is_no_longer_wanted_is_dropped_before_it_is_sent() -> None:
    gang = started()
    state = gang.state
    assert state is not None
    create, update = CreatePodGroup(2, VOLCANO, ""), UpdatePodGroup(GROUP, 2, VOLCANO, "")
    delete = DeletePodGroup(Because.SUSPENDED, GROUP, VOLCANO)
    assert [is_wanted(state, each) for each in (create, update, delete)] == [False, True, True]
    gang.see_group(None, Op.DELETED)
    assert gang.state is not None
    assert [is_wanted(gang.state, each) for each in (create, update, delete)] == [True, False, False]


def test_a_snapshot_keeps_it() -> None:
    state = started().state
    assert state is not None and state.group is not None
    assert decode_state(encode_state(state)).group == state.group
