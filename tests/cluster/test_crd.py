"""The CRD on the real API server: versions, defaults, and what admission refuses in which words."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.fold.admission import problems_of
from tests.cluster.admission_cases import CASES, Case, valid
from tests.cluster.harness import CRD_FILE, TFJOBS, Api, install_crd, until
from tests.controlplane.kubectl import kubectl_path
from tests.controlplane.server import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
GIVEN = next(
    each
    for each in (ROOT.parent / "shared" / "scenarios" / "given", ROOT / "tests" / "scenarios" / "given")
    if each.is_dir()
)
Json = dict[str, Any]


async def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> tuple[int, str]:
    """(exit code, everything that it said)."""
    process = await asyncio.create_subprocess_exec(
        kubectl_path(), "--kubeconfig", str(plane.kubeconfig), *arguments,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return process.returncode, out.decode()


def test_the_file_is_what_its_source_makes() -> None:
    made = subprocess.run(
        [sys.executable, str(CRD_FILE.with_name("make.py"))], check=True, capture_output=True, text=True
    )
    assert made.stdout == CRD_FILE.read_text()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
async def test_admission_answers_in_words_and_as_the_python_checks_do(
    case: Case, control_plane: ControlPlane, api: Api, real_namespace: str
) -> None:
    manifest = {**case.manifest, "metadata": {**case.manifest["metadata"], "namespace": real_namespace}}
    # A client-side apply drops nulls before it sends anything; create sends what is written.
    code, said = await kubectl(control_plane, "create", "-f", "-", stdin=json.dumps(manifest))
    problems = problems_of(case.manifest)
    if case.words is None:
        assert (code, problems) == (0, ()), said
        return
    assert code != 0 and problems, said
    assert all(word in said for word in case.words), said
    assert any(case.words[0].split(".")[-1] in str(problem) for problem in problems), problems


def _submits() -> list[tuple[str, Json]]:
    found = []
    for file in sorted(GIVEN.glob("*.yaml")):
        for step in yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["steps"]:
            if "submit" in step:
                found.append((file.stem, step["submit"]))
    return found


SUBMITS = _submits()


@pytest.mark.parametrize("submit", [each for _, each in SUBMITS], ids=[f"{i}-{s}" for i, (s, _) in enumerate(SUBMITS)])
async def test_what_the_scenarios_submit(
    submit: Json, control_plane: ControlPlane, api: Api, real_namespace: str
) -> None:
    manifest = {**submit["job"], "metadata": {**submit["job"]["metadata"], "namespace": real_namespace}}
    # Strict validation would speak of the unknown fields first.
    code, said = await kubectl(control_plane, "create", "--validate=ignore", "-f", "-", stdin=json.dumps(manifest))
    expected = submit["expect"]
    assert (code == 0) == expected["accepted"], said
    assert all(word in said for word in expected.get("error", ())), said
    assert (not problems_of(submit["job"])) == expected["accepted"]


async def test_a_version_s_default_survives_every_way_of_writing(
    control_plane: ControlPlane, api: Api, real_namespace: str
) -> None:
    for version in ("v1", "v1alpha2"):
        manifest = {**valid(f"of-{version}"), "apiVersion": f"kubeflow.org/{version}"}
        path = f"/apis/kubeflow.org/{version}/namespaces/{real_namespace}/tfjobs"
        await api.call("POST", path, manifest)
        other = "v1alpha2" if version == "v1" else "v1"
        edited = f"/apis/kubeflow.org/{other}/namespaces/{real_namespace}/tfjobs/of-{version}"
        found = await api.call("GET", edited)
        assert found["spec"]["rules"] == version
        await api.call("PATCH", edited, {"spec": {"successPolicy": "AllWorkers"}}, "application/merge-patch+json")
        found = await api.call("GET", edited)
        await api.call("PUT", edited, found)
        applied = {
            "apiVersion": f"kubeflow.org/{other}",
            "kind": "TFJob",
            "metadata": {"name": f"of-{version}"},
            "spec": {"runPolicy": {"backoffLimit": 3}, "tfReplicaSpecs": manifest["spec"]["tfReplicaSpecs"]},
        }
        await api.call("PATCH", f"{edited}?fieldManager=someone&force=true", applied, "application/apply-patch+yaml")
        found = await api.call("GET", f"{TFJOBS}/namespaces/{real_namespace}/tfjobs/of-{version}")
        assert (found["spec"]["rules"], found["spec"]["runPolicy"]["backoffLimit"]) == (version, 3)


async def test_unknown_fields_are_refused_where_a_client_asks_for_it_and_flat_policies_are_kept(
    control_plane: ControlPlane, api: Api, real_namespace: str
) -> None:
    manifest = valid("unknown")
    manifest["metadata"]["namespace"] = real_namespace
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["restartPolcy"] = "Never"
    code, said = await kubectl(control_plane, "apply", "-f", "-", stdin=json.dumps(manifest))
    assert code != 0 and 'unknown field "spec.tfReplicaSpecs.Worker.restartPolcy"' in said
    flat = valid("flat")
    flat["metadata"]["namespace"] = real_namespace
    flat["spec"] |= {
        "cleanPodPolicy": "All", "backoffLimit": 2, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5,
    }  # fmt: skip
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    await api.call("POST", path, flat)
    kept = (await api.call("GET", f"{path}/flat"))["spec"]
    assert {key: kept[key] for key in flat["spec"]} == flat["spec"]


async def test_managed_by_cannot_be_changed(control_plane: ControlPlane, api: Api, real_namespace: str) -> None:
    manifest = valid("managed")
    manifest["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    await api.call("POST", f"{TFJOBS}/namespaces/{real_namespace}/tfjobs", manifest)
    for patch in ({"managedBy": "kubeflow.org/training-operator"}, {"managedBy": None}, None):
        body = json.dumps({"spec": {"runPolicy": patch}})
        code, said = await kubectl(
            control_plane, "patch", "tfjob", "managed", "-n", real_namespace, "--type=merge", "-p", body
        )
        assert code != 0 and "immutable" in said, said


async def test_the_columns_of_kubectl_get(control_plane: ControlPlane, api: Api, real_namespace: str) -> None:
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    await api.call("POST", path, valid("columns"))
    status = {"status": {"conditions": [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}]}}
    await api.call("PATCH", f"{path}/columns/status", status, "application/merge-patch+json")
    code, said = await kubectl(control_plane, "get", "tfj", "-n", real_namespace)
    assert code == 0
    title, row = said.splitlines()
    assert title.split() == ["NAME", "STATE", "AGE"] and row.split()[:2] == ["columns", "Running"]
    code, said = await kubectl(control_plane, "get", "all", "-n", real_namespace)
    assert code == 0 and "tfjob.kubeflow.org/columns" in said


async def test_an_older_invalid_object_of_every_kind_can_have_its_status_written(
    control_plane: ControlPlane, api: Api, real_namespace: str
) -> None:
    lax = yaml.safe_load(CRD_FILE.read_text())
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for version in lax["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = anything
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org"
    force = "?fieldManager=tests&force=true"
    # No released CRD let anything but an object of replica types through.
    refused = [
        case
        for case in CASES
        if case.words is not None
        and isinstance(case.manifest.get("spec", {}).get("tfReplicaSpecs", {}), dict)
        and "spec" in case.manifest
    ]
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    await api.call("PATCH", crd + force, lax, "application/apply-patch+yaml")

    async def takes_anything() -> bool:
        return await api.status_of("POST", f"{path}?dryRun=All", refused[0].manifest) == 201

    await until(takes_anything, "the lax CRD is in force")
    for case in refused:
        await api.call("POST", path, case.manifest)
    await install_crd(api)

    async def is_strict() -> bool:
        probe = {**refused[0].manifest, "metadata": {"name": "probe"}}
        return await api.status_of("POST", f"{path}?dryRun=All", probe) == 422

    await until(is_strict, "the strict CRD is in force")
    without = []
    for case in refused:
        name = case.manifest["metadata"]["name"]
        patch = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "InvalidTFJobSpec"}]}}
        written = await api.try_call("PATCH", f"{path}/{name}/status", patch, "application/merge-patch+json")
        if "status" not in written or written["status"] != patch["status"]:
            without.append((case.id, written.get("message")))
    assert without == []
