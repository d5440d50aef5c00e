"""Server-side apply and the managers of fields."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.api import APPLY, Api
from tests.conformance.objects import config_map, service, widget
from tests.conformance.paths import core, widgets


async def applied(api: Api, path: str, body: dict[str, Any], manager: str = "first", **query: Any) -> Any:
    return await api.patch(path, body, APPLY, fieldManager=manager, **query)


def entry_of(obj: dict[str, Any], manager: str) -> dict[str, Any]:
    return next(entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == manager)


async def test_apply_creates_and_then_changes(api: Api, namespace: str) -> None:
    body = widget("a", spec={"size": 1, "label": "abc"})
    made = await applied(api, widgets(namespace, "a"), body)
    assert made.status == 201
    assert made.body["spec"] == {"size": 1, "label": "abc", "color": "red"}
    entry = entry_of(made.body, "first")
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", body["apiVersion"], "FieldsV1")
    assert entry["fieldsV1"] == {"f:spec": {"f:label": {}, "f:size": {}}}
    changed = await applied(api, widgets(namespace, "a"), widget("a", spec={"size": 2}))
    assert changed.status == 200
    assert changed.body["spec"] == {"size": 2, "color": "red"}
    assert changed.body["metadata"]["generation"] == 2


async def test_apply_twice_changes_nothing(api: Api, namespace: str) -> None:
    first = await applied(api, widgets(namespace, "a"), widget("a"))
    second = await applied(api, widgets(namespace, "a"), widget("a"))
    assert (second.status, second.body) == (200, first.body)


async def test_two_managers_share_an_object(api: Api, namespace: str) -> None:
    await applied(api, core(namespace, "configmaps", "a"), config_map("a", {"one": "1"}))
    second = await applied(api, core(namespace, "configmaps", "a"), config_map("a", {"two": "2"}), "second")
    assert second.body["data"] == {"one": "1", "two": "2"}
    left = await applied(api, core(namespace, "configmaps", "a"), config_map("a", {"three": "3"}))
    assert left.body["data"] == {"two": "2", "three": "3"}


async def test_another_managers_field_is_a_conflict_unless_forced(api: Api, namespace: str) -> None:
    await applied(api, widgets(namespace, "a"), widget("a", spec={"size": 1}))
    other = widget("a", spec={"size": 2})
    refused = await applied(api, widgets(namespace, "a"), other, "second")
    assert refused.refusal() == (409, "Conflict")
    assert refused.causes() == [(".spec.size", "FieldManagerConflict", 'conflict with "first"')]
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "first": .spec.size'
    forced = await applied(api, widgets(namespace, "a"), other, "second", force="true")
    assert (forced.status, forced.body["spec"]["size"]) == (200, 2)
    assert "f:size" not in json.dumps([e for e in forced.body["metadata"]["managedFields"] if e["manager"] == "first"])


async def test_an_update_takes_fields_over(api: Api, namespace: str) -> None:
    made = await api.post(widgets(namespace), widget("a"), fieldManager="maker")
    entry = entry_of(made.body, "maker")
    assert (entry["operation"], entry["fieldsV1"]["f:spec"]["f:size"]) == ("Update", {})
    changed = await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}}, fieldManager="changer")
    assert entry_of(changed.body, "changer")["fieldsV1"] == {"f:spec": {"f:size": {}}}
    refused = await applied(api, widgets(namespace, "a"), widget("a", spec={"size": 3}))
    assert refused.refusal() == (409, "Conflict")
    assert 'conflict with "changer"' in refused.body["message"]


async def test_apply_merges_lists_by_key(api: Api, namespace: str) -> None:
    one = widget("a", spec={"size": 1, "parts": [{"name": "x", "weight": 1}]})
    await applied(api, widgets(namespace, "a"), one)
    two = widget("a", spec={"size": 1, "parts": [{"name": "y", "weight": 2}]})
    both = await applied(api, widgets(namespace, "a"), two, "second")
    assert {part["name"]: part["weight"] for part in both.body["spec"]["parts"]} == {"x": 1, "y": 2}
    none = widget("a", spec={"size": 1})
    left = await applied(api, widgets(namespace, "a"), none)
    assert left.body["spec"]["parts"] == [{"name": "y", "weight": 2}]


async def test_apply_of_a_service_keeps_its_ports_apart(api: Api, namespace: str) -> None:
    path = core(namespace, "services", "a")
    assert (await applied(api, path, service("a"))).status == 201
    more = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": []}}
    more["spec"]["ports"] = [{"name": "more", "port": 80, "protocol": "TCP"}]
    answer = await applied(api, path, more, "second")
    assert answer.status == 200, answer.body
    assert {port["port"] for port in answer.body["spec"]["ports"]} == {2222, 80}


async def test_apply_of_status(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    body = widget("a", spec={}) | {"status": {"phase": "New"}}
    del body["spec"]
    answer = await applied(api, widgets(namespace, "a", "status"), body)
    assert (answer.status, answer.body["status"]) == (200, {"phase": "New"})
    assert entry_of(answer.body, "first")["subresource"] == "status"


async def test_apply_needs_a_manager(api: Api, namespace: str) -> None:
    answer = await api.patch(widgets(namespace, "a"), widget("a"), APPLY)
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes() == [("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")]


async def test_force_is_for_apply_only(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}}, force="true")
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes()[0][0] == "force"


async def test_apply_reads_yaml(api: Api, namespace: str) -> None:
    raw = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n"
    answer = await api.patch(core(namespace, "configmaps", "a"), raw, APPLY, fieldManager="first")
    assert (answer.status, answer.body["data"]) == (201, {"x": "1"})
