"""The PodGroup of a job, made from the live job, for the scheduler that the setting names (RULES §10).

In: a TFJob as the API server has it, the values of the PriorityClasses that its pods name. Out: manifests, and patches
where the one that is there differs. Sources: scheduling.volcano.sh/v1beta1, scheduling.x-k8s.io/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.act.manifests import owner_reference, template_of
from controller.act.quantities import total_of
from controller.fold.spec import JobSpec, spec_of
from controller.model import names
from controller.model.objects import TFJob
from controller.model.replicas import ReplicaType
from controller.model.settings import GangScheduler

API_VERSIONS = {
    GangScheduler.VOLCANO: "scheduling.volcano.sh/v1beta1",
    GangScheduler.SCHEDULER_PLUGINS: "scheduling.x-k8s.io/v1alpha1",
}
DEFAULT_QUEUE = "default"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Of the job's own manifest: on another object it would mislead kubectl, and it may be large."""
_EVERY_SPEC = ("minMember", "minResources", "priorityClassName", "scheduleTimeoutSeconds")
"""What the controller keeps as the job says; `queue` is left as it is found."""

Json = dict[str, Any]


def groups_path(scheduler: GangScheduler, namespace: str, name: str = "") -> str:
    """Where the PodGroups of a scheduler are, or one of them."""
    path = f"/apis/{API_VERSIONS[scheduler]}/namespaces/{namespace}/podgroups"
    return f"{path}/{name}" if name else path


def group_manifest(job: Json, scheduler: GangScheduler, min_member: int, priorities: Mapping[str, int]) -> Json:
    """The job's PodGroup. `priorities`: PriorityClass → value, of those that decide whose resources are counted."""
    metadata, policy = job["metadata"], _policy(job)
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != _LAST_APPLIED}
    spec: Json = {"minMember": min_member}
    if scheduler is GangScheduler.VOLCANO:
        spec["queue"] = policy.get("queue") or DEFAULT_QUEUE
        if policy.get("priorityClass"):
            spec["priorityClassName"] = policy["priorityClass"]
    elif policy.get("scheduleTimeoutSeconds") is not None:
        spec["scheduleTimeoutSeconds"] = policy["scheduleTimeoutSeconds"]
    spec["minResources"] = policy.get("minResources") or min_resources(job, min_member, priorities)
    return {
        "apiVersion": API_VERSIONS[scheduler],
        "kind": "PodGroup",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {
                names.JOB_NAME_LABEL: metadata["name"],
                names.OPERATOR_LABEL: names.OPERATOR_NAME,
                names.JOB_UID_LABEL: metadata["uid"],
            },
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def group_patch(found: Json, wanted: Json) -> Json | None:
    """The merge patch that brings a PodGroup to what is wanted; None when it is that. Whatever else stands in it stays;
    so does its queue, which may be another by now."""
    patch: Json = {}
    for field in ("labels", "annotations"):
        held = found["metadata"].get(field) or {}
        differing = {key: text for key, text in (wanted["metadata"].get(field) or {}).items() if held.get(key) != text}
        if differing:
            patch.setdefault("metadata", {})[field] = differing
    held = found.get("spec") or {}
    spec: Json = {key: wanted["spec"].get(key) for key in _EVERY_SPEC if held.get(key) != wanted["spec"].get(key)}
    resources = spec.get("minResources")
    if resources is not None:
        # A merge patch keeps keys that it does not name.
        spec["minResources"] = {**dict.fromkeys(held.get("minResources") or ()), **resources}
    if spec:
        patch["spec"] = spec
    if patch:
        patch.setdefault("metadata", {})["uid"] = found["metadata"]["uid"]
    return patch or None


def priority_classes(job: Json, min_member: int) -> set[str]:
    """The PriorityClasses whose values decide whose resources are counted; none when that is clear without them."""
    spec = _spec(job)
    if _policy(job).get("minResources") or min_member >= spec.total():
        return set()
    named = [_class_name(job, each.type) for each in spec.replicas]
    return {name for name in named if name} if len(set(named)) > 1 else set()


def min_resources(job: Json, min_member: int, priorities: Mapping[str, int]) -> dict[str, str]:
    """What the first `min_member` pods ask for, those of the highest priority first: of each container the requests, or
    the limits where it has none. Init containers and overhead are not counted."""
    replicas = sorted(_spec(job).replicas, key=lambda each: -priorities.get(_class_name(job, each.type), 0))
    amounts: dict[str, list[object]] = {}
    left = min_member
    for each in replicas:
        count = min(left, each.count)
        left -= count
        for container in (template_of(job, each.type).get("spec") or {}).get("containers") or ():
            resources = container.get("resources") or {}
            asked = resources.get("requests")
            for name, amount in ((resources.get("limits") if asked is None else asked) or {}).items():
                amounts.setdefault(name, []).extend([amount] * count)
    return {name: total_of(parts) for name, parts in sorted(amounts.items()) if parts}


def _class_name(job: Json, kind: ReplicaType) -> str:
    return (template_of(job, kind).get("spec") or {}).get("priorityClassName") or ""


def _policy(job: Json) -> Json:
    return (job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}


def _spec(job: Json) -> JobSpec:
    return spec_of(msgspec.convert(job, TFJob))
