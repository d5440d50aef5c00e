"""Single objects: what the server fills in, reads, refuses and replaces."""

from __future__ import annotations

import re

import pytest

from tests.conformance.api import Api
from tests.conformance.objects import config_map, lease, notice, pod, service, widget
from tests.conformance.paths import core, leases, widgets


async def test_create_fills_in_what_only_the_server_knows(api: Api, namespace: str) -> None:
    made = await api.made(core(namespace, "pods"), pod("a", labels={"x": "y"}))
    metadata = made["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["resourceVersion"].isdecimal()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert (metadata["namespace"], metadata["name"], metadata["labels"]) == (namespace, "a", {"x": "y"})
    assert (made["kind"], made["apiVersion"]) == ("Pod", "v1")
    assert (await api.get(core(namespace, "pods", "a"))).body == made


async def test_a_second_create_is_already_exists(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.post(widgets(namespace), widget("a"))
    assert answer.refusal() == (409, "AlreadyExists")
    assert answer.body["message"] == 'widgets.conformance.example.com "a" already exists'
    assert answer.body["details"] == {"name": "a", "group": "conformance.example.com", "kind": "widgets"}


async def test_the_absent_is_not_found(api: Api, namespace: str) -> None:
    answer = await api.get(core(namespace, "pods", "nobody"))
    assert answer.refusal() == (404, "NotFound")
    assert answer.body["message"] == 'pods "nobody" not found'
    assert answer.body["details"] == {"name": "nobody", "kind": "pods"}
    for other in (
        await api.delete(core(namespace, "pods", "nobody")),
        await api.patch(core(namespace, "pods", "nobody"), {}),
        await api.put(core(namespace, "pods", "nobody"), pod("nobody")),
    ):
        assert other.refusal() == (404, "NotFound")


async def test_a_namespace_must_be_there(api: Api) -> None:
    answer = await api.post(core("no-such-namespace", "pods"), pod("a"))
    assert answer.refusal() == (404, "NotFound")
    assert answer.body["details"] == {"name": "no-such-namespace", "kind": "namespaces"}
    assert answer.body["message"] == 'namespaces "no-such-namespace" not found'


async def test_generate_name(api: Api, namespace: str) -> None:
    body = config_map("x")
    body["metadata"] = {"generateName": "gen-"}
    first = await api.made(core(namespace, "configmaps"), body)
    second = await api.made(core(namespace, "configmaps"), body)
    names = {first["metadata"]["name"], second["metadata"]["name"]}
    assert len(names) == 2
    assert all(re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert first["metadata"]["generateName"] == "gen-"


async def test_a_name_is_required(api: Api, namespace: str) -> None:
    body = pod("x")
    body["metadata"] = {}
    answer = await api.post(core(namespace, "pods"), body)
    assert answer.refusal() == (422, "Invalid")
    found = ("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    assert found in answer.causes()


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254])
async def test_a_name_must_be_a_dns_subdomain(api: Api, namespace: str, name: str) -> None:
    answers = [
        await api.post(core(namespace, "pods"), pod(name)),
        await api.post(widgets(namespace), widget(name)),
    ]
    for answer in answers:
        assert answer.refusal() == (422, "Invalid")
        assert answer.causes()[0][:2] == ("metadata.name", "FieldValueInvalid")


@pytest.mark.parametrize(
    ("labels", "word"), [({"a b": "c"}, "name part must consist of"), ({"a": "b c"}, "a valid label must be")]
)
async def test_labels_are_checked(api: Api, namespace: str, labels: dict[str, str], word: str) -> None:
    answer = await api.post(widgets(namespace), widget("a", labels=labels))
    assert answer.refusal() == (422, "Invalid")
    field, _, message = answer.causes()[0]
    assert field == "metadata.labels"
    assert word in message


async def test_body_and_path_must_agree(api: Api, namespace: str) -> None:
    wrong_namespace = await api.post(core(namespace, "pods"), pod("a", namespace="other"))
    assert wrong_namespace.refusal() == (400, "BadRequest")
    assert wrong_namespace.body["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    await api.made(widgets(namespace), widget("a"))
    wrong_name = await api.put(widgets(namespace, "a"), widget("b"))
    assert wrong_name.refusal() == (400, "BadRequest")
    assert wrong_name.body["message"] == "the name of the object (b) does not match the name on the URL (a)"
    wrong_kind = await api.post(widgets(namespace), widget("b") | {"kind": "Gadget"})
    assert wrong_kind.refusal() == (422, "Invalid")
    assert wrong_kind.causes() == [("kind", "FieldValueInvalid", 'Invalid value: "Gadget": must be Widget')]
    wrong_group = await api.post(widgets(namespace), widget("b") | {"apiVersion": "other.example.com/v1"})
    assert wrong_group.refusal() == (400, "BadRequest")


async def test_a_body_that_is_no_json_is_400(api: Api, namespace: str) -> None:
    answer = await api.send("POST", core(namespace, "pods"), b"{")
    assert answer.refusal() == (400, "BadRequest")


async def test_a_create_with_resource_version_is_refused(api: Api, namespace: str) -> None:
    answer = await api.post(widgets(namespace), widget("a", resourceVersion="5"))
    assert answer.refusal() == (500, "")
    assert answer.body["message"] == "resourceVersion should not be set on objects to be created"


async def test_one_revision_rises_over_all_kinds(api: Api, namespace: str) -> None:
    made = [
        await api.made(core(namespace, "pods"), pod("a")),
        await api.made(core(namespace, "configmaps"), config_map("a")),
        await api.made(widgets(namespace), widget("a")),
        await api.made(core(namespace, "services"), service("a")),
        await api.made(leases(namespace), lease("a")),
    ]
    revisions = [int(obj["metadata"]["resourceVersion"]) for obj in made]
    assert revisions == sorted(set(revisions))


# --- replace -----------------------------------------------------------------------------------------------------


async def test_replace_with_the_current_resource_version(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    answer = await api.put(widgets(namespace, "a"), made | {"spec": {"size": 2}})
    assert answer.status == 200
    assert answer.body["spec"] == {"size": 2, "color": "red"}
    assert int(answer.body["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    for key in ("uid", "creationTimestamp"):
        assert answer.body["metadata"][key] == made["metadata"][key]


async def test_replace_with_a_stale_resource_version_is_a_conflict(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    await api.put(widgets(namespace, "a"), made | {"spec": {"size": 2}})
    answer = await api.put(widgets(namespace, "a"), made | {"spec": {"size": 3}})
    assert answer.refusal() == (409, "Conflict")
    assert answer.body["message"] == (
        'Operation cannot be fulfilled on widgets.conformance.example.com "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert answer.body["details"] == {"name": "a", "group": "conformance.example.com", "kind": "widgets"}


async def test_custom_objects_are_not_replaced_without_a_resource_version(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.put(widgets(namespace, "a"), widget("a"))
    assert answer.refusal() == (422, "Invalid")
    found = ("metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update")
    assert answer.causes() == [found]


async def test_config_maps_are_replaced_without_a_resource_version(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "configmaps"), config_map("a"))
    answer = await api.put(core(namespace, "configmaps", "a"), config_map("a", {"b": "2"}))
    assert (answer.status, answer.body["data"]) == (200, {"b": "2"})


async def test_replace_with_another_uid_is_a_conflict(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    answer = await api.put(widgets(namespace, "a"), made)
    assert answer.refusal() == (409, "Conflict")
    assert "Precondition failed: UID in precondition: 00000000" in answer.body["message"]


async def test_an_update_that_changes_nothing_writes_nothing(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    put = await api.put(widgets(namespace, "a"), made)
    patched = await api.patch(widgets(namespace, "a"), {"spec": {"size": 1}})
    versions = {obj["metadata"]["resourceVersion"] for obj in (made, put.body, patched.body)}
    assert len(versions) == 1


async def test_generation_counts_changes_of_the_spec(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a", generation=7))
    labelled = await api.patch(widgets(namespace, "a"), {"metadata": {"labels": {"x": "y"}}})
    changed = await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}})
    status = await api.patch(widgets(namespace, "a", "status"), {"status": {"phase": "New"}})
    generations = [obj["metadata"]["generation"] for obj in (made, labelled.body, changed.body, status.body)]
    assert generations == [1, 1, 2, 2]


# --- the kinds beside pods ---------------------------------------------------------------------------------------


async def test_notices_are_created_by_generate_name(api: Api, namespace: str) -> None:
    first = await api.made(core(namespace, "events"), notice(namespace))
    second = await api.made(core(namespace, "events"), notice(namespace))
    assert first["metadata"]["name"].startswith("some-pod.")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    name = first["metadata"]["name"]
    counted = await api.patch(core(namespace, "events", name), {"count": 2})
    assert (counted.status, counted.body["count"]) == (200, 2)


async def test_a_notice_stays_in_the_namespace_of_its_object(api: Api, namespace: str) -> None:
    body = notice(namespace)
    body["involvedObject"]["namespace"] = "elsewhere"
    answer = await api.post(core(namespace, "events"), body)
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes()[0][:2] == ("involvedObject.namespace", "FieldValueInvalid")


async def test_a_lease_is_an_optimistic_lock(api: Api, namespace: str) -> None:
    made = await api.made(leases(namespace), lease("a", "first"))
    mine, theirs = lease("a", "me"), lease("a", "them")
    for body in (mine, theirs):
        body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    won, lost = await api.put(leases(namespace, "a"), mine), await api.put(leases(namespace, "a"), theirs)
    assert (won.status, won.body["spec"]["holderIdentity"]) == (200, "me")
    assert lost.refusal() == (409, "Conflict")
    without = await api.put(leases(namespace, "a"), lease("a", "them"))
    assert without.refusal() == (422, "Invalid")


async def test_a_headless_service_keeps_its_form(api: Api, namespace: str) -> None:
    made = await api.made(core(namespace, "services"), service("a"))
    spec = made["spec"]
    assert (spec["clusterIP"], spec["type"], spec["sessionAffinity"]) == ("None", "ClusterIP", "None")
    assert spec["ports"] == [{"name": "main", "port": 2222, "protocol": "TCP", "targetPort": 2222}]
    assert made["status"] == {"loadBalancer": {}}


async def test_service_ports_need_names_when_there_are_several(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "services"), service("a", ports=[{"port": 1}, {"port": 2}]))
    assert answer.refusal() == (422, "Invalid")
    assert ("spec.ports[0].name", "FieldValueRequired", "Required value") in answer.causes()


async def test_dry_run_changes_nothing(api: Api, namespace: str) -> None:
    answer = await api.post(widgets(namespace), widget("a"), dryRun="All")
    assert (answer.status, answer.body["metadata"]["name"]) == (201, "a")
    assert (await api.get(widgets(namespace, "a"))).status == 404
    made = await api.made(widgets(namespace), widget("a"))
    changed = await api.patch(widgets(namespace, "a"), {"spec": {"size": 3}}, dryRun="All")
    assert changed.body["spec"]["size"] == 3
    assert (await api.delete(widgets(namespace, "a"), dryRun="All")).status == 200
    assert (await api.get(widgets(namespace, "a"))).body == made
