"""Manifests that admission refuses, with words that name the field, and some at the edge that it accepts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

Json = dict[str, Any]
MAIN = {"name": "tensorflow", "image": "example/train:1"}


class Case(NamedTuple):
    """`words` stand in the server's refusal; None: it accepts."""

    id: str
    manifest: Json
    words: tuple[str, ...] | None


def valid(name: str = "a") -> Json:
    """A TFJob that is accepted."""
    replica = {
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"Worker": replica}},
    }


def worker(manifest: Json) -> Json:
    found: Json = manifest["spec"]["tfReplicaSpecs"]["Worker"]
    return found


def add(manifest: Json, kind: str, **changes: Any) -> None:
    manifest["spec"]["tfReplicaSpecs"][kind] = {**copy.deepcopy(worker(manifest)), **changes}


def policy(**values: Any) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        manifest["spec"]["runPolicy"] = values

    return change


def spec(**values: Any) -> Callable[[Json], None]:
    return lambda manifest: manifest["spec"].update(values)


def of_worker(**values: Any) -> Callable[[Json], None]:
    return lambda manifest: worker(manifest).update(values)


def containers(*found: Json) -> Callable[[Json], None]:
    return lambda manifest: worker(manifest)["template"]["spec"].update(containers=list(found))


def name(text: str) -> Callable[[Json], None]:
    return lambda manifest: manifest["metadata"].update(name=text)


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        for each in changes:
            each(manifest)

    return change


_TABLE: list[tuple[str, Callable[[Json], None], tuple[str, ...] | None]] = [
    ("a plain job", lambda m: None, None),
    ("an unknown replica type", lambda m: add(m, "Wroker"), ("spec.tfReplicaSpecs", "Wroker", "Chief, Master")),
    ("a Chief and a master", lambda m: (add(m, "Chief"), add(m, "master"))[0], ("spec.tfReplicaSpecs", "at most one")),
    ("a type twice in different case", lambda m: add(m, "WORKER"), ("spec.tfReplicaSpecs", "WORKER", "write it once")),
    (
        "no container named tensorflow",
        containers({"name": "tf", "image": "x"}),
        ("Worker", "template.spec", "tensorflow"),
    ),
    ("an empty list of containers", containers(), ("Worker", "tensorflow")),
    ("no containers", lambda m: worker(m)["template"]["spec"].pop("containers"), ("Worker", "tensorflow")),
    ("a container without image", containers({"name": "tensorflow"}), ("containers[0]", "image")),
    ("a sidecar without image", containers(MAIN, {"name": "side"}), ("containers[1]", "image")),
    ("an empty image", containers({"name": "tensorflow", "image": ""}), ("containers[0]", "image")),
    ("no template", lambda m: worker(m).pop("template"), ("Worker", "template")),
    ("a template without spec", of_worker(template={}), ("Worker", "template")),
    ("negative replicas", of_worker(replicas=-1), ("Worker.replicas",)),
    ("replicas as text", of_worker(replicas="2"), ("Worker", "replicas", "integer")),
    ("no Chief", lambda m: add(m, "Chief", replicas=0), ("spec.tfReplicaSpecs", "Chief", "replicas must be 1")),
    ("two Masters", lambda m: add(m, "Master", replicas=2), ("spec.tfReplicaSpecs", "Master", "replicas must be 1")),
    ("no PS", lambda m: add(m, "PS", replicas=0), None),
    ("a null replica", lambda m: m["spec"]["tfReplicaSpecs"].update(PS=None), ("spec.tfReplicaSpecs", "PS", "null")),
    ("no replica types", spec(tfReplicaSpecs={}), ("spec.tfReplicaSpecs", "name at least one")),
    ("no tfReplicaSpecs", lambda m: m["spec"].pop("tfReplicaSpecs"), ("spec.tfReplicaSpecs",)),
    ("no spec", lambda m: m.pop("spec"), ("spec",)),
    ("a list of replicas", spec(tfReplicaSpecs=[]), ("spec.tfReplicaSpecs",)),
    ("an unknown restartPolicy", of_worker(restartPolicy="Sometimes"), ("Worker.restartPolicy", "OnFailure")),
    ("an unknown cleanPodPolicy", policy(cleanPodPolicy="Some"), ("spec.runPolicy.cleanPodPolicy", "Running")),
    ("an unknown flat cleanPodPolicy", spec(cleanPodPolicy="Some"), ("spec.cleanPodPolicy", "Running")),
    ("an unknown successPolicy", spec(successPolicy="Any"), ("spec.successPolicy", "AllWorkers")),
    ("a deadline of 0", policy(activeDeadlineSeconds=0), ("spec.runPolicy.activeDeadlineSeconds", "1")),
    ("a negative backoffLimit", policy(backoffLimit=-1), ("spec.runPolicy.backoffLimit",)),
    ("a backoffLimit of 0", policy(backoffLimit=0), None),
    ("a negative flat TTL", spec(ttlSecondsAfterFinished=-1), ("spec.ttlSecondsAfterFinished",)),
    ("a managedBy without domain", policy(managedBy="kueue"), ("spec.runPolicy.managedBy", "domain")),
    ("managed by another", policy(managedBy="kueue.x-k8s.io/multikueue"), None),
    ("an empty managedBy", policy(managedBy=""), None),
    ("suspend as text", policy(suspend="yes"), ("spec.runPolicy.suspend", "boolean")),
    ("enableDynamicWorker as text", spec(enableDynamicWorker="yes"), ("spec.enableDynamicWorker", "boolean")),
    ("containers under the replica", of_worker(containers=[MAIN]), ("Worker", "containers", "template.spec")),
    ("a pod spec under the replica", of_worker(spec={"containers": [MAIN]}), ("Worker", "spec", "template.spec")),
    ("metadata under the replica", of_worker(metadata={"labels": {}}), ("Worker", "metadata", "template.metadata")),
    ("hostNetwork under the replica", of_worker(hostNetwork=True), ("Worker", "hostNetwork", "template.spec")),
    ("volumes under the replica", of_worker(volumes=[{"name": "a"}]), ("Worker", "volumes", "template.spec")),
    ("a name whose pod fits exactly", name("a" * 54), None),
    ("a name whose pod is too long", name("a" * 55), ("metadata.name", "63")),
    ("a name too long for its last index", both(name("a" * 54), of_worker(replicas=11)), ("metadata.name", "63")),
    ("a negative minAvailable", policy(schedulingPolicy={"minAvailable": -1}), ("schedulingPolicy.minAvailable",)),
    ("a name with a dot", name("a.b"), ("metadata.name", "DNS-1035")),
    ("a name that begins with a digit", name("1a"), ("metadata.name", "DNS-1035")),
]


def _case(number: int, row: tuple[str, Callable[[Json], None], tuple[str, ...] | None]) -> Case:
    identity, change, words = row
    manifest = valid(f"case-{number}")
    change(manifest)
    return Case(identity, manifest, words)


CASES = [_case(number, row) for number, row in enumerate(_TABLE)]
