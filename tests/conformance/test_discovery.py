"""What a server says of itself: versions, groups, resources, schemas, health."""

from __future__ import annotations

import json

import pytest

from tests.conformance.api import Api, until
from tests.conformance.objects import GROUP

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_a_healthy_server_says_ok(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.body) == (200, "ok")


async def test_version_is_1_36(api: Api) -> None:
    answer = await api.get("/version")
    assert (answer.status, answer.body["major"], answer.body["minor"]) == (200, "1", "36")


async def test_api_and_apis_list_groups_in_the_old_form(api: Api) -> None:
    core, groups = await api.get("/api"), await api.get("/apis")
    assert (core.body["kind"], core.body["versions"]) == ("APIVersions", ["v1"])
    assert groups.body["kind"] == "APIGroupList"
    ours = next(group for group in groups.body["groups"] if group["name"] == GROUP)
    assert ours["versions"] == [
        {"groupVersion": f"{GROUP}/v1", "version": "v1"},
        {"groupVersion": f"{GROUP}/v1alpha2", "version": "v1alpha2"},
    ]
    assert ours["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}


async def test_a_group_version_lists_its_resources(api: Api) -> None:
    answer = await api.get(f"/apis/{GROUP}/v1")
    assert answer.body["kind"] == "APIResourceList"
    entries = {entry["name"]: entry for entry in answer.body["resources"]}
    assert set(entries) == {"widgets", "widgets/status"}
    entry = entries["widgets"]
    assert {key: entry[key] for key in ("kind", "namespaced", "singularName", "shortNames", "categories")} == {
        "kind": "Widget",
        "namespaced": True,
        "singularName": "widget",
        "shortNames": ["wdg"],
        "categories": ["all"],
    }
    assert sorted(entry["verbs"]) == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/v1", {"namespaces", "pods", "pods/status", "pods/log", "services", "configmaps", "events"}),
        ("/apis/coordination.k8s.io/v1", {"leases"}),
        ("/apis/apiextensions.k8s.io/v1", {"customresourcedefinitions", "customresourcedefinitions/status"}),
    ],
)
async def test_built_in_resources_are_listed(api: Api, path: str, names: set[str]) -> None:
    answer = await api.get(path)
    assert names <= {entry["name"] for entry in answer.body["resources"]}


@pytest.mark.parametrize(("path", "group"), [("/api", ""), ("/apis", GROUP)])
async def test_aggregated_discovery(api: Api, path: str, group: str) -> None:
    answer = await api.send("GET", path, accept=AGGREGATED)
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    assert answer.body["kind"] == "APIGroupDiscoveryList"
    item = next(item for item in answer.body["items"] if item["metadata"].get("name", "") == group)
    resources = {r["resource"]: r for v in item["versions"] for r in v["resources"]}
    resource = resources["widgets" if group else "pods"]
    assert resource["scope"] == "Namespaced"
    assert "status" in [sub["subresource"] for sub in resource["subresources"]]


async def test_openapi_v3_has_a_document_for_each_group_version(api: Api) -> None:
    async def is_listed() -> bool:
        answer = await api.get("/openapi/v3")
        # the real server calls this text
        index = json.loads(answer.body) if isinstance(answer.body, str) else answer.body
        return {"api/v1", f"apis/{GROUP}/v1", f"apis/{GROUP}/v1alpha2"} <= set(index["paths"])

    await until(is_listed, "the index has all group versions")
    document = await api.get(f"/openapi/v3/apis/{GROUP}/v1")
    kind = {"group": GROUP, "version": "v1", "kind": "Widget"}
    schemas = document.body["components"]["schemas"].values()
    schema = next(s for s in schemas if kind in s.get("x-kubernetes-group-version-kind", []))
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer", "minimum": 1, "maximum": 9}


@pytest.mark.parametrize(
    "path",
    ["/nonsense", "/apis/nothing.example.com/v1/things", f"/apis/{GROUP}/v1/nonsense", "/apis/x.y"],
)
async def test_a_path_that_leads_nowhere_is_404(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert answer.status == 404
    assert "404 page not found" in answer.body


@pytest.mark.parametrize("path", ["/api/v1/nonsense", "/api/v1/namespaces/default/nonsense", "/api/v2"])
async def test_the_core_api_says_it_with_a_status(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert answer.refusal() == (404, "NotFound")
    assert answer.body["message"] == "the server could not find the requested resource"


async def test_the_answer_to_a_wrong_method_is_405(api: Api) -> None:
    answer = await api.post("/api/v1/namespaces/default", {})
    assert answer.refusal() == (405, "MethodNotAllowed")
