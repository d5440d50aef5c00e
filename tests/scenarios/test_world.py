"""The API server of pure runs: names, uids, versions, deletions, finalizers, and who sees what."""

from __future__ import annotations

from typing import Any

import pytest

from controller.decide import digest_of
from controller.model import actions
from controller.model.actions import Because, Outcome, Result
from controller.model.events import Op
from controller.model.instants import instant_of
from controller.model.names import POD_FINALIZER
from controller.model.replicas import ReplicaType, SlotId
from controller.model.settings import PolicySettings
from controller.scenario.answers import Sender, answer
from controller.scenario.bodies import merged
from controller.scenario.model import WrongStep
from controller.scenario.parse import report_of, with_defaults
from controller.scenario.which import OwnObjects, slots_of, slots_wanted
from controller.scenario.world import Held, World

NOW = instant_of("2026-01-01T00:00:00Z")
MANIFEST = with_defaults(
    {"apiVersion": "kubeflow.org/v1alpha2", "kind": "TFJob", "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}}
)
CREATE = actions.CreatePod(ReplicaType.WORKER, 0, 1)


def world_with_job(*, has_finalizer: bool = False) -> tuple[World, Held]:
    world = World(PolicySettings(pod_finalizer=has_finalizer), NOW)
    return world, world.create_job(MANIFEST)


def sender_of(job: Held, status: dict[str, Any] | None = None) -> Sender:
    return Sender("team-a", "job-a", job.uid, status or {}, job.version)


def created(world: World, job: Held, action: actions.Action = CREATE) -> Held:
    outcome = answer(world, sender_of(job), action)
    assert outcome.result is Result.DONE
    (held,) = (each for each in world.objects.values() if each.uid == outcome.uid)
    return held


def seen(world: World) -> list[tuple[Op, str]]:
    """What a watch has delivered since it was asked last."""
    found = [(change.op, change.body["metadata"]["name"]) for change in world.changes]
    world.changes.clear()
    return found


def test_the_version_that_a_job_was_written_in_is_kept_in_its_spec() -> None:
    _, job = world_with_job()
    assert (job.body["apiVersion"], job.body["spec"]["rules"]) == ("kubeflow.org/v1", "v1alpha2")
    assert "rules" not in MANIFEST["spec"]


def test_every_change_is_a_newer_version_and_keeps_the_body_of_its_time() -> None:
    world, job = world_with_job()
    world.edit_job(job, {"spec": {"suspend": True}})
    first, second = world.changes
    assert first.version < second.version
    assert ("suspend" in first.body["spec"], "suspend" in second.body["spec"]) == (False, True)
    assert (first.body["metadata"]["generation"], second.body["metadata"]["generation"]) == (1, 2)


def test_an_edit_that_changes_nothing_or_the_status_is_none() -> None:
    world, job = world_with_job()
    seen(world)
    world.edit_job(job, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}, "status": {"conditions": []}})
    assert (seen(world), job.metadata["generation"], "status" in job.body) == ([], 1, False)


def test_a_name_is_taken_once_and_the_refusal_names_the_holder() -> None:
    world, job = world_with_job()
    pod = created(world, job)
    world.report(pod, report_of("Running"))
    outcome = answer(world, sender_of(job), CREATE)
    assert (outcome.result, outcome.code, outcome.reason) == (Result.REFUSED, 409, "AlreadyExists")
    assert outcome.holder == actions.Holder(uid=pod.uid, owner_uid=job.uid, owner_kind="TFJob", phase="Running")


def test_quota_refuses_before_the_name_does() -> None:
    world, job = world_with_job()
    created(world, job)
    world.refusals = {"pods": "exceeded quota"}
    outcome = answer(world, sender_of(job), CREATE)
    assert outcome == Outcome(Result.REFUSED, code=403, reason="Forbidden", message="exceeded quota")


