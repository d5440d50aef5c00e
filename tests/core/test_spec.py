"""A spec as decisions read it: defaults, cases, places, and what is no value (RULES §1, §6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.fold.spec import RestartPolicy, rules_of, spec_of
from controller.model.objects import TFJob
from controller.model.replicas import ReplicaType, SlotId
from tests.core.words import job


def test_replicas_and_policy_have_defaults_and_keys_may_have_any_case() -> None:
    spec = spec_of(job({"WORKER": {}, "ps": {"replicas": 2, "restartPolicy": "ExitCode"}}))
    assert [(each.type, each.key, each.count, each.restart_policy) for each in spec.replicas] == [
        (ReplicaType.PS, "ps", 2, RestartPolicy.EXIT_CODE), (ReplicaType.WORKER, "WORKER", 1, RestartPolicy.NEVER),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("replicas", "decider"),
    [
        ({"Chief": {}, "Worker": {}}, SlotId(ReplicaType.CHIEF, 0)),
        ({"master": {}, "Worker": {}}, SlotId(ReplicaType.MASTER, 0)),
        ({"Worker": {"replicas": 3}, "PS": {}}, SlotId(ReplicaType.WORKER, 0)),
        ({"Worker": {"replicas": 0}, "PS": {}}, None),
        ({"PS": {"replicas": 2}}, None),
    ],
)
def test_the_decider(replicas: dict[str, Any], decider: SlotId | None) -> None:
    assert spec_of(job(replicas)).decider() == decider


def test_policies_are_read_from_both_places_and_run_policy_wins() -> None:
    flat = spec_of(job(backoffLimit=1, activeDeadlineSeconds=9, ttlSecondsAfterFinished=3, cleanPodPolicy="All"))
    assert (flat.backoff_limit, flat.deadline_seconds, flat.ttl_seconds, flat.clean_pod_policy) == (1, 9, 3, "All")
    both = spec_of(job(backoffLimit=1, runPolicy={"backoffLimit": 0}))
    assert both.backoff_limit == 0


def test_what_is_no_allowed_value_is_as_if_it_were_not_there() -> None:
    spec = spec_of(job(ttlSecondsAfterFinished=-1, activeDeadlineSeconds=0, backoffLimit=-3, cleanPodPolicy="Some"))
    assert (spec.ttl_seconds, spec.deadline_seconds, spec.backoff_limit, spec.clean_pod_policy) == (None,) * 4
    assert spec_of(job(backoffLimit=True, ttlSecondsAfterFinished="5")).ttl_seconds is None


@pytest.mark.parametrize("spec", [None, {}, {"tfReplicaSpecs": None}, {"tfReplicaSpecs": [], "runPolicy": 3}])
def test_any_shape_can_be_read(spec: Any) -> None:
    assert spec_of(msgspec.structs.replace(job(), spec=spec)).replicas == ()


@pytest.mark.parametrize(
    ("annotation", "left", "rules"),
    [
        (None, None, "v1"), (None, "v1alpha2", "v1alpha2"), ("kubeflow.org/v1alpha2", "v1", "v1alpha2"),
        ("v1", "v1alpha2", "v1"), ("v2", "v1alpha2", "v1alpha2"),
    ],
)  # fmt: skip
def test_the_policy_set(annotation: str | None, left: str | None, rules: str) -> None:
    found: TFJob = job(rules=left or "")
    if annotation:
        metadata = msgspec.structs.replace(found.metadata, annotations={"tfjob.kubeflow.org/api-version": annotation})
        found = msgspec.structs.replace(found, metadata=metadata)
    assert rules_of(found) == rules


@pytest.mark.parametrize(
    ("manager", "is_left_alone"),
    [(None, False), ("", False), ("kubeflow.org/training-operator", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_whose_job_it_is(manager: str | None, is_left_alone: bool) -> None:
    assert spec_of(job(runPolicy={"managedBy": manager})).is_left_alone() == is_left_alone
