"""Deletion: grace, finalizers, preconditions, collections, owners, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.api import Api, until
from tests.conformance.objects import config_map, lease, notice, pod, service, widget
from tests.conformance.paths import core, leases, widgets

HELD = "conformance.example.com/held"


def owner_of(obj: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = obj["metadata"]
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return reference | {"controller": True, "blockOwnerDeletion": True} | more


async def bound_pod(api: Api, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    body = pod(name)
    body["spec"] |= {"nodeName": "node-1"} | spec
    return await api.made(core(namespace, "pods"), body)


# --- what a DELETE answers ---------------------------------------------------------------------------------------


async def test_a_delete_answers_a_status_or_the_object(api: Api, namespace: str) -> None:
    ours = await api.made(widgets(namespace), widget("a"))
    answer = await api.delete(widgets(namespace, "a"))
    assert answer.status == 200
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "a",
            "group": "conformance.example.com",
            "kind": "widgets",
            "uid": ours["metadata"]["uid"],
        },
    }
    for plural, body in (("pods", pod("a")), ("services", service("a"))):
        await api.made(core(namespace, plural), body)
        deleted = await api.delete(core(namespace, plural, "a"))
        assert (deleted.status, deleted.body["metadata"]["name"]) == (200, "a")
    for path, body in (
        (core(namespace, "configmaps"), config_map("a")),
        (leases(namespace), lease("a")),
        (core(namespace, "events"), notice(namespace) | {"metadata": {"name": "a"}}),
    ):
        await api.made(path, body)
        deleted = await api.delete(f"{path}/a")
        assert (deleted.status, deleted.body["kind"]) == (200, "Status")
    assert (await api.get(widgets(namespace, "a"))).status == 404


# --- grace -------------------------------------------------------------------------------------------------------


async def test_a_pod_without_a_node_goes_at_once(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    assert (await api.delete(core(namespace, "pods", "a"))).status == 200
    assert (await api.get(core(namespace, "pods", "a"))).status == 404


@pytest.mark.parametrize(
    ("spec", "options", "seconds"),
    [
        ({}, None, 30),
        ({"terminationGracePeriodSeconds": 7}, None, 7),
        ({}, {"gracePeriodSeconds": 5}, 5),
    ],
)
async def test_a_bound_pod_gets_its_grace_period(
    api: Api, namespace: str, spec: dict[str, Any], options: dict[str, Any] | None, seconds: int
) -> None:
    made = await bound_pod(api, namespace, "a", **spec)
    answer = await api.delete(core(namespace, "pods", "a"), options)
    assert answer.status == 200
    metadata = (await api.get(core(namespace, "pods", "a"))).body["metadata"]
    assert answer.body["metadata"] == metadata
    assert metadata["deletionGracePeriodSeconds"] == seconds
    assert metadata["deletionTimestamp"] > made["metadata"]["creationTimestamp"]
    assert metadata["generation"] == 2
    confirmed = await api.delete(core(namespace, "pods", "a"), {"gracePeriodSeconds": 0})
    assert confirmed.status == 200
    assert (await api.get(core(namespace, "pods", "a"))).status == 404


async def test_a_second_delete_can_only_shorten_the_grace_period(api: Api, namespace: str) -> None:
    await bound_pod(api, namespace, "a")
    grace = []
    for seconds in (20, 25, None, 10):
        options = None if seconds is None else {"gracePeriodSeconds": seconds}
        await api.delete(core(namespace, "pods", "a"), options)
        grace.append((await api.get(core(namespace, "pods", "a"))).body["metadata"]["deletionGracePeriodSeconds"])
    assert grace == [20, 20, 20, 10]


async def test_an_ended_pod_goes_at_once(api: Api, namespace: str) -> None:
    await bound_pod(api, namespace, "a")
    await api.patch(core(namespace, "pods", "a", "status"), {"status": {"phase": "Succeeded"}})
    await api.delete(core(namespace, "pods", "a"))
    assert (await api.get(core(namespace, "pods", "a"))).status == 404


async def test_a_finalizer_outlives_the_grace_period(api: Api, namespace: str) -> None:
    body = pod("a", finalizers=[HELD])
    body["spec"]["nodeName"] = "node-1"
    await api.made(core(namespace, "pods"), body)
    await api.delete(core(namespace, "pods", "a"))
    await api.delete(core(namespace, "pods", "a"), {"gracePeriodSeconds": 0})
    held = await api.get(core(namespace, "pods", "a"))
    assert held.status == 200
    assert held.body["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.patch(core(namespace, "pods", "a"), {"metadata": {"finalizers": None}})
    assert (await api.get(core(namespace, "pods", "a"))).status == 404


# --- finalizers --------------------------------------------------------------------------------------------------


async def test_finalizers_hold_a_delete(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a", finalizers=[HELD]))
    answer = await api.delete(widgets(namespace, "a"))
    assert answer.status == 200
    metadata = answer.body["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["finalizers"], metadata["generation"]) == (0, [HELD], 2)
    second = await api.delete(widgets(namespace, "a"))
    assert second.body["metadata"]["deletionTimestamp"] == metadata["deletionTimestamp"]
    changed = await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}})
    assert changed.body["metadata"]["deletionTimestamp"] == metadata["deletionTimestamp"]
    more = await api.patch(widgets(namespace, "a"), {"metadata": {"finalizers": [HELD, "a.example.com/more"]}})
    assert more.refusal() == (422, "Invalid")
    assert more.causes()[0][:2] == ("metadata.finalizers", "FieldValueForbidden")
    released = await api.patch(widgets(namespace, "a"), {"metadata": {"finalizers": []}})
    assert released.status == 200
    assert (await api.get(widgets(namespace, "a"))).status == 404


# --- preconditions -----------------------------------------------------------------------------------------------


async def test_preconditions(api: Api, namespace: str) -> None:
    for path, body in ((core(namespace, "pods"), pod("a")), (widgets(namespace), widget("a"))):
        made = await api.made(path, body)
        uid, revision = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
        wrong = await api.delete(f"{path}/a", {"preconditions": {"uid": "someone-else"}})
        assert wrong.refusal() == (409, "Conflict")
        assert "the UID in the precondition (someone-else) does not match the UID in record" in wrong.body["message"]
        assert wrong.body["details"]["kind"] == made["kind"]
        await api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
        stale = await api.delete(f"{path}/a", {"preconditions": {"resourceVersion": revision}})
        assert stale.refusal() == (409, "Conflict")
        assert "the ResourceVersion in the precondition" in stale.body["message"]
        assert (await api.get(f"{path}/a")).status == 200
        assert (await api.delete(f"{path}/a", {"preconditions": {"uid": uid}})).status == 200
        assert (await api.get(f"{path}/a")).status == 404


# --- collections -------------------------------------------------------------------------------------------------


async def test_a_collection_is_deleted_by_selector(api: Api, namespace: str) -> None:
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        await api.made(core(namespace, "pods"), pod(name, labels={"app": label}))
    answer = await api.delete(core(namespace, "pods"), labelSelector="app=x")
    assert answer.status == 200
    assert answer.body["kind"] == "PodList"
    left = await api.get(core(namespace, "pods"))
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["c"]
    await api.delete(core(namespace, "pods"), fieldSelector="metadata.name=c")
    assert (await api.get(core(namespace, "pods"))).body["items"] == []


async def test_a_collection_of_custom_objects(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    await api.made(widgets(namespace), widget("b", finalizers=[HELD]))
    assert (await api.delete(widgets(namespace))).status == 200
    left = await api.get(widgets(namespace))
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["b"]
    assert left.body["items"][0]["metadata"]["deletionTimestamp"]
    await api.patch(widgets(namespace, "b"), {"metadata": {"finalizers": None}})


# --- owners ------------------------------------------------------------------------------------------------------


async def test_dependents_go_after_their_owner(api: Api, namespace: str) -> None:
    owner = await api.made(widgets(namespace), widget("owner"))
    await api.made(core(namespace, "pods"), pod("dependent", ownerReferences=[owner_of(owner)]))
    await api.made(core(namespace, "services"), service("dependent"))
    await api.patch(core(namespace, "services", "dependent"), {"metadata": {"ownerReferences": [owner_of(owner)]}})
    await api.made(core(namespace, "pods"), pod("bystander"))
    await api.delete(widgets(namespace, "owner"), {"propagationPolicy": "Background"})
    await api.gone(core(namespace, "pods", "dependent"))
    await api.gone(core(namespace, "services", "dependent"))
    assert (await api.get(core(namespace, "pods", "bystander"))).status == 200


async def test_a_dependent_of_nobody_goes(api: Api, namespace: str) -> None:
    owner = await api.made(widgets(namespace), widget("owner"))
    await api.delete(widgets(namespace, "owner"))
    await api.made(core(namespace, "configmaps"), config_map("late", ownerReferences=[owner_of(owner)]))
    await api.gone(core(namespace, "configmaps", "late"))


async def test_a_dependent_with_another_owner_stays(api: Api, namespace: str) -> None:
    first = await api.made(widgets(namespace), widget("first"))
    second = await api.made(widgets(namespace), widget("second"))
    owners = [owner_of(first), owner_of(second, controller=False)]
    await api.made(core(namespace, "configmaps"), config_map("shared", ownerReferences=owners))
    await api.delete(widgets(namespace, "first"))
    path = core(namespace, "configmaps", "shared")

    async def has_one_owner() -> bool:
        return len((await api.get(path)).body["metadata"]["ownerReferences"]) == 1

    await until(has_one_owner, "the deleted owner's reference is gone")
    assert (await api.get(path)).body["metadata"]["ownerReferences"][0]["name"] == "second"
    await api.delete(widgets(namespace, "second"))
    await api.gone(path)


async def test_orphans_stay(api: Api, namespace: str) -> None:
    owner = await api.made(widgets(namespace), widget("owner"))
    await api.made(core(namespace, "configmaps"), config_map("dependent", ownerReferences=[owner_of(owner)]))
    await api.delete(widgets(namespace, "owner"), {"propagationPolicy": "Orphan"})
    await api.gone(widgets(namespace, "owner"))
    left = await api.get(core(namespace, "configmaps", "dependent"))
    assert (left.status, left.body["metadata"].get("ownerReferences")) == (200, None)


async def test_a_foreground_delete_waits_for_blocking_dependents(api: Api, namespace: str) -> None:
    owner = await api.made(widgets(namespace), widget("owner"))
    dependent = config_map("dependent", ownerReferences=[owner_of(owner)], finalizers=[HELD])
    await api.made(core(namespace, "configmaps"), dependent)
    answer = await api.delete(widgets(namespace, "owner"), {"propagationPolicy": "Foreground"})
    assert answer.status == 200
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    path = core(namespace, "configmaps", "dependent")
    await api.marked(path)
    assert (await api.get(widgets(namespace, "owner"))).status == 200
    await api.patch(path, {"metadata": {"finalizers": []}})
    await api.gone(path)
    await api.gone(widgets(namespace, "owner"))


# --- namespaces --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_stay(api: Api, name: str) -> None:
    answer = await api.delete(f"/api/v1/namespaces/{name}")
    assert answer.refusal() == (403, "Forbidden")
    assert answer.body["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_a_namespace_takes_its_contents_along(api: Api) -> None:
    name = "conf-doomed"
    path = f"/api/v1/namespaces/{name}"
    made = await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
    assert made["status"] == {"phase": "Active"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    await api.made(core(name, "pods"), pod("a"))
    await api.made(widgets(name), widget("a", finalizers=[HELD]))
    answer = await api.delete(path)
    assert answer.body["status"]["phase"] == "Terminating"
    refused = await api.post(core(name, "pods"), pod("b"))
    assert refused.refusal() == (403, "Forbidden")
    assert refused.body["message"] == (
        f'pods "b" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )
    assert refused.causes() == [("metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated")]
    await api.gone(core(name, "pods", "a"))
    await api.marked(widgets(name, "a"))
    assert (await api.get(path)).status == 200
    await api.patch(widgets(name, "a"), {"metadata": {"finalizers": None}})
    await api.gone(path)