def test_a_deletion_asks_for_the_uid() -> None:
    world, job = world_with_job()
    pod = created(world, job)
    for uid, is_left in (("another", True), (pod.uid, False)):
        outcome = answer(world, sender_of(job), actions.DeletePod("job-a-worker-0", uid, Because.REPLACED))
        assert outcome.result is Result.DONE
        assert (world.find("Pod", "team-a", "job-a-worker-0") is not None) == is_left


def test_a_pod_that_the_controller_deletes_terminates_and_is_gone() -> None:
    world, job = world_with_job()
    pod = created(world, job)
    world.report(pod, report_of("Running"))
    seen(world)
    answer(world, sender_of(job), actions.DeletePod("job-a-worker-0", pod.uid, Because.SUSPENDED))
    assert seen(world) == [(Op.DELETED, "job-a-worker-0")]


def test_a_pod_that_lingers_terminates_until_it_is_gone() -> None:
    world, job = world_with_job()
    world.linger("job-a", "worker-0", None)
    pod = created(world, job)
    seen(world)
    answer(world, sender_of(job), actions.DeletePod("job-a-worker-0", pod.uid, Because.SUSPENDED))
    assert (seen(world), pod.metadata["deletionTimestamp"]) == (
        [(Op.MODIFIED, "job-a-worker-0")],
        "2026-01-01T00:00:30Z",
    )
    world.vanish(pod)
    assert seen(world) == [(Op.DELETED, "job-a-worker-0")]


def test_somebody_elses_deletion_takes_an_ended_pod_at_once_and_lets_another_terminate() -> None:
    world, job = world_with_job()
    running, done = created(world, job), created(world, job, actions.CreatePod(ReplicaType.WORKER, 1, 1))
    world.report(running, report_of("Running"))
    world.report(done, report_of("Failed(1)"))
    seen(world)
    world.delete_pod(running)
    world.delete_pod(done)
    assert seen(world) == [(Op.MODIFIED, "job-a-worker-0"), (Op.DELETED, "job-a-worker-1")]


def test_a_finalizer_holds_a_stopped_pod_until_its_end_is_recorded() -> None:
    world, job = world_with_job(has_finalizer=True)
    pod = created(world, job)
    assert pod.metadata["finalizers"] == [POD_FINALIZER]
    world.report(pod, report_of("Running"))
    answer(world, sender_of(job), actions.DeletePod("job-a-worker-0", pod.uid, Because.SUSPENDED))
    assert (pod.phase, pod.is_terminating) == ("Failed", True)
    seen(world)
    answer(world, sender_of(job), actions.ReleasePod("job-a-worker-0", pod.uid))
    assert seen(world) == [(Op.DELETED, "job-a-worker-0")]


def test_a_deleted_job_takes_what_it_owns_along_and_nothing_else() -> None:
    world, job = world_with_job()
    created(world, job)
    created(world, job, actions.CreateService(ReplicaType.WORKER, 0))
    world.add("Pod", {"metadata": {"name": "stranger", "namespace": "team-a"}, "spec": {}})
    world.delete_job(job)
    assert [name for _, _, name in world.objects] == ["stranger"]
    outcome = answer(world, sender_of(job), CREATE)
    assert (outcome.result, outcome.code, outcome.reason) == (Result.REFUSED, 404, "NotFound")


def test_a_finalizer_of_the_job_holds_it_and_what_it_owns() -> None:
    world, job = world_with_job()
    created(world, job)
    world.edit_job(job, {"metadata": {"finalizers": ["example.com/hold"]}})
    world.delete_job(job)
    assert (job.is_terminating, len(world.of_kind("Pod"))) == (True, 1)
    world.edit_job(job, {"metadata": {"finalizers": None}})
    assert world.objects == {}


