"""Patches: merge, JSON, strategic merge, and how each is refused."""

from __future__ import annotations

import pytest

from tests.conformance.api import JSON_PATCH, MERGE, STRATEGIC, Api
from tests.conformance.objects import config_map, pod, service, widget
from tests.conformance.paths import core, widgets


async def test_merge_patch_merges_maps_and_replaces_lists(api: Api, namespace: str) -> None:
    parts = [{"name": "a", "weight": 1}, {"name": "b"}]
    await api.made(widgets(namespace), widget("a", spec={"size": 1, "label": "abc", "parts": parts}))
    patch = {"spec": {"size": 2, "label": None, "parts": [{"name": "c"}]}}
    answer = await api.patch(widgets(namespace, "a"), patch)
    assert answer.status == 200
    assert answer.body["spec"] == {"size": 2, "color": "red", "parts": [{"name": "c"}]}


@pytest.mark.parametrize("kind", [MERGE, JSON_PATCH])
async def test_a_patch_with_a_stale_resource_version_is_a_conflict(api: Api, namespace: str, kind: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}})
    stale = made["metadata"]["resourceVersion"]
    patch: object = {"metadata": {"resourceVersion": stale}, "spec": {"size": 3}}
    if kind == JSON_PATCH:
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": stale},
            {"op": "replace", "path": "/spec/size", "value": 3},
        ]
    answer = await api.patch(widgets(namespace, "a"), patch, kind)
    assert answer.refusal() == (409, "Conflict")


async def test_a_patch_may_name_the_current_resource_version(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"size": 3}}
    answer = await api.patch(widgets(namespace, "a"), patch)
    assert (answer.status, answer.body["spec"]["size"]) == (200, 3)


async def test_a_patch_may_not_change_the_uid(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    patch = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "spec": {"size": 2}}
    answer = await api.patch(widgets(namespace, "a"), patch)
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes()[0][:2] == ("metadata.uid", "FieldValueInvalid")
    assert (await api.get(widgets(namespace, "a"))).body["spec"]["size"] == 1


async def test_a_status_patch_with_another_uid_is_taken(api: Api, namespace: str) -> None:
    """The reason why the controller's status patch tests the uid instead."""
    await api.made(widgets(namespace), widget("a"))
    patch = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"phase": "New"}}
    answer = await api.patch(widgets(namespace, "a", "status"), patch)
    assert (answer.status, answer.body["status"]) == (200, {"phase": "New"})


# --- JSON patch --------------------------------------------------------------------------------------------------


async def test_json_patch_operations(api: Api, namespace: str) -> None:
    made = config_map("a", {"one": "1", "two": "2"}, annotations={"example.com/note": "3", "other": "4"})
    await api.made(core(namespace, "configmaps"), made)
    patch = [
        {"op": "test", "path": "/data/one", "value": "1"},
        {"op": "add", "path": "/data/new", "value": "n"},
        {"op": "replace", "path": "/data/one", "value": "uno"},
        {"op": "remove", "path": "/metadata/annotations/example.com~1note"},
        {"op": "move", "from": "/data/two", "path": "/data/zwei"},
        {"op": "copy", "from": "/data/new", "path": "/data/copy"},
    ]
    answer = await api.patch(core(namespace, "configmaps", "a"), patch, JSON_PATCH)
    assert answer.status == 200
    assert answer.body["data"] == {"one": "uno", "new": "n", "copy": "n", "zwei": "2"}
    assert answer.body["metadata"]["annotations"] == {"other": "4"}


async def test_replacing_what_is_not_there_adds_it(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    patch = [{"op": "replace", "path": "/spec/label", "value": "new"}]
    answer = await api.patch(widgets(namespace, "a"), patch, JSON_PATCH)
    assert (answer.status, answer.body["spec"]["label"]) == (200, "new")


async def test_json_patch_on_lists(api: Api, namespace: str) -> None:
    parts = [{"name": "a"}, {"name": "b"}]
    await api.made(widgets(namespace), widget("a", spec={"size": 1, "parts": parts}))
    patch = [
        {"op": "add", "path": "/spec/parts/0", "value": {"name": "first"}},
        {"op": "remove", "path": "/spec/parts/1"},
        {"op": "add", "path": "/spec/parts/-", "value": {"name": "last"}},
    ]
    answer = await api.patch(widgets(namespace, "a"), patch, JSON_PATCH)
    assert [part["name"] for part in answer.body["spec"]["parts"]] == ["first", "b", "last"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/metadata/uid", "value": "someone-else"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "test", "path": "/spec/absent", "value": 1},
        {"op": "remove", "path": "/spec/absent"},
        {"op": "replace", "path": "/spec/absent/deeper", "value": 1},
        {"op": "add", "path": "/spec/absent/deeper", "value": 1},
    ],
)
async def test_an_operation_that_cannot_be_applied_is_invalid(api: Api, namespace: str, operation: dict) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    patch = [operation, {"op": "replace", "path": "/spec/size", "value": 2}]
    answer = await api.patch(widgets(namespace, "a"), patch, JSON_PATCH)
    assert answer.refusal() == (422, "Invalid")
    assert answer.body["message"] == "the server rejected our request due to an error in our request"
    assert answer.body.get("details") == {}
    assert (await api.get(widgets(namespace, "a"))).body == made


