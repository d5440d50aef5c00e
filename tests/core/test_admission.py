"""The checks of a TFJob in Python: the words of every case, the bounds that the CRD has too, and any JSON at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fold import admission
from controller.fold.admission import Problem, problems_of
from tests.cluster.admission_cases import CASES, Case, valid, worker
from tests.cluster.admission_corners import corners

CRD = Path(__file__).resolve().parents[2] / "deploy" / "crd" / "tfjob.yaml"
Json = dict[str, Any]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_every_case_is_answered_with_its_field(case: Case) -> None:
    said = "; ".join(map(str, problems_of(case.manifest)))
    assert (case.words is None) == (said == "")
    assert case.words is None or case.words[0] in said


def test_all_problems_are_named_in_the_order_of_the_fields() -> None:
    manifest = valid()
    manifest["spec"]["successPolicy"] = "Any"
    worker(manifest)["replicas"] = -1
    worker(manifest)["template"]["spec"]["containers"] = [{"name": "main"}]
    here = "spec.tfReplicaSpecs.Worker"
    assert problems_of(manifest) == (
        Problem(f"{here}.replicas", "must be 0 or more"),
        Problem(f"{here}.template.spec.containers[0].image", "is missing: every container needs an image"),
        Problem(
            f"{here}.template.spec.containers",
            "has no container named tensorflow: it decides how an attempt ended",
        ),
        Problem("spec.successPolicy", 'must be one of "", AllWorkers'),
    )


def test_a_name_that_is_too_long_is_told_by_how_much() -> None:
    manifest = valid("a" * 60)
    worker(manifest)["replicas"] = 1000
    (problem,) = problems_of(manifest)
    assert problem.path == "metadata.name"
    assert "would have 71 characters, 63 are allowed; shorten the name by 8" in problem.message


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [("1", True), ("1,130,137-143", True), (" 1 , 2 ", True), ("", False), ("1,", False), ("a", False), ("-1", False)],
)
def test_the_annotation_of_retryable_exit_codes(text: str, is_valid: bool) -> None:
    manifest = valid()
    manifest["metadata"]["annotations"] = {"tfjob.kubeflow.org/retryable-exit-codes": text}
    paths = [each.path for each in problems_of(manifest)]
    assert paths == ([] if is_valid else ["metadata.annotations[tfjob.kubeflow.org/retryable-exit-codes]"])


def test_the_bounds_are_those_of_the_crd() -> None:
    for version in yaml.safe_load(CRD.read_text())["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        replica = spec["tfReplicaSpecs"]["additionalProperties"]["properties"]
        containers = replica["template"]["properties"]["spec"]["properties"]["containers"]
        container = containers["items"]["properties"]
        assert set(replica) - {"replicas", "restartPolicy", "template"} == set(admission.POD_FIELDS)
        assert containers["maxItems"] == admission.MOST_CONTAINERS
        assert container["image"]["maxLength"] == admission.LONGEST_IMAGE
        assert container["name"]["maxLength"] == admission.LONGEST_NAME
        assert spec["runPolicy"]["properties"]["managedBy"]["maxLength"] == admission.LONGEST_MANAGER


def test_every_problem_of_every_field_has_a_path_and_words() -> None:
    found = [problem for corner in corners() for problem in problems_of(corner.manifest)]
    assert found
    for problem in found:
        assert problem.path.startswith(("spec", "metadata.")) and problem.message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("Worker", "Chief", "template", "spec", "containers", "name")), inner)
    ),
    max_leaves=12,
)


@given(_JSON)
@settings(max_examples=200, deadline=None)
def test_no_json_stops_it(value: Any) -> None:
    assert isinstance(problems_of(value), tuple)
    assert problems_of({"spec": value})
    assert isinstance(problems_of({"spec": {"tfReplicaSpecs": value}, "metadata": value}), tuple)
