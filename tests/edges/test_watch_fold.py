"""What the watch hands over is what the fold understands: from the server's JSON to a job's state."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.decide import advance
from controller.fold import Context, JobState
from controller.fold.state import End
from controller.model.events import Event, Op
from controller.model.replicas import ReplicaType, SlotId
from controller.watch.lines import object_of
from controller.watch.normalise import Owner, lost
from controller.watch.observation import Observation
from controller.watch.resources import PODS, SERVICES, TFJOBS, Resource
from tests.edges.watch_world import normaliser

WORKER = SlotId(ReplicaType.WORKER, 0)
LABELS = {
    "training.kubeflow.org/job-name": "job",
    "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "0",
}
REFERENCE = {"kind": "TFJob", "apiVersion": "kubeflow.org/v1", "name": "job", "uid": "job-uid", "controller": True}


def metadata(name: str, uid: str, version: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version), **more}


def seen(resource: Resource, op: Op, body: dict[str, Any]) -> Observation:
    return normaliser().observation(resource, op, object_of(msgspec.json.encode(body)), 1_000_000)


def folded(*observations: Observation) -> JobState:
    state: JobState | None = None
    for position, each in enumerate(observations, 1):
        event = Event(
            position=position,
            observed_at=1_000_000 * position,
            op=each.op,
            fact=each.fact,
            namespace=each.namespace,
            name=each.name,
            uid=each.uid,
            resource_version=each.resource_version,
            job_uid=each.job_uid,
            job_name=each.job_name,
            spec_hash=each.spec_hash,
        )
        step = advance(state, event, Context())
        assert step is not None
        state = step.state
    assert state is not None
    return state


TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "env": [{"name": "A", "value": "v"}]}]}}
JOB = seen(
    TFJOBS,
    Op.ADDED,
    {
        "apiVersion": "kubeflow.org/v1",
        "metadata": metadata("job", "job-uid", 1),
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "restartPolicy": "Never", "template": TEMPLATE}}},
    },
)
POD = seen(
    PODS,
    Op.ADDED,
    {
        "metadata": metadata("job-worker-0", "pod-uid", 2, labels=LABELS, ownerReferences=[REFERENCE]),
        "spec": {"restartPolicy": "Never"},
        "status": {"phase": "Running"},
    },
)
SERVICE = seen(
    SERVICES,
    Op.ADDED,
    {"metadata": metadata("job-worker-0", "service-uid", 3, labels=LABELS, ownerReferences=[REFERENCE]), "spec": {}},
)


def test_a_job_and_its_pod_are_understood() -> None:
    state = folded(JOB, POD, SERVICE)
    slot = state.slots[WORKER]
    assert slot.attempt is not None and slot.service is not None
    assert (slot.attempt.phase, slot.attempt.uid, slot.service.uid) == ("Running", "pod-uid", "service-uid")
    assert state.conditions[-1].type == "Running"
    assert state.problem is None


def test_a_pod_and_a_service_that_a_relist_lacks_are_gone() -> None:
    owner = Owner("job-uid", "job")
    state = folded(
        JOB,
        POD,
        SERVICE,
        lost(PODS, ("ns", "job-worker-0", "pod-uid"), owner, 9, 1_000_000),
        lost(SERVICES, ("ns", "job-worker-0", "service-uid"), owner, 9, 1_000_000),
    )
    slot = state.slots[WORKER]
    assert slot.service is None
    assert slot.attempt is not None and slot.attempt.ending is not None
    assert (slot.attempt.is_gone, slot.attempt.ending.how, slot.attempt.ending.reason) == (
        True,
        End.DISRUPTED,
        "PodLostDuringGap",
    )
    assert state.conditions[-1].type == "Failed"
