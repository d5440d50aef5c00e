"""What makes a TFJob invalid, with the field path and what to write instead (RULES §9, §12).

In: a manifest as plain JSON. Out: problems. The CRD's schema and CEL rules say the same at the API server; these checks
serve `tfjob simulate`, `tfjob local`, and the objects that got past an older CRD (→ Failed, InvalidTFJobSpec).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from controller.fold.exit_codes import ranges_of
from controller.fold.spec import MAIN_CONTAINER, RETRYABLE_ANNOTATION, RestartPolicy
from controller.model.replicas import ReplicaType, replica_type_of
from controller.model.settings import CleanPodPolicy

LONGEST_NAME = 63
"""Of a pod's hostname and of a service (RFC 1123 label)."""
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN_PATH = re.compile(rf"{_LABEL}([.]{_LABEL})*/[A-Za-z0-9._~!$&()*+,;=:@%/-]+")
MOST_CONTAINERS = 100
LONGEST_IMAGE = 4096
LONGEST_MANAGER = 253
"""Bounds that the CRD needs: the API server estimates what its rules cost from them."""
_INT32 = 2**31 - 1
_TYPES = ", ".join(kind.value for kind in ReplicaType)
POD_FIELDS = (
    "metadata", "spec", "containers", "initContainers", "volumes", "imagePullSecrets", "tolerations", "nodeSelector",
    "affinity", "securityContext", "serviceAccountName", "schedulerName", "priorityClassName", "hostNetwork",
)  # fmt: skip
"""Fields of a pod that manifests have directly under a replica by mistake."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: where, and what to write instead."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def problems_of(manifest: Any) -> tuple[Problem, ...]:
    """Everything that is wrong with a manifest, in the order of its fields; empty when it is valid."""
    return tuple(Problem(path, message) for path, message in _problems(manifest if isinstance(manifest, dict) else {}))


Found = Iterator[tuple[str, str]]


def _problems(manifest: dict[str, Any]) -> Found:
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        yield "spec", "is missing: write tfReplicaSpecs under it"
        return
    yield from _name(metadata, spec)
    annotations = metadata.get("annotations")
    codes = annotations.get(RETRYABLE_ANNOTATION) if isinstance(annotations, dict) else None
    if codes is not None and (not isinstance(codes, str) or ranges_of(codes) is None):
        yield f"metadata.annotations[{RETRYABLE_ANNOTATION}]", 'is no list of exit codes: write "1,130,137-143"'
    yield from _replicas(spec)
    policy = spec.get("runPolicy")
    if policy is not None and not isinstance(policy, dict):
        yield "spec.runPolicy", "must be an object"
        policy = None
    for path, holder in (("spec.runPolicy", policy or {}), ("spec", spec)):
        yield from _policies(path, holder)
    yield from _enum("spec.successPolicy", spec.get("successPolicy"), ("", "AllWorkers"))
    yield from _boolean("spec.enableDynamicWorker", spec.get("enableDynamicWorker"))
    yield from _enum("spec.rules", spec.get("rules"), ("v1", "v1alpha2"))
    if policy:
        yield from _boolean("spec.runPolicy.suspend", policy.get("suspend"))
        manager = policy.get("managedBy")
        yield from _text("spec.runPolicy.managedBy", manager, LONGEST_MANAGER)
        if manager and isinstance(manager, str) and not _DOMAIN_PATH.fullmatch(manager):
            yield "spec.runPolicy.managedBy", "must be a domain-prefixed path, such as kueue.x-k8s.io/multikueue"
        yield from _scheduling("spec.runPolicy.schedulingPolicy", policy.get("schedulingPolicy"))


def _name(metadata: dict[str, Any], spec: dict[str, Any]) -> Found:
    name = metadata.get("name")
    if name is None:
        return
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _DNS_1035.fullmatch(name):
        yield (
            "metadata.name",
            "must be a DNS-1035 label: lower-case letters, digits and '-', beginning with a letter, "
            f"at most {LONGEST_NAME} characters",
        )
        return
    replicas = spec.get("tfReplicaSpecs")
    for key, value in replicas.items() if isinstance(replicas, dict) else ():
        kind = _type_of(key)
        count = value.get("replicas", 1) if isinstance(value, dict) else 1
        if kind is None or not isinstance(count, int) or count < 1:
            continue
        longest = f"{name}-{kind.label}-{count - 1}"
        if len(longest) > LONGEST_NAME:
            yield (
                "metadata.name",
                f"is too long: the pod {longest} would have {len(longest)} characters, "
                f"{LONGEST_NAME} are allowed; shorten the name by {len(longest) - LONGEST_NAME}",
            )
            return


def _replicas(spec: dict[str, Any]) -> Found:
    path = "spec.tfReplicaSpecs"
    replicas = spec.get("tfReplicaSpecs")
    if replicas is None:
        yield path, f"is missing: name at least one replica type ({_TYPES})"
        return
    if not isinstance(replicas, dict):
        yield path, f"must be an object with replica types as keys ({_TYPES})"
        return
    if not replicas:
        yield path, f"is empty: name at least one replica type ({_TYPES})"
    seen: dict[ReplicaType, str] = {}
    for key, value in replicas.items():
        kind = _type_of(key)
        if kind is None:
            yield f"{path}.{key}", f"is no replica type: write one of {_TYPES}"
        elif kind in seen:
            yield f"{path}.{key}", f"stands here twice, as {seen[kind]} as well: write it once"
        else:
            seen[kind] = str(key)
        yield from _replica(f"{path}.{key}", kind, value)
    if ReplicaType.CHIEF in seen and ReplicaType.MASTER in seen:
        yield path, "has a Chief and a Master: at most one of the two may decide the job"


def _type_of(key: Any) -> ReplicaType | None:
    # Beyond ASCII there are letters whose lower case is an ASCII letter; the API server's rules do not fold those.
    return replica_type_of(key) if isinstance(key, str) and key.isascii() else None


def _replica(path: str, kind: ReplicaType | None, value: Any) -> Found:
    if not isinstance(value, dict):
        yield path, "must be an object with a template; it is null or of another type"
        return
    count = value.get("replicas")
    if kind in (ReplicaType.CHIEF, ReplicaType.MASTER):
        if count is not None and (not _is_whole(count) or count != 1):
            yield f"{path}.replicas", f"must be 1: a job has exactly one {kind.value}"
    else:
        yield from _number(f"{path}.replicas", count, 0)
    if isinstance(count, float) and _is_whole(count):
        yield f"{path}.replicas", f"must be a whole number without a point: write {int(count)}"
    yield from _enum(f"{path}.restartPolicy", value.get("restartPolicy"), [each.value for each in RestartPolicy])
    for field in POD_FIELDS:
        if value.get(field) is not None:
            place = f"template.{field}" if field in ("metadata", "spec") else "template.spec"
            yield f"{path}.{field}", f"belongs to the pod: write it under {path}.{place}"
    template = value.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        yield f"{path}.template", f"needs a spec with a container named {MAIN_CONTAINER}"
        return
    yield from _object(f"{path}.template.metadata", template.get("metadata"))
    yield from _containers(f"{path}.template.spec", template["spec"])


def _containers(path: str, spec: dict[str, Any]) -> Found:
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        yield f"{path}.containers", f"needs a container named {MAIN_CONTAINER}"
        return
    if len(containers) > MOST_CONTAINERS:
        yield f"{path}.containers", f"must be at most {MOST_CONTAINERS}"
    names = []
    for index, container in enumerate(containers):
        here = f"{path}.containers[{index}]"
        if not isinstance(container, dict):
            yield here, "must be an object"
            continue
        names.append(container.get("name"))
        yield from _text(f"{here}.name", container.get("name"), LONGEST_NAME)
        image = container.get("image")
        if not isinstance(image, str) or not image:
            yield f"{here}.image", "is missing: every container needs an image"
        yield from _text(f"{here}.image", image, LONGEST_IMAGE)
    if MAIN_CONTAINER not in names:
        yield f"{path}.containers", f"has no container named {MAIN_CONTAINER}: it decides how an attempt ended"


def _policies(path: str, holder: dict[str, Any]) -> Found:
    yield from _enum(f"{path}.cleanPodPolicy", holder.get("cleanPodPolicy"), ["", *(p.value for p in CleanPodPolicy)])
    yield from _number(f"{path}.ttlSecondsAfterFinished", holder.get("ttlSecondsAfterFinished"), 0)
    yield from _number(f"{path}.activeDeadlineSeconds", holder.get("activeDeadlineSeconds"), 1, 2**63 - 1)
    yield from _number(f"{path}.backoffLimit", holder.get("backoffLimit"), 0)


def _scheduling(path: str, policy: Any) -> Found:
    yield from _object(path, policy)
    if not isinstance(policy, dict):
        return
    for field in ("minAvailable", "scheduleTimeoutSeconds"):
        yield from _number(f"{path}.{field}", policy.get(field), 0)
    for field in ("queue", "priorityClass"):
        yield from _text(f"{path}.{field}", policy.get(field))
    resources = policy.get("minResources")
    yield from _object(f"{path}.minResources", resources)
    for name, amount in resources.items() if isinstance(resources, dict) else ():
        if amount is not None and not isinstance(amount, str) and not _is_whole(amount):
            yield f"{path}.minResources.{name}", "must be an amount, such as 2 or 1Gi"


def _number(path: str, value: Any, least: int, most: int = _INT32) -> Found:
    if value is None:
        return
    if not _is_whole(value):
        yield path, "must be a whole number"
    elif value < least:
        yield path, f"must be {least} or more"
    elif value > most:
        yield path, f"must be at most {most}"


def _text(path: str, value: Any, most: int | None = None) -> Found:
    if value is not None and not isinstance(value, str):
        yield path, "must be text"
    elif value is not None and most is not None and len(value) > most:
        yield path, f"must have at most {most} characters"


def _object(path: str, value: Any) -> Found:
    if value is not None and not isinstance(value, dict):
        yield path, "must be an object"


def _boolean(path: str, value: Any) -> Found:
    if value is not None and not isinstance(value, bool):
        yield path, "must be true or false"


def _enum(path: str, value: Any, allowed: list[str] | tuple[str, ...]) -> Found:
    if value is not None and value not in allowed:
        yield path, "must be one of " + ", ".join(each or '""' for each in allowed)


def _is_whole(value: Any) -> bool:
    """Also 2.0: the API server takes it, and hands it out as 2."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
