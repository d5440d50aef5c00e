"""CustomResourceDefinitions and their objects: registration, schemas, versions, validation words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.api import Api, until
from tests.conformance.conftest import install_crd
from tests.conformance.objects import CRDS, GROUP, WIDGETS_CRD, small_crd, widget
from tests.conformance.paths import widgets


async def test_a_crd_is_established(api: Api) -> None:
    crd = (await api.get(f"{CRDS}/{WIDGETS_CRD}")).body
    conditions = {c["type"]: (c["status"], c["reason"]) for c in crd["status"]["conditions"]}
    assert conditions == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["status"]["acceptedNames"]["plural"] == "widgets"
    assert crd["spec"]["names"]["singular"] == "widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["metadata"]["generation"] == 1


async def test_a_crd_serves_its_objects_until_it_goes(api: Api) -> None:
    path = f"/apis/{GROUP}/v1/gadgets"
    assert (await api.get(path)).status == 404
    await install_crd(api, small_crd("gadgets", "Gadget", "Cluster"))
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "a"}, "anything": {"goes": [1]}}
    made = await api.made(path, body)
    assert made["anything"] == {"goes": [1]}
    assert "namespace" not in made["metadata"]
    assert (await api.get(f"/apis/{GROUP}/v1/namespaces/default/gadgets")).status == 404
    assert (await api.get(f"{path}/a/status")).status == 404
    await api.delete(f"{CRDS}/gadgets.{GROUP}")
    await api.gone(f"{CRDS}/gadgets.{GROUP}")
    await api.gone(path)
    await install_crd(api, small_crd("gadgets", "Gadget", "Cluster"))
    assert (await api.get(path)).body["items"] == []
    await api.delete(f"{CRDS}/gadgets.{GROUP}")
    await api.gone(f"{CRDS}/gadgets.{GROUP}")


async def test_without_a_status_subresource_generation_counts_all(api: Api, namespace: str) -> None:
    await install_crd(api, small_crd("plains", "Plain"))
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/plains"
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Plain", "metadata": {"name": "a"}, "status": {"phase": "New"}}
    made = await api.made(path, body)
    assert made["status"] == {"phase": "New"}
    changed = await api.patch(f"{path}/a", {"status": {"phase": "Old"}})
    assert (changed.body["status"], changed.body["metadata"]["generation"]) == ({"phase": "Old"}, 2)
    await api.delete(f"{CRDS}/plains.{GROUP}")


async def test_a_crd_outlives_its_objects(api: Api, namespace: str) -> None:
    await install_crd(api, small_crd("helds", "Held"))
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/helds"
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Held", "metadata": {"name": "a", "finalizers": ["a.example.com/b"]}}
    await api.made(path, body)
    answer = await api.delete(f"{CRDS}/helds.{GROUP}")
    assert answer.status == 200
    assert answer.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert "Terminating" in [condition["type"] for condition in answer.body["status"]["conditions"]]
    await api.marked(f"{path}/a")
    refused = await api.post(path, body | {"metadata": {"name": "b"}})
    assert refused.refusal() == (403, "Forbidden")
    await api.patch(f"{path}/a", {"metadata": {"finalizers": None}})
    await api.gone(f"{CRDS}/helds.{GROUP}")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Somewhere"}, "spec.scope"),
        ({"conversion": {"strategy": "Other"}}, "spec.conversion.strategy"),
        ({"versions": []}, "spec.versions"),
        ({"names": {"plural": "brokens"}}, "spec.names.kind"),
        ({"group": "other.example.com"}, "metadata.name"),
    ],
)
async def test_crds_that_are_refused(api: Api, change: dict[str, Any], field: str) -> None:
    body = small_crd("brokens", "Broken")
    body["spec"] |= change
    answer = await api.post(CRDS, body)
    assert answer.refusal() == (422, "Invalid")
    assert field in [cause[0] for cause in answer.causes()]


async def test_two_storage_versions_are_refused(api: Api) -> None:
    body = small_crd("brokens", "Broken")
    body["spec"]["versions"].append(body["spec"]["versions"][0] | {"name": "v2"})
    answer = await api.post(CRDS, body)
    assert answer.refusal() == (422, "Invalid")
    messages = [message for field, _, message in answer.causes() if field == "spec.versions"]
    assert any("must have exactly one version marked as storage version" in message for message in messages)


# --- pruning, defaults, nulls ------------------------------------------------------------------------------------


async def test_unknown_fields_are_pruned_and_known_ones_kept(api: Api, namespace: str) -> None:
    spec = {
        "size": 1,
        "unknown": 1,
        "free": {"any": {"thing": [1, "two"]}},
        "replicas": {"x": {"count": 2, "unknown": True}},
        "parts": [{"name": "a", "unknown": 1}],
        "port": "http",
    }
    answer = await api.post(widgets(namespace), widget("a", spec=spec) | {"top": 1})
    assert answer.status == 201
    assert answer.body["spec"] == {
        "size": 1,
        "color": "red",
        "free": {"any": {"thing": [1, "two"]}},
        "replicas": {"x": {"count": 2}},
        "parts": [{"name": "a"}],
        "port": "http",
    }
    assert "top" not in answer.body
    assert sorted(answer.warnings) == [
        'unknown field "spec.parts[0].unknown"',
        'unknown field "spec.replicas.x.unknown"',
        'unknown field "spec.unknown"',
        'unknown field "top"',
    ]


async def test_unknown_metadata_is_dropped(api: Api, namespace: str) -> None:
    answer = await api.post(widgets(namespace), widget("a", nonsense=1))
    assert answer.status == 201
    assert "nonsense" not in answer.body["metadata"]
    assert answer.warnings == ['unknown field "metadata.nonsense"']


async def test_strict_validation_refuses_unknown_fields(api: Api, namespace: str) -> None:
    body = widget("a", spec={"size": 1, "unknown": 1})
    answer = await api.post(widgets(namespace), body, fieldValidation="Strict")
    assert answer.refusal() == (400, "BadRequest")
    assert answer.body["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.unknown"'
    )
    ignored = await api.post(widgets(namespace), body, fieldValidation="Ignore")
    assert (ignored.status, ignored.warnings) == (201, [])
    patched = await api.patch(widgets(namespace, "a"), {"spec": {"other": 1}}, fieldValidation="Strict")
    assert patched.refusal() == (422, "Invalid")
    assert 'strict decoding error: unknown field "spec.other"' in patched.body["message"]
    assert patched.causes()[0][:2] == ("patch", "FieldValueInvalid")
    warned = await api.patch(widgets(namespace, "a"), {"spec": {"other": 1}})
    assert (warned.status, warned.warnings) == (200, ['unknown field "spec.other"'])


async def test_strict_validation_of_built_in_kinds(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    body = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "i", "comand": ["x"]}]},
    }
    answer = await api.post(path, body, fieldValidation="Strict")
    assert answer.refusal() == (400, "BadRequest")
    assert answer.body["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].comand"'
    )
    warned = await api.post(path, body)
    assert (warned.status, warned.warnings) == (201, ['unknown field "spec.containers[0].comand"'])
    assert "comand" not in warned.body["spec"]["containers"][0]


async def test_a_field_given_twice(api: Api, namespace: str) -> None:
    raw = b'{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"size":2}}'
    body = raw % GROUP.encode()
    strict = await api.send("POST", widgets(namespace), body, fieldValidation="Strict")
    assert strict.refusal() == (400, "BadRequest")
    assert 'strict decoding error: duplicate field "spec.size"' in strict.body["message"]
    warned = await api.send("POST", widgets(namespace), body)
    assert (warned.status, warned.body["spec"]["size"]) == (201, 2)
    assert warned.warnings == ['duplicate field "spec.size"']


async def test_defaults_reach_into_maps(api: Api, namespace: str) -> None:
    spec = {"size": 1, "replicas": {"x": {}, "y": {"count": 3}}}
    made = await api.made(widgets(namespace), widget("a", spec=spec))
    assert made["spec"]["replicas"] == {"x": {"count": 1}, "y": {"count": 3}}


async def test_nulls(api: Api, namespace: str) -> None:
    """Null for a field with a default is the default; where nothing else is said it is dropped; nullable keeps it."""
    spec = {"size": 1, "color": None, "maybe": None, "never": None, "replicas": {"x": None}}
    made = await api.made(widgets(namespace), widget("a", spec=spec))
    assert made["spec"] == {"size": 1, "color": "red", "maybe": None, "replicas": {}}


async def test_embedded_objects_must_say_what_they_are(api: Api, namespace: str) -> None:
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nonsense": 1}, "extra": 1}
    made = await api.made(widgets(namespace), widget("a", spec={"size": 1, "embedded": whole}))
    assert made["spec"]["embedded"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "extra": 1}
    answer = await api.post(widgets(namespace), widget("b", spec={"size": 1, "embedded": {"metadata": {"name": "x"}}}))
    assert answer.refusal() == (422, "Invalid")
    fields = [cause[0] for cause in answer.causes()]
    assert "spec.embedded.apiVersion" in fields
    assert "spec.embedded.kind" in fields


# --- versions ----------------------------------------------------------------------------------------------------


async def test_every_version_shows_the_same_object(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    old = await api.get(widgets(namespace, "a", api_version="v1alpha2"))
    assert old.body == made | {"apiVersion": f"{GROUP}/v1alpha2"}
    listed = await api.get(widgets(namespace, api_version="v1alpha2"))
    assert listed.body["apiVersion"] == f"{GROUP}/v1alpha2"
    assert [item["apiVersion"] for item in listed.body["items"]] == [f"{GROUP}/v1alpha2"]


async def test_defaults_are_those_of_the_written_version(api: Api, namespace: str) -> None:
    old = widget("a", "v1alpha2")
    made = await api.made(widgets(namespace, api_version="v1alpha2"), old)
    assert made["spec"]["color"] == "blue"
    read = (await api.get(widgets(namespace, "a"))).body
    assert (read["apiVersion"], read["spec"]) == (f"{GROUP}/v1", {"size": 1, "color": "blue"})


async def test_what_the_stored_version_does_not_know_is_lost(api: Api, namespace: str) -> None:
    old = widget("a", "v1alpha2", spec={"size": 1, "legacy": "kept?"})
    made = await api.made(widgets(namespace, api_version="v1alpha2"), old)
    read = await api.get(widgets(namespace, "a", api_version="v1alpha2"))
    assert made["spec"] == read.body["spec"] == {"size": 1, "color": "blue"}


async def test_watches_show_the_version_asked_for(api: Api, namespace: str) -> None:
    path = widgets(namespace, api_version="v1alpha2")
    await api.made(widgets(namespace), widget("a"))
    async with api.watch(path) as watch:
        kind, obj = await watch.next()
    assert (kind, obj["apiVersion"]) == ("ADDED", f"{GROUP}/v1alpha2")


async def test_an_update_through_another_version(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.patch(widgets(namespace, "a", api_version="v1alpha2"), {"spec": {"size": 2}})
    assert answer.status == 200
    assert (answer.body["apiVersion"], answer.body["spec"]["size"]) == (f"{GROUP}/v1alpha2", 2)
    assert answer.body["metadata"]["generation"] == 2


# --- rules of the schema -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field", "reason", "message"),
    [
        ({}, "spec.size", "FieldValueRequired", "Required value"),
        (
            {"size": "two"},
            "spec.size",
            "FieldValueTypeInvalid",
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
        ),
        (
            {"size": 0},
            "spec.size",
            "FieldValueInvalid",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            {"size": 10},
            "spec.size",
            "FieldValueInvalid",
            "Invalid value: 10: spec.size in body should be less than or equal to 9",
        ),
        (
            {"size": 1, "ratio": 0},
            "spec.ratio",
            "FieldValueInvalid",
            "Invalid value: 0: spec.ratio in body should be greater than 0",
        ),
        (
            {"size": 1, "color": "green"},
            "spec.color",
            "FieldValueNotSupported",
            'Unsupported value: "green": supported values: "red", "blue"',
        ),
        (
            {"size": 1, "label": "ABC"},
            "spec.label",
            "FieldValueInvalid",
            "Invalid value: \"ABC\": spec.label in body should match '^[a-z]+$'",
        ),
        ({"size": 1, "label": "abcdef"}, "spec.label", "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
        (
            {"size": 1, "label": "a"},
            "spec.label",
            "FieldValueInvalid",
            'Invalid value: "a": spec.label in body should be at least 2 chars long',
        ),
        (
            {"size": 1, "port": True},
            "spec.port",
            "FieldValueTypeInvalid",
            'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
        ),
        (
            {"size": 1, "parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]},
            "spec.parts",
            "FieldValueTooMany",
            "Too many: 4: must have at most 3 items",
        ),
        (
            {"size": 1, "parts": []},
            "spec.parts",
            "FieldValueInvalid",
            "Invalid value: 0: spec.parts in body should have at least 1 items",
        ),
        (
            {"size": 1, "parts": [{"name": "a"}, {"name": "a"}]},
            "spec.parts[1]",
            "FieldValueDuplicate",
            'Duplicate value: {"name":"a"}',
        ),
        ({"size": 1, "parts": [{"weight": 1}]}, "spec.parts[0].name", "FieldValueRequired", "Required value"),
        (
            {"size": 1, "replicas": {"a": {}, "b": {}, "c": {}}},
            "spec.replicas",
            "FieldValueTooMany",
            "Too many: 3: must have at most 2 items",
        ),
        (
            {"size": 1, "replicas": {"a": {"count": "x"}}},
            "spec.replicas.a.count",
            "FieldValueTypeInvalid",
            'Invalid value: "string": spec.replicas.a.count in body must be of type integer: "string"',
        ),
    ],
)
async def test_the_words_of_each_rule(
    api: Api, namespace: str, spec: dict[str, Any], field: str, reason: str, message: str
) -> None:
    answer = await api.post(widgets(namespace), widget("a", spec=spec))
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes() == [(field, reason, message)]
    assert answer.body["message"] == f'Widget.{GROUP} "a" is invalid: {field}: {message}'
    assert answer.body["details"]["kind"] == "Widget"
    assert answer.body["details"]["group"] == GROUP


async def test_several_broken_rules_are_all_told(api: Api, namespace: str) -> None:
    answer = await api.post(widgets(namespace), widget("a", spec={"size": 0, "color": "green"}))
    assert [cause[0] for cause in answer.causes()] == ["spec.color", "spec.size"]
    assert answer.body["message"].startswith(f'Widget.{GROUP} "a" is invalid: [spec.')


async def test_updates_need_not_mend_what_they_leave_alone(api: Api, namespace: str) -> None:
    """An object that broke a rule before the rule came can still be changed elsewhere (ratcheting)."""
    crd = small_crd("ratchets", "Ratchet")
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}},
    }
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    await install_crd(api, crd)
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/ratchets"
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Ratchet", "metadata": {"name": "x"}, "spec": {"a": "BAD", "b": "1"}}
    await api.made(path, body)
    rule = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/pattern"}]
    rule[0]["value"] = "^[a-z]+$"
    changed = await api.patch(f"{CRDS}/ratchets.{GROUP}", rule, "application/json-patch+json")
    assert changed.status == 200, changed.body

    async def rule_holds() -> bool:
        probe = body | {"metadata": {"name": "probe"}}
        return (await api.post(path, probe, dryRun="All")).status == 422

    await until(rule_holds, "the new rule holds")
    assert (await api.patch(f"{path}/x", {"spec": {"b": "2"}})).status == 200
    refused = await api.patch(f"{path}/x", {"spec": {"a": "WORSE"}})
    assert refused.refusal() == (422, "Invalid")
    await api.delete(f"{CRDS}/ratchets.{GROUP}")
