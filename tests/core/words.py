"""Words for the core's tests: small makers of pods, jobs and events."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.decide import Step, advance
from controller.fold import Context, JobState
from controller.fold.state import Attempt
from controller.model.events import AnyFact, Event, JobObserved, Op, PodObserved
from controller.model.instants import SECOND, Instant, instant_of, text_of
from controller.model.objects import Pod, TFJob

BEGIN: Instant = instant_of("2026-01-01T00:00:00Z")
UID = "job-uid"
Json = dict[str, Any]


def at(seconds: float) -> Instant:
    """So many seconds after the beginning."""
    return BEGIN + int(seconds * SECOND)


def job(replicas: dict[str, Json] | None = None, *, rules: str = "v1", **spec: Any) -> TFJob:
    """A TFJob as observed; each replica gets a template."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
    found = {kind: {"template": template, **each} for kind, each in (replicas or {"Worker": {}}).items()}
    metadata = {"name": "a", "namespace": "n", "uid": UID, "resourceVersion": "1", "generation": 1}
    return msgspec.convert({"metadata": metadata, "spec": {"tfReplicaSpecs": found, "rules": rules, **spec}}, TFJob)


def pod(
    slot: str = "worker-0", *, uid: str = "pod-uid", phase: str = "Running", state: Json | None = None,
    last: Json | None = None, restarts: int = 0, status: Json | None = None, deletion: tuple[float, int] | None = None,
    init: Json | None = None, restart_policy: str | None = None, owner: str = UID, created: float = 0,
    labels: Json | None = None,
) -> Pod:  # fmt: skip
    """A pod as observed; `deletion` is (when its grace is over, grace)."""
    kind, _, index = slot.rpartition("-")
    metadata: Json = {
        "name": f"a-{slot}",
        "namespace": "n",
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": text_of(at(created)),
        "labels": {
            "training.kubeflow.org/job-name": "a",
            "training.kubeflow.org/replica-type": kind,
            "training.kubeflow.org/replica-index": index,
            **(labels or {}),
        },
        "ownerReferences": [{"kind": "TFJob", "name": "a", "uid": owner, "controller": True}],
    }
    if deletion:
        metadata |= {"deletionTimestamp": text_of(at(deletion[0])), "deletionGracePeriodSeconds": deletion[1]}
    found: Json = {"phase": phase, **(status or {})}
    if state is not None:
        main: Json = {"name": "tensorflow", "restartCount": restarts, "state": state}
        if last is not None:
            main["lastState"] = {"terminated": last}
        found["containerStatuses"] = [main]
    if init is not None:
        found["initContainerStatuses"] = [{"name": "init", "state": {"terminated": init}}]
    spec = {"restartPolicy": restart_policy, "nodeName": "node-1"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": found}, Pod)


def ended(code: int, *, seconds: float | None = 5, reason: str = "", message: str = "", began: float = 0) -> Json:
    """A terminated state; `seconds`: when it finished, None when the kubelet does not know."""
    found: Json = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error")}
    found["startedAt"] = text_of(at(began))
    if seconds is not None:
        found["finishedAt"] = text_of(at(seconds))
    if message:
        found["message"] = message
    return found


def attempt(**known: Any) -> Attempt:
    """What is known of the pod's attempt."""
    return Attempt(**{"number": 1, "uid": "pod-uid", "name": "a-worker-0", "alive_at": at(1), **known})


class Line:
    """One job's history as it is made: each call appends an event and folds it."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or Context()
        self.state: JobState | None = None
        self.position = 0
        self.last: Step | None = None

    def event(self, fact: AnyFact, seconds: float, op: Op = Op.MODIFIED, **envelope: Any) -> Event:
        self.position += 1
        return Event(position=self.position, observed_at=at(seconds), op=op, fact=fact, **envelope)

    def fold(self, event: Event) -> Step:
        step = advance(self.state, event, self.context)
        assert step is not None
        self.state, self.last = step.state, step
        return step

    def see_job(self, found: TFJob, seconds: float = 0, op: Op = Op.ADDED, version: int = 1) -> Step:
        return self.fold(
            self.event(
                JobObserved(found), seconds, op, uid=UID, namespace="n", name="a", job_uid=UID,
                resource_version=version, spec_hash=repr(found.spec),
            )
        )  # fmt: skip

    def see_pod(self, found: Pod, seconds: float, op: Op = Op.MODIFIED) -> Step:
        metadata = found.metadata
        return self.fold(
            self.event(
                PodObserved(found), seconds, op, uid=metadata.uid, namespace="n", name=metadata.name, job_uid=UID,
                job_name="a", resource_version=self.position + 10,
            )
        )  # fmt: skip

    def conditions(self) -> dict[str, str]:
        assert self.state is not None
        return {entry.type: entry.status for entry in self.state.conditions}
