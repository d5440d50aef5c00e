"""PodGroup manifests, patches of those that are there, and what they ask for (RULES §10)."""

from __future__ import annotations

from typing import Any

import pytest

from controller.act.groups import group_manifest, group_patch, min_resources, priority_classes
from controller.act.quantities import total_of
from controller.model.settings import GangScheduler

Json = dict[str, Any]
VOLCANO, PLUGINS = GangScheduler.VOLCANO, GangScheduler.SCHEDULER_PLUGINS


def replica(count: int | None, priority: str | None = None, *resources: Json) -> Json:
    containers = [{"name": f"c{number}", "resources": each} for number, each in enumerate(resources)]
    spec: Json = {"containers": containers, "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "9"}}}]}
    if priority:
        spec["priorityClassName"] = priority
    return {**({"replicas": count} if count is not None else {}), "template": {"spec": spec}}


def tfjob(replicas: Json | None = None, annotations: Json | None = None, **policy: Any) -> Json:
    metadata: Json = {"name": "j", "namespace": "ns", "uid": "u"}
    if annotations:
        metadata["annotations"] = annotations
    found = replicas or {"Worker": replica(2, None, {"requests": {"cpu": "500m"}})}
    return {
        "apiVersion": "kubeflow.org/v1",
        "metadata": metadata,
        "spec": {"tfReplicaSpecs": found, "runPolicy": {"schedulingPolicy": policy}},
    }


def test_volcano_s_manifest_whole() -> None:
    job = tfjob(annotations={"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}, priorityClass="high")
    assert group_manifest(job, VOLCANO, 2, {}) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "labels": {
                "training.kubeflow.org/job-name": "j",
                "training.kubeflow.org/operator-name": "tfjob-controller",
                "tfjob.kubeflow.org/job-uid": "u",
            },
            "annotations": {"a": "b"},
            "ownerReferences": [
                {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "TFJob",
                    "name": "j",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"minMember": 2, "queue": "default", "priorityClassName": "high", "minResources": {"cpu": "1"}},
    }


def test_scheduler_plugins_has_a_timeout_and_no_queue() -> None:
    job = tfjob(queue="q", priorityClass="high", scheduleTimeoutSeconds=0, minResources={"cpu": "7"})
    found = group_manifest(job, PLUGINS, 2, {})
    assert found["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert found["spec"] == {"minMember": 2, "scheduleTimeoutSeconds": 0, "minResources": {"cpu": "7"}}


LOW_HIGH = {"low": 1, "high": 9}
TWO_TYPES = {
    "PS": replica(2, "low", {"requests": {"cpu": "1"}}),
    "Worker": replica(2, "high", {"requests": {"cpu": "10"}}),
}


@pytest.mark.parametrize(
    ("replicas", "members", "priorities", "expected"),
    [
        (TWO_TYPES, 3, LOW_HIGH, {"cpu": "21"}),
        (TWO_TYPES, 3, {"low": 9, "high": 1}, {"cpu": "12"}),
        (TWO_TYPES, 3, {"low": -5}, {"cpu": "21"}),
        (TWO_TYPES, 1, {}, {"cpu": "1"}),
        (TWO_TYPES, 9, LOW_HIGH, {"cpu": "22"}),
        (TWO_TYPES, 0, LOW_HIGH, {}),
        ({"Worker": replica(None, None, {"requests": {"cpu": "1"}}, {"limits": {"cpu": "2", "memory": "1Gi"}})}, 1, {},
         {"cpu": "3", "memory": "1Gi"}),
        ({"Worker": replica(1, None, {"requests": {}, "limits": {"cpu": "2"}})}, 1, {}, {}),
        ({"Worker": replica(2, None, {"requests": {"nvidia.com/gpu": 4}})}, 2, {}, {"nvidia.com/gpu": "8"}),
    ],
)  # fmt: skip
def test_min_resources(replicas: Json, members: int, priorities: dict[str, int], expected: Json) -> None:
    assert min_resources(tfjob(replicas), members, priorities) == expected


def test_weakness_29_priority_classes_are_read_where_they_decide() -> None:
    assert priority_classes(tfjob(TWO_TYPES), 3) == {"low", "high"}
    assert priority_classes(tfjob(TWO_TYPES), 4) == set(), "all pods are counted, whatever their order"
    assert priority_classes(tfjob(TWO_TYPES, minResources={"cpu": "1"}), 3) == set()
    one = {"PS": replica(2, "low"), "Worker": replica(2, "low")}
    assert priority_classes(tfjob(one), 3) == set()
    assert priority_classes(tfjob({"PS": replica(2, "low"), "Worker": replica(2)}), 3) == {"low"}


def test_weakness_29_a_patch_has_what_differs_and_none_is_made_when_nothing_does() -> None:
    wanted = group_manifest(tfjob(annotations={"a": "b"}), VOLCANO, 2, {})
    found = {**wanted, "metadata": {**wanted["metadata"], "uid": "g"}, "status": {"phase": "Inqueue"}}
    assert group_patch(found, wanted) is None
    moved = {**found, "spec": {**wanted["spec"], "queue": "other", "webhook": "adds"}}
    assert group_patch(moved, wanted) is None, "its queue wins"
    asked = {**wanted, "spec": {"minMember": 3, "queue": "default", "minResources": {"memory": "1Gi"}}}
    assert group_patch({**found, "spec": {**found["spec"], "priorityClassName": "old"}}, asked) == {
        "metadata": {"uid": "g"},
        "spec": {"minMember": 3, "priorityClassName": None, "minResources": {"cpu": None, "memory": "1Gi"}},
    }
    bare = {"metadata": {"name": "j", "uid": "g"}, "spec": wanted["spec"]}
    assert group_patch(bare, wanted) == {
        "metadata": {"labels": wanted["metadata"]["labels"], "annotations": {"a": "b"}, "uid": "g"}
    }


@pytest.mark.parametrize(
    ("amounts", "total"),
    [
        (["500m", "1"], "1500m"), (["0.5", "500m"], "1"), (["1Gi", "512Mi"], "1536Mi"), (["1Gi", "1Gi"], "2Gi"),
        (["1Gi", "1G"], "2073741824"), (["0", "1Gi"], "1Gi"), ([2, 3], "5"), ([0.25, "0.5"], "750m"), (["2e3"], "2000"),
        (["1E"], "1000000000000000000"), (["1.5Gi"], "1536Mi"), (["100u", "1n"], "100001n"), (["0.1n"], "1n"),
        ([], "0"), (["nonsense", "1"], "1"), (["3k"], "3000"), (["-1", "2"], "1"), (["1Ki", "1"], "1025"),
    ],
)  # fmt: skip
def test_amounts_are_added_up(amounts: list[object], total: str) -> None:
    assert total_of(amounts) == total
