"""Makes tfjob.yaml: both served versions from one source, so that they cannot drift.

In: nothing. Out: the CustomResourceDefinition, on stdout or, with `--write`, beside this file.
Rules: what RULES.md §9 and §12 call invalid; controller/fold/admission.py says the same in Python, and a test compares
both on every case. Rules that look at metadata pass on updates: an older object can still have its status written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
TYPES = "Chief, Master, Worker, PS, Evaluator"
LOWER_TYPES = "['chief', 'master', 'worker', 'ps', 'evaluator']"
POD_FIELDS = {
    "containers": "array",
    "initContainers": "array",
    "volumes": "array",
    "nodeSelector": "object",
    "tolerations": "array",
    "serviceAccountName": "string",
    "spec": "object",
}
"""Fields of a pod that manifests have been seen to have directly under a replica, with their types."""
MOST_CONTAINERS = 100
MOST_TYPES = 5
LONGEST_TEXT = 4096


def rule(expression: str, message: str, *, is_on_creation: bool = False) -> Json:
    """One CEL rule. `is_on_creation`: later updates pass, whatever they leave as it was."""
    found: Json = {"rule": expression, "message": message}
    if is_on_creation:
        found["rule"] = f"oldSelf.hasValue() || ({expression})"
        found["optionalOldSelf"] = True
    return found


def policies() -> Json:
    """What stands under runPolicy, and in older manifests directly under spec (RULES §6)."""
    return {
        "cleanPodPolicy": {"type": "string", "enum": ["", "All", "Running", "None"]},
        "ttlSecondsAfterFinished": {"type": "integer", "format": "int32", "minimum": 0},
        "activeDeadlineSeconds": {"type": "integer", "format": "int64", "minimum": 1},
        "backoffLimit": {"type": "integer", "format": "int32", "minimum": 0},
    }


def container() -> Json:
    return {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "name": {"type": "string", "maxLength": 63},
            "image": {"type": "string", "maxLength": LONGEST_TEXT},
        },
        "x-kubernetes-validations": [
            rule("has(self.image) && self.image != ''", "image is missing: every container needs an image")
        ],
    }


def template() -> Json:
    has_main = "has(self.containers) && self.containers.exists(c, has(c.name) && c.name == 'tensorflow')"
    return {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "required": ["spec"],
        "properties": {
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "spec": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"containers": {"type": "array", "maxItems": MOST_CONTAINERS, "items": container()}},
                "x-kubernetes-validations": [
                    rule(
                        has_main,
                        "containers has no container named tensorflow: it decides how an attempt ended",
                    )
                ],
            },
        },
    }


def _any_of_type(kind: str) -> Json:
    if kind == "array":
        return {"type": "array", "items": _any_of_type("object")}
    return {"type": kind, **({"x-kubernetes-preserve-unknown-fields": True} if kind == "object" else {})}


def replica() -> Json:
    return {
        "type": "object",
        "nullable": True,
        "required": ["template"],
        "properties": {
            "replicas": {"type": "integer", "format": "int32", "minimum": 0},
            "restartPolicy": {"type": "string", "enum": ["Always", "OnFailure", "Never", "ExitCode"]},
            "template": template(),
            # Known only to be refused in words: pruning would drop them in silence.
            **{field: _any_of_type(kind) for field, kind in POD_FIELDS.items()},
        },
        "x-kubernetes-validations": [
            rule(
                f"!has(self.{field})", f"{field} belongs to the pod: write it under template.spec", is_on_creation=True
            )
            for field in POD_FIELDS
        ],
    }


def replicas() -> Json:
    one_decider = "!self.exists(k, k.lowerAscii() == 'chief') || !self.exists(k, k.lowerAscii() == 'master')"
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MOST_TYPES,
        "additionalProperties": replica(),
        "x-kubernetes-validations": [
            rule(
                f"self.all(k, k.lowerAscii() in {LOWER_TYPES})",
                f"has an unknown replica type: write one of {TYPES}",
            ),
            rule(
                "self.all(k, self[k] != null)",
                "has a replica type that is null: give it a template, or leave it out",
            ),
            rule(
                "self.all(k, self.exists_one(o, o.lowerAscii() == k.lowerAscii()))",
                "has the same replica type twice in different case: write it once",
            ),
            rule(one_decider, "has a Chief and a Master: at most one of the two may decide the job"),
            rule(
                "self.all(k, !(k.lowerAscii() in ['chief', 'master']) || self[k] == null"
                " || !has(self[k].replicas) || self[k].replicas == 1)",
                "has a Chief or Master whose replicas is not 1: a job has exactly one",
            ),
        ],
    }


def spec(version: str) -> Json:
    managed_by = r"self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9._~!$&()*+,;=:@%/-]+$')"
    manager = "(has({s}.runPolicy) && has({s}.runPolicy.managedBy) ? {s}.runPolicy.managedBy : '')"
    scheduling: Json = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"minAvailable": {"type": "integer", "format": "int32", "minimum": 0}},
    }
    return {
        "type": "object",
        "required": ["tfReplicaSpecs"],
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
            rule(
                f"{manager.format(s='self')} == {manager.format(s='oldSelf')}",
                "runPolicy.managedBy is immutable: make another job to have it managed elsewhere",
            )
        ],
    }


def schema(version: str) -> Json:
    count = "(!has({r}.replicas) ? 1 : {r}.replicas)".format(r="self.spec.tfReplicaSpecs[k]")
    longest = (
        "!has(self.spec) || !has(self.spec.tfReplicaSpecs) || self.spec.tfReplicaSpecs.all(k,"
        " self.spec.tfReplicaSpecs[k] == null"
        f" || {count} < 1 || size(self.metadata.name) + size(k) + 2 + size(string({count} - 1)) <= 63)"
    )
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": spec(version),
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": [
            rule(
                "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name must be a DNS-1035 label: lower-case letters, digits and '-', beginning with a letter,"
                " at most 63 characters",
                is_on_creation=True,
            ),
            rule(
                longest,
                "metadata.name is too long: the name of its last pod (name, type and index) would exceed 63 characters",
                is_on_creation=True,
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
            column("Reason", ".status.conditions[-1:].reason", priority=1),
            column("Restarts", ".status.restarts", priority=1),
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
