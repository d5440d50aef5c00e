"""Makes tfjob.yaml: both served versions from one source, so that they cannot drift.

In: nothing. Out: the CustomResourceDefinition, on stdout or, with `--write`, beside this file.
Rules: what RULES.md §9 and §12 call invalid; controller/fold/admission.py says the same in Python, and a test compares
both on every case.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from replica_schema import TYPES, Json, needed, replicas, rule


def policies() -> Json:
    """What stands under runPolicy, and in older manifests directly under spec (RULES §6)."""
    return {
        "cleanPodPolicy": {"type": "string", "enum": ["", "All", "Running", "None"]},
        "ttlSecondsAfterFinished": {"type": "integer", "format": "int32", "minimum": 0},
        "activeDeadlineSeconds": {"type": "integer", "format": "int64", "minimum": 1},
        "backoffLimit": {"type": "integer", "format": "int32", "minimum": 0},
    }


def spec(version: str) -> Json:
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    managed_by = f"self == '' || self.matches('^{label}([.]{label})*/[A-Za-z0-9._~!$&()*+,;=:@%/-]+$')"
    manager = "(has({s}.runPolicy) && has({s}.runPolicy.managedBy) ? {s}.runPolicy.managedBy : '')"
    scheduling: Json = {
        "type": "object",
        "properties": {
            "minAvailable": {"type": "integer", "format": "int32", "minimum": 0},
            "scheduleTimeoutSeconds": {"type": "integer", "format": "int32", "minimum": 0},
            # A scheduler has counted the job in its queue already.
            "queue": {"type": "string", "x-kubernetes-validations": [rule("self == oldSelf", "is immutable")]},
            "priorityClass": {"type": "string"},
            "minResources": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
        },
    }
    return {
        "type": "object",
        "properties": {
            **policies(),
            "rules": {
                "type": "string",
                "enum": ["v1", "v1alpha2"],
                "default": version,
                "description": "The policy set of this job: the version in which it was created.",
            },
            "successPolicy": {"type": "string", "enum": ["", "AllWorkers"]},
            "enableDynamicWorker": {"type": "boolean"},
            "runPolicy": {
                "type": "object",
                "properties": {
                    **policies(),
                    "suspend": {"type": "boolean", "default": False},
                    "managedBy": {
                        "type": "string",
                        "maxLength": 253,
                        "x-kubernetes-validations": [
                            rule(managed_by, "must be a domain-prefixed path, such as kueue.x-k8s.io/multikueue"),
                        ],
                    },
                    "schedulingPolicy": scheduling,
                },
            },
            "tfReplicaSpecs": replicas(),
        },
        "x-kubernetes-validations": [
            needed("tfReplicaSpecs", f"is missing: name at least one replica type ({TYPES})"),
            rule(
                f"{manager.format(s='self')} == {manager.format(s='oldSelf')}",
                "is immutable: make another job to have it managed elsewhere",
                at=".runPolicy.managedBy",
            ),
        ],
    }


def schema(version: str) -> Json:
    specs, before = "self.spec.tfReplicaSpecs", "oldSelf.?spec.?tfReplicaSpecs[?k]"
    count = f"(!has({specs}[k].replicas) ? 1 : {specs}[k].replicas)"
    fits = f"size(self.metadata.name) + size(k) + 2 + size(string({count} - 1)) <= 63"
    is_as_before = f"({before}.hasValue() && {before}.?replicas.orValue(1) == {count})"
    has_names = f"has(self.spec) && has({specs})"
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": spec(version),
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": [
            needed("spec", "is missing: write tfReplicaSpecs under it"),
            # A name cannot be edited.
            rule(
                "oldSelf.hasValue() || size(self.metadata.name) <= 63"
                " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "must be a DNS-1035 label: lower-case letters, digits and '-', beginning with a letter,"
                " at most 63 characters",
                at=".metadata.name",
                sees_before=True,
            ),
            rule(
                f"!({has_names}) || {specs}.all(k, {specs}[k] == null || type({count}) != int || {count} < 1"
                f" || {fits} || {is_as_before})",
                "is too long: the name of its last pod (name, type and index) would exceed 63"
                " characters: shorten the name",
                at=".metadata.name",
                sees_before=True,
            ),
        ],
    }


def column(name: str, path: str, kind: str = "string", priority: int = 0) -> Json:
    return {"name": name, "type": kind, "jsonPath": path, "priority": priority}


def version(name: str, *, is_stored: bool) -> Json:
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            column("State", ".status.conditions[-1:].type"),
            column("Age", ".metadata.creationTimestamp", "date"),
            column("Decider", ".status.decider", priority=1),
            column("Restarts", ".status.restarts", priority=1),
            column("Reason", ".status.conditions[-1:].reason", priority=1),
            column("Rules", ".spec.rules", priority=1),
        ],
        "schema": {"openAPIV3Schema": schema(name)},
    }


def definition() -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "tfjobs.kubeflow.org"},
        "spec": {
            "group": "kubeflow.org",
            "scope": "Namespaced",
            "names": {
                "plural": "tfjobs",
                "singular": "tfjob",
                "kind": "TFJob",
                "listKind": "TFJobList",
                "shortNames": ["tfj"],
                "categories": ["all"],
            },
            "versions": [version("v1", is_stored=True), version("v1alpha2", is_stored=False)],
        },
    }


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def text() -> str:
    """The file's content."""
    return "# Made by deploy/crd/make.py.\n" + yaml.dump(definition(), Dumper=_Plain, sort_keys=False, width=120)


if __name__ == "__main__":
    if "--write" in sys.argv:
        Path(__file__).with_name("tfjob.yaml").write_text(text())
    else:
        sys.stdout.write(text())