async def test_the_controllers_status_patch(api: Api, namespace: str) -> None:
    """test uid, test resourceVersion, add /status whole: what DESIGN calls one status write."""
    made = await api.made(widgets(namespace), widget("a"))
    metadata = made["metadata"]

    def patch_of(revision: str) -> list[dict]:
        return [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "test", "path": "/metadata/resourceVersion", "value": revision},
            {"op": "add", "path": "/status", "value": {"phase": "New", "conditions": [{"type": "Created"}]}},
        ]

    first = await api.patch(widgets(namespace, "a", "status"), patch_of(metadata["resourceVersion"]), JSON_PATCH)
    assert (first.status, first.body["status"]["phase"]) == (200, "New")
    stale = await api.patch(widgets(namespace, "a", "status"), patch_of(metadata["resourceVersion"]), JSON_PATCH)
    assert stale.refusal() == (422, "Invalid")
    current = first.body["metadata"]["resourceVersion"]
    again = await api.patch(widgets(namespace, "a", "status"), patch_of(current), JSON_PATCH)
    assert (again.status, again.body["metadata"]["resourceVersion"]) == (200, current)


@pytest.mark.parametrize("patch", [{"not": "a list"}, "text", [{"path": "/a"}]])
async def test_a_json_patch_that_is_none(api: Api, namespace: str, patch: object) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.patch(widgets(namespace, "a"), patch, JSON_PATCH)
    assert answer.refusal() == ((422, "Invalid") if isinstance(patch, list) else (400, "BadRequest"))


# --- strategic merge ---------------------------------------------------------------------------------------------


async def test_strategic_merge_merges_lists_by_their_key(api: Api, namespace: str) -> None:
    await api.made(
        core(namespace, "services"), service("a", ports=[{"name": "x", "port": 1}, {"name": "y", "port": 2}])
    )
    patch = {"spec": {"ports": [{"port": 2, "name": "yy"}, {"port": 3, "name": "z"}]}}
    answer = await api.patch(core(namespace, "services", "a"), patch, STRATEGIC)
    ports = {(port["port"], port["name"]) for port in answer.body["spec"]["ports"]}
    assert ports == {(1, "x"), (2, "yy"), (3, "z")}
    patch = {"spec": {"ports": [{"port": 1, "$patch": "delete"}]}}
    answer = await api.patch(core(namespace, "services", "a"), patch, STRATEGIC)
    assert {port["port"] for port in answer.body["spec"]["ports"]} == {2, 3}


async def test_strategic_merge_of_containers_and_conditions(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    patch: dict = {"spec": {"containers": [{"name": "main", "image": "example.com/image:2"}]}}
    answer = await api.patch(core(namespace, "pods", "a"), patch, STRATEGIC)
    assert answer.body["spec"]["containers"][0]["image"] == "example.com/image:2"
    for kind in ("Ready", "Initialized"):
        patch = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        answer = await api.patch(core(namespace, "pods", "a", "status"), patch, STRATEGIC)
    assert {c["type"] for c in answer.body["status"]["conditions"]} == {"Ready", "Initialized"}


async def test_strategic_merge_of_finalizers_adds_and_deletes(api: Api, namespace: str) -> None:
    made = config_map("a", finalizers=["conformance.example.com/a"])
    await api.made(core(namespace, "configmaps"), made)
    patch = {"metadata": {"finalizers": ["conformance.example.com/b"]}}
    answer = await api.patch(core(namespace, "configmaps", "a"), patch, STRATEGIC)
    assert sorted(answer.body["metadata"]["finalizers"]) == ["conformance.example.com/a", "conformance.example.com/b"]
    gone = ["conformance.example.com/a", "conformance.example.com/b"]
    answer = await api.patch(
        core(namespace, "configmaps", "a"), {"metadata": {"$deleteFromPrimitiveList/finalizers": gone}}, STRATEGIC
    )
    assert "finalizers" not in answer.body["metadata"]


async def test_custom_objects_have_no_strategic_merge(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}}, STRATEGIC)
    assert answer.refusal() == (415, "UnsupportedMediaType")


async def test_a_patch_in_an_unknown_form(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.patch(widgets(namespace, "a"), {}, "application/json")
    assert answer.refusal() == (415, "UnsupportedMediaType")
