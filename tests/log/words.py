"""Events for the tests of the log: pods of one job as a watch would hand them over, and the job itself."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from controller.log import NewEvent
from controller.model.events import JobObserved, Op, PodObserved, TimerFired, TimerKind
from controller.model.objects import ObjectMeta, Pod, PodStatus, TFJob

NOW = 1_800_000_000_123_456
"""An instant with microseconds."""


def pod(
    number: int,
    resource_version: int,
    op: Op = Op.MODIFIED,
    *,
    job: str = "job",
    job_uid: str | None = "job-uid",
    namespace: str = "ns",
    at: int = NOW,
    phase: str = "Pending",
    message: str | None = None,
) -> NewEvent:
    """One version of the pod `job-worker-<number>`."""
    meta = ObjectMeta(
        name=f"{job}-worker-{number}",
        namespace=namespace,
        uid=f"{job}-pod-{number}",
        resource_version=str(resource_version),
    )
    return NewEvent(
        op=op,
        fact=PodObserved(Pod(metadata=meta, status=PodStatus(phase=phase, message=message))),
        observed_at=at,
        namespace=namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=resource_version,
        job_uid=job_uid,
        job_name=job,
    )


def job(
    resource_version: int,
    op: Op = Op.MODIFIED,
    *,
    name: str = "job",
    uid: str = "job-uid",
    namespace: str = "ns",
    at: int = NOW,
    spec: dict[str, Any] | None = None,
) -> NewEvent:
    """One version of a TFJob, with body and spec as the watch makes them."""
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version=str(resource_version))
    fact = JobObserved(TFJob(metadata=meta, api_version="kubeflow.org/v1", spec=spec or {"tfReplicaSpecs": {}}))
    text = msgspec.json.encode(fact.job.spec, order="sorted")
    return NewEvent(
        op=op,
        fact=fact,
        observed_at=at,
        namespace=namespace,
        name=name,
        uid=uid,
        resource_version=resource_version,
        job_uid=uid,
        job_name=name,
        spec_hash=hashlib.blake2b(text, digest_size=16).hexdigest(),
        body=msgspec.json.encode({"apiVersion": "kubeflow.org/v1", "metadata": meta, "status": None}),
        spec=text,
    )


def timer(key: str, *, job_uid: str = "job-uid", at: int = NOW) -> NewEvent:
    """An own fact with a key."""
    fact = TimerFired(timer=TimerKind.DEADLINE, due_at=at)
    return NewEvent(op=Op.TIMER, fact=fact, observed_at=at, uid=job_uid, job_uid=job_uid, key=key)