def test_a_status_is_written_on_the_version_that_was_folded_only() -> None:
    world, job = world_with_job()
    status = {"conditions": [{"type": "Created", "status": "True"}]}
    stale = sender_of(job, status)
    world.edit_job(job, {"metadata": {"labels": {"a": "b"}}})
    assert answer(world, stale, actions.PatchStatus(True)).code == 409
    outcome = answer(world, sender_of(job, status), actions.PatchStatus(True))
    assert (outcome.result, outcome.status_digest) == (Result.DONE, digest_of(status))
    assert (job.body["status"], outcome.resource_version) == (status, str(job.version))


def test_deletecollection_takes_what_carries_the_jobs_uid() -> None:
    world, job = world_with_job()
    created(world, job)
    created(world, job, actions.CreatePod(ReplicaType.WORKER, 1, 1))
    created(world, job, actions.CreateService(ReplicaType.WORKER, 0))
    answer(world, sender_of(job), actions.DeleteOwned("pods", Because.JOB_ENDED))
    assert [kind for kind, _, _ in world.objects] == ["TFJob", "Service"]


def test_an_object_without_the_label_is_not_watched() -> None:
    world, _ = world_with_job()
    seen(world)
    world.add("Pod", {"metadata": {"name": "stranger", "namespace": "team-a"}, "spec": {}})
    assert seen(world) == []


def test_an_object_that_no_server_would_keep_is_a_mistake_of_the_file() -> None:
    world, _ = world_with_job()
    with pytest.raises(WrongStep, match="Pod stranger would be refused"):
        world.add("Pod", {"metadata": {"name": "stranger", "labels": {"index": 0}}, "spec": {}})


def test_a_pod_that_no_server_would_keep_is_refused_to_the_controller() -> None:
    world, job = world_with_job()
    world.edit_job(job, {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"metadata": {"labels": {"a": 1}}}}}}})
    outcome = answer(world, sender_of(job), CREATE)
    assert (outcome.result, outcome.code) == (Result.REFUSED, 422)


MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": "c"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ({"a": [{"b": 1}]}, {"a": [1]}, {"a": [1]}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), MERGES)
def test_merge_patches_as_in_the_appendix_of_rfc_7386(target: Any, patch: Any, expected: Any) -> None:
    before = repr(target)
    assert merged(target, patch) == expected
    assert repr(target) == before


KNOWN = [SlotId(ReplicaType.WORKER, 10), SlotId(ReplicaType.WORKER, 2), SlotId(ReplicaType.PS, 0)]
PATTERNS = [
    ("*", ["ps-0", "worker-2", "worker-10"]),
    ("worker-*", ["worker-2", "worker-10"]),
    ("worker-0..2", ["worker-0", "worker-1", "worker-2"]),
    ("worker-2, ps-*,worker-2", ["worker-2", "ps-0"]),
    ("evaluator-*", []),
]


@pytest.mark.parametrize(("which", "expected"), PATTERNS, ids=[row[0] for row in PATTERNS])
def test_which(which: str, expected: list[str]) -> None:
    assert [str(slot) for slot in slots_of(which, KNOWN)] == expected


def test_the_slots_that_a_manifest_asks_for() -> None:
    replicas = {
        "CHIEF": {},
        "ps": {"replicas": 2},
        "Worker": None,
        "Nobody": {"replicas": 1},
        "Evaluator": {"replicas": 0},
    }
    found = slots_wanted({"spec": {"tfReplicaSpecs": replicas}})
    assert sorted(str(slot) for slot in found) == ["chief-0", "ps-0", "ps-1"]


def test_pods_of_an_older_job_of_the_name_are_own_ones_and_foreign_ones_never() -> None:
    world, job = world_with_job()
    world.linger("job-a", "worker-0", None)
    old = created(world, job)
    world.delete_job(job)
    world.create_job(MANIFEST)
    stranger = {"name": "job-a-worker-1", "namespace": "team-a", "labels": dict(old.metadata["labels"])}
    world.add("Pod", {"metadata": stranger, "spec": {}})
    own = OwnObjects(world, "team-a", "job-a")
    assert own.newest_pod(SlotId(ReplicaType.WORKER, 0)) is old
    assert own.not_terminating("Pod") == {}
