"""The words for names: labels, annotations, and what pods and services are called (RULES §10)."""

from __future__ import annotations

from controller.model.replicas import SlotId, slot_of

GROUP = "kubeflow.org"
LABEL_PREFIX = "training.kubeflow.org/"
JOB_NAME_LABEL = LABEL_PREFIX + "job-name"
OPERATOR_LABEL = LABEL_PREFIX + "operator-name"
REPLICA_TYPE_LABEL = LABEL_PREFIX + "replica-type"
REPLICA_INDEX_LABEL = LABEL_PREFIX + "replica-index"
JOB_ROLE_LABEL = LABEL_PREFIX + "job-role"
OPERATOR_NAME = "tfjob-controller"
MASTER_ROLE = "master"
JOB_UID_LABEL = "tfjob.kubeflow.org/job-uid"
"""Lets an ended job's pods go by one deletecollection (RULES §6)."""
POD_FINALIZER = "tfjob.kubeflow.org/end-recorded"
"""Holds an ended pod until its end is in the log (DESIGN §6)."""


def object_name(job: str, slot: SlotId) -> str:
    """The name of a slot's pod and of its service."""
    return f"{job}-{slot}"


def slot_of_name(job: str, name: str) -> SlotId | None:
    """The slot whose pod or service of this job would have that name."""
    return slot_of(name[len(job) + 1 :]) if name.startswith(f"{job}-") else None
