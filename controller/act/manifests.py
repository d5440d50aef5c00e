"""The pods and services of a slot, made from the live job (RULES §10).

In: a TFJob as the API server has it, a slot, the settings. Out: manifests. Never: the redacted log. The user's template
is kept; where it clashes with what the controller sets, the controller's value wins.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import msgspec

from controller.act.tf_config import tf_config
from controller.fold.spec import MAIN_CONTAINER, JobSpec, rules_of, spec_of
from controller.model import names
from controller.model.objects import TFJob
from controller.model.replicas import ReplicaType, SlotId, replica_type_of
from controller.model.settings import GangScheduler, PolicySettings

PORT_NAME = "tfjob-port"
DEFAULT_PORT = 2222
TF_CONFIG = "TF_CONFIG"

Json = dict[str, Any]


def pod_manifest(job: Json, slot: SlotId, settings: PolicySettings) -> Json:
    """The pod of a slot's next attempt. Raises KeyError when the job has no such replica type."""
    typed = msgspec.convert(job, TFJob)
    spec, rules = spec_of(typed), rules_of(typed)
    template = copy.deepcopy(template_of(job, slot.type))
    metadata = template.get("metadata") or {}
    body: Json = template.get("spec") or {}
    for container in [*(body.get("initContainers") or ()), *(body.get("containers") or ())]:
        # The end of the log survives the pod.
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    main = main_container(body)
    if main is not None:
        _add_port(main)
        _add_tf_config(main, _tf_config(job, spec, rules, slot, settings.cluster_domain))
    body["restartPolicy"] = spec.restart_policy(slot.type).in_pod
    labels = {**(metadata.get("labels") or {}), **slot_labels(job, slot)}
    if slot == spec.decider():
        labels[names.JOB_ROLE_LABEL] = names.MASTER_ROLE
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{key: value for key, value in metadata.items() if key in ("annotations", "finalizers") and value},
            "name": names.object_name(job["metadata"]["name"], slot),
            "namespace": job["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": body,
    }
    if settings.pod_finalizer:
        held = manifest["metadata"].setdefault("finalizers", [])
        if names.POD_FINALIZER not in held:
            held.append(names.POD_FINALIZER)
    _join_gang(manifest, job, slot, settings.gang_scheduler)
    return manifest


def service_manifest(job: Json, slot: SlotId) -> Json:
    """The headless service of a slot, with all ports of its main container."""
    body = copy.deepcopy(template_of(job, slot.type).get("spec") or {})
    main = main_container(body) or {}
    _add_port(main)
    labels = slot_labels(job, slot)
    ports = []
    for number, port in enumerate(main["ports"]):
        entry = {"name": port.get("name") or f"port-{number}", "port": port.get("containerPort", DEFAULT_PORT)}
        if port.get("protocol"):
            entry["protocol"] = port["protocol"]
        ports.append(entry)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.object_name(job["metadata"]["name"], slot),
            "namespace": job["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {key: value for key, value in labels.items() if key != names.JOB_UID_LABEL},
            "publishNotReadyAddresses": True,
            "ports": ports,
        },
    }


def slot_labels(job: Json, slot: SlotId) -> dict[str, str]:
    """The labels of a slot's pod and service."""
    return {
        names.JOB_NAME_LABEL: job["metadata"]["name"],
        names.OPERATOR_LABEL: names.OPERATOR_NAME,
        names.REPLICA_TYPE_LABEL: slot.type.label,
        names.REPLICA_INDEX_LABEL: str(slot.index),
        names.JOB_UID_LABEL: job["metadata"]["uid"],
    }


def owner_reference(job: Json) -> Json:
    """Makes the API server's garbage collector delete what the job leaves."""
    return {
        "apiVersion": job.get("apiVersion") or f"{names.GROUP}/v1",
        "kind": "TFJob",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_hash(job: Json, kind: ReplicaType) -> str:
    """A digest of the template that an attempt was made from (DESIGN §2)."""
    text = json.dumps(template_of(job, kind), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def main_container(body: Json) -> Json | None:
    """The container that decides; None when the template has none."""
    containers: list[Json] = body.get("containers") or []
    for container in containers:
        if container.get("name") == MAIN_CONTAINER:
            return container
    return None


def template_of(job: Json, kind: ReplicaType) -> Json:
    """The pod template of a replica type, as the manifest has it. Raises KeyError when the job has no such type."""
    for key, value in (job["spec"].get("tfReplicaSpecs") or {}).items():
        if replica_type_of(key) is kind:
            return (value or {}).get("template") or {}
    raise KeyError(kind.value)


def _add_port(main: Json) -> None:
    ports = main["ports"] = list(main.get("ports") or ())
    if not any(port.get("name") == PORT_NAME for port in ports):
        ports.append({"name": PORT_NAME, "containerPort": DEFAULT_PORT})


def _add_tf_config(main: Json, value: str | None) -> None:
    environment = list(main.get("env") or ())
    if value is None or any(entry.get("name") == TF_CONFIG for entry in environment):
        return
    main["env"] = [*environment, {"name": TF_CONFIG, "value": value}]


def _tf_config(job: Json, spec: JobSpec, rules: str, slot: SlotId, domain: str) -> str | None:
    ports = {each.type: _port(job, each.type) for each in spec.replicas}
    metadata = job["metadata"]
    return tf_config(metadata["name"], metadata["namespace"], spec, rules, slot, ports, domain)


def _port(job: Json, kind: ReplicaType) -> int:
    main = main_container(template_of(job, kind).get("spec") or {}) or {}
    for port in main.get("ports") or ():
        if port.get("name") == PORT_NAME:
            return int(port.get("containerPort", DEFAULT_PORT))
    return DEFAULT_PORT


def _join_gang(manifest: Json, job: Json, slot: SlotId, gang: GangScheduler) -> None:
    """Marks a pod as a member of the job's PodGroup, for the scheduler that the setting names."""
    metadata, name = manifest["metadata"], job["metadata"]["name"]
    if gang is GangScheduler.NONE:
        return
    if gang is GangScheduler.VOLCANO:
        annotations = metadata.setdefault("annotations", {})
        annotations |= {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": slot.type.label}
    else:
        metadata["labels"]["scheduling.x-k8s.io/pod-group"] = name
    if not manifest["spec"].get("schedulerName"):
        manifest["spec"]["schedulerName"] = gang.value
