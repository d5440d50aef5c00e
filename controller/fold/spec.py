"""A TFJob's spec as decisions read it: typed, with defaults, whatever case and place the manifest wrote things in.

In: a TFJob as observed. Out: `JobSpec`. What cannot be read is left at its default: fold/admission.py has said so.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from controller.fold.exit_codes import Ranges, ranges_of
from controller.model.objects import TFJob
from controller.model.replicas import TYPE_ORDER, ReplicaType, SlotId, replica_type_of
from controller.model.settings import CleanPodPolicy

VERSION_ANNOTATION = "tfjob.kubeflow.org/api-version"
RETRYABLE_ANNOTATION = "tfjob.kubeflow.org/retryable-exit-codes"
MAIN_CONTAINER = "tensorflow"
OWN_MANAGER = "kubeflow.org/training-operator"
"""The value of managedBy that names this controller, as its users' manifests have it (RULES §9)."""


class RestartPolicy(StrEnum):
    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"

    @property
    def in_pod(self) -> str:
        """The pod's own restartPolicy (RULES §3)."""
        return "Never" if self is RestartPolicy.EXIT_CODE else self.value


class ReplicaSpec(msgspec.Struct, frozen=True):
    """One replica type; `key` is how the manifest wrote it."""

    type: ReplicaType
    key: str
    count: int
    restart_policy: RestartPolicy
    sets_restart_policy: bool = False
    """The template has a restartPolicy of its own, which is overwritten with a Warning (RULES §10)."""


class JobSpec(msgspec.Struct, frozen=True):
    """What decisions read of a spec. Replica types stand in the order of RULES §4.4."""

    replicas: tuple[ReplicaSpec, ...] = ()
    clean_pod_policy: CleanPodPolicy | None = None
    ttl_seconds: int | None = None
    deadline_seconds: int | None = None
    backoff_limit: int | None = None
    is_suspended: bool = False
    all_workers: bool = False
    dynamic_workers: bool = False
    managed_by: str = ""
    retryable: Ranges | None = None
    min_available: int | None = None
    gang_key: str = ""
    """Equal for specs whose PodGroups are equal, whatever the settings."""

    def replica(self, kind: ReplicaType) -> ReplicaSpec | None:
        for each in self.replicas:
            if each.type is kind:
                return each
        return None

    def count(self, kind: ReplicaType) -> int:
        found = self.replica(kind)
        return found.count if found else 0

    def restart_policy(self, kind: ReplicaType) -> RestartPolicy:
        found = self.replica(kind)
        return found.restart_policy if found else RestartPolicy.NEVER

    def decider(self) -> SlotId | None:
        """The slot that decides the job; None when all of its replicas decide together (RULES §1)."""
        for kind in (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER):
            if self.count(kind) > 0:
                return SlotId(kind, 0)
        return None

    def total(self) -> int:
        return sum(each.count for each in self.replicas)

    def is_left_alone(self) -> bool:
        """Managed by another controller: recorded, and nothing more (RULES §9)."""
        return self.managed_by not in ("", OWN_MANAGER)


def rules_of(job: TFJob) -> str:
    """The policy set of a job: its annotation, else what its version at creation left in `spec.rules` (RULES §1)."""
    named = (job.metadata.annotations or {}).get(VERSION_ANNOTATION, "").rpartition("/")[2]
    if named in ("v1", "v1alpha2"):
        return named
    return "v1alpha2" if _mapping(job.spec).get("rules") == "v1alpha2" else "v1"


def spec_of(job: TFJob) -> JobSpec:
    """Reads a job's spec."""
    spec = _mapping(job.spec)
    policy = _mapping(spec.get("runPolicy"))

    def either(key: str) -> Any:
        # Older manifests have the policies directly under spec; runPolicy wins (RULES §6).
        return policy[key] if policy.get(key) is not None else spec.get(key)

    replicas = [
        _replica(kind, key, _mapping(value))
        for key, value in _mapping(spec.get("tfReplicaSpecs")).items()
        if (kind := replica_type_of(key)) is not None
    ]
    clean = either("cleanPodPolicy")
    annotation = (job.metadata.annotations or {}).get(RETRYABLE_ANNOTATION)
    return JobSpec(
        replicas=tuple(sorted(replicas, key=lambda each: TYPE_ORDER[each.type])),
        clean_pod_policy=CleanPodPolicy(clean) if clean in list(CleanPodPolicy) else None,
        ttl_seconds=_whole(either("ttlSecondsAfterFinished"), least=0),
        deadline_seconds=_whole(either("activeDeadlineSeconds"), least=1),
        backoff_limit=_whole(either("backoffLimit"), least=0),
        is_suspended=policy.get("suspend") is True,
        all_workers=spec.get("successPolicy") == "AllWorkers",
        dynamic_workers=spec.get("enableDynamicWorker") is True,
        managed_by=str(policy.get("managedBy") or ""),
        retryable=ranges_of(annotation) if annotation is not None else None,
        min_available=_whole(_mapping(policy.get("schedulingPolicy")).get("minAvailable")),
        gang_key=_gang_key(_mapping(policy.get("schedulingPolicy")), _mapping(spec.get("tfReplicaSpecs"))),
    )


def _gang_key(policy: dict[str, Any], replicas: dict[str, Any]) -> str:
    """A digest of all that a PodGroup is made from: the policy, counts, and what the pods ask for (RULES §10)."""
    members = []
    for key, value in replicas.items():
        replica = _mapping(value)
        pod = _mapping(_mapping(replica.get("template")).get("spec"))
        containers = pod.get("containers")
        resources = [_mapping(each).get("resources") for each in containers] if isinstance(containers, list) else []
        members.append((key, replica.get("replicas"), pod.get("priorityClassName"), resources))
    text = msgspec.json.encode((policy, members), order="sorted")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _replica(kind: ReplicaType, key: str, value: dict[str, Any]) -> ReplicaSpec:
    count = _whole(value.get("replicas"))
    policy = value.get("restartPolicy")
    return ReplicaSpec(
        type=kind,
        key=key,
        count=1 if count is None else max(0, count),
        restart_policy=RestartPolicy(policy) if policy in list(RestartPolicy) else RestartPolicy.NEVER,
        sets_restart_policy=bool(_mapping(_mapping(value.get("template")).get("spec")).get("restartPolicy")),
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any, *, least: int | None = None) -> int | None:
    """A whole number that is allowed; anything else is as if it were not there: an invalid TTL deletes no job."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # The API server takes 2.0 for most fields, and hands it out as 2.
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return None if least is not None and value < least else value
