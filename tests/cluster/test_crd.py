"""The CRD on the real API server: versions, defaults, and what admission refuses in which words."""

from __future__ import annotations

import asyncio
import copy
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml

from controller.fold.admission import problems_of
from controller.local.apiserver import LocalApiServer
from tests.cluster.admission_cases import CASES, Case, valid
from tests.cluster.admission_corners import corners
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


def test_the_versions_differ_in_the_default_of_their_rules_only() -> None:
    stored, older = yaml.safe_load(CRD_FILE.read_text())["spec"]["versions"]
    assert (stored["name"], stored["storage"], older["name"], older["storage"]) == ("v1", True, "v1alpha2", False)
    for version in (stored, older):
        rules = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rules"]
        assert rules.pop("default") == version.pop("name")
        del version["storage"]
    assert stored == older


async def test_it_is_accepted_with_all_its_rules(control_plane: ControlPlane, api: Api) -> None:
    crd = await api.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org")
    conditions = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
    assert (conditions["Established"], conditions.get("NonStructuralSchema")) == ("True", None)
    written = yaml.safe_load(CRD_FILE.read_text())["spec"]["versions"]
    assert [each["schema"] for each in crd["spec"]["versions"]] == [each["schema"] for each in written]


@pytest_asyncio.fixture(scope="module")
async def local() -> AsyncIterator[aiohttp.ClientSession]:
    """The local API server with the CRD."""
    server = LocalApiServer()
    await server.start()
    async with aiohttp.ClientSession(server.url) as session:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        async with session.post(crds, json=yaml.safe_load(CRD_FILE.read_text())) as answer:
            assert answer.status == 201

        async def is_served() -> bool:
            async with session.get(f"{TFJOBS}/tfjobs") as found:
                return found.status == 200

        await until(is_served, "the local server serves the CRD")
        yield session
    await server.stop()


async def test_every_field_with_every_value_is_answered_alike(
    control_plane: ControlPlane, api: Api, real_namespace: str, local: aiohttp.ClientSession
) -> None:
    differing = []
    for corner in corners():
        really = await api.status_of("POST", f"{TFJOBS}/namespaces/{real_namespace}/tfjobs?dryRun=All", corner.manifest)
        async with local.post(f"{TFJOBS}/namespaces/default/tfjobs?dryRun=All", json=corner.manifest) as answer:
            locally = answer.status
        problems = problems_of(corner.manifest)
        if (really, locally, bool(problems)) not in ((201, 201, False), (422, 422, True)):
            differing.append((corner.id, really, locally, [str(each) for each in problems]))
    assert differing == []


async def test_an_edit_to_what_is_invalid_is_refused_as_well(
    control_plane: ControlPlane, api: Api, real_namespace: str, local: aiohttp.ClientSession
) -> None:
    accepted = []
    for case in CASES:
        before = valid(case.manifest["metadata"]["name"])
        if case.words is None or problems_of(before):
            continue
        name = before["metadata"]["name"]
        path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
        found = await api.call("POST", path, before)
        really = await api.status_of("PUT", f"{path}/{name}", {**case.manifest, "metadata": found["metadata"]})
        path = f"{TFJOBS}/namespaces/default/tfjobs"
        async with local.post(path, json=before) as answer:
            metadata = (await answer.json())["metadata"]
        async with local.put(f"{path}/{name}", json={**case.manifest, "metadata": metadata}) as answer:
            if (really, answer.status) != (422, 422):
                accepted.append((case.id, really, answer.status))
    assert accepted == []


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
async def test_admission_answers_in_words_and_as_the_python_checks_do(
    case: Case, control_plane: ControlPlane, api: Api, real_namespace: str
) -> None:
    manifest = {**case.manifest, "metadata": {**case.manifest["metadata"], "namespace": real_namespace}}
    # A client-side apply drops nulls before it sends anything; a server-side one sends what is written.
    how = ["--server-side"] if case.id == "a null replica" else []
    code, said = await kubectl(control_plane, "apply", *how, "-f", "-", stdin=json.dumps(manifest))
    problems = problems_of(case.manifest)
    if case.words is None:
        assert (code, problems) == (0, ()), said
        return
    assert code != 0 and problems, said
    assert all(word in said for word in case.words), said
    assert case.words[0] in "; ".join(map(str, problems))


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
    problems = "; ".join(map(str, problems_of(submit["job"])))
    assert (not problems) == expected["accepted"]
    assert all(word in problems for word in expected.get("error", ())), problems


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
        assert code != 0 and "spec.runPolicy.managedBy" in said and "immutable" in said, said


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


def _lived_in(manifest: Json) -> Json:
    """With fields in its templates that the CRD does not know: the API server then sees an object as touched."""
    found = copy.deepcopy(manifest)
    for replica in (found.get("spec") or {}).get("tfReplicaSpecs", {}).values():
        if replica and "template" in replica:
            replica["template"]["metadata"] = {"labels": {"a": "b"}}
            for pod in filter(None, [replica["template"].get("spec")]):
                pod["securityContext"] = {"runAsUser": 1000}
                pod["volumes"] = [{"name": "a", "emptyDir": {}}]
                for container in pod.get("containers", ()):
                    container["resources"] = {"limits": {"cpu": "1"}}
    return found


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
        case._replace(manifest=_lived_in(case.manifest))
        for case in CASES
        if case.words is not None and isinstance(case.manifest.get("spec", {}).get("tfReplicaSpecs", {}), dict)
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
        relabelled = {"metadata": {"labels": {"a": "b"}}}
        written = await api.try_call("PATCH", f"{path}/{name}", relabelled, "application/merge-patch+json")
        if "status" not in written or written["status"] != patch["status"]:
            without.append((case.id, written.get("message")))
    assert without == []
    unknown = next(case for case in refused if case.id == "an unknown replica type").manifest
    worse = {"spec": {"tfReplicaSpecs": {"Other": unknown["spec"]["tfReplicaSpecs"]["Worker"]}}}
    answer = await api.try_call("PATCH", f"{path}/{unknown['metadata']['name']}", worse, "application/merge-patch+json")
    assert "is no replica type" in answer["message"]
