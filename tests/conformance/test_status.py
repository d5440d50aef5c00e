"""Status is a subresource: neither side may write the other's part."""

from __future__ import annotations

from tests.conformance.api import Api
from tests.conformance.objects import pod, widget
from tests.conformance.paths import core, widgets


async def test_create_drops_a_status(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a") | {"status": {"phase": "New"}})
    assert "status" not in made
    body = pod("a") | {"status": {"phase": "Running"}}
    assert (await api.made(core(namespace, "pods"), body))["status"]["phase"] == "Pending"


async def test_writes_of_the_object_leave_status_alone(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    await api.patch(widgets(namespace, "a", "status"), {"status": {"phase": "New"}})
    patched = await api.patch(widgets(namespace, "a"), {"spec": {"size": 2}, "status": {"phase": "Old"}})
    assert (patched.body["spec"]["size"], patched.body["status"]) == (2, {"phase": "New"})
    put = await api.put(widgets(namespace, "a"), patched.body | {"status": {"phase": "Old"}})
    assert put.body["status"] == {"phase": "New"}


async def test_writes_of_status_leave_the_object_alone(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a", labels={"x": "y"}))
    body = made | {"spec": {"size": 9}, "status": {"phase": "New"}}
    body["metadata"] = body["metadata"] | {"labels": {"x": "z"}, "annotations": {"a": "b"}}
    answer = await api.put(widgets(namespace, "a", "status"), body)
    assert answer.status == 200
    assert answer.body["spec"] == made["spec"]
    assert answer.body["status"] == {"phase": "New"}
    assert answer.body["metadata"]["labels"] == {"x": "y"}
    assert "annotations" not in answer.body["metadata"]
    patched = await api.patch(
        widgets(namespace, "a", "status"), {"spec": {"size": 5}, "metadata": {"finalizers": ["a.example.com/b"]}}
    )
    assert patched.body["spec"] == made["spec"]
    assert "finalizers" not in patched.body["metadata"]


async def test_status_is_read_at_its_own_path(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    await api.patch(widgets(namespace, "a", "status"), {"status": {"phase": "New"}})
    whole, status = await api.get(widgets(namespace, "a")), await api.get(widgets(namespace, "a", "status"))
    assert whole.body == status.body


async def test_status_is_checked_against_the_schema(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.patch(widgets(namespace, "a", "status"), {"status": {"phase": "Nonsense"}})
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes() == [
        (
            "status.phase",
            "FieldValueNotSupported",
            'Unsupported value: "Nonsense": supported values: "New", "Old"',
        )
    ]


async def test_a_stale_status_is_a_conflict(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    first = await api.put(widgets(namespace, "a", "status"), made | {"status": {"phase": "New"}})
    assert first.status == 200
    second = await api.put(widgets(namespace, "a", "status"), made | {"status": {"phase": "Old"}})
    assert second.refusal() == (409, "Conflict")


async def test_status_of_pods(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    state = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
    statuses = [{"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}]
    body = {"status": {"phase": "Failed", "containerStatuses": statuses}}
    answer = await api.patch(core(namespace, "pods", "a", "status"), body)
    assert answer.status == 200
    assert answer.body["status"]["phase"] == "Failed"
    assert answer.body["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    ignored = await api.patch(core(namespace, "pods", "a"), {"status": {"phase": "Running"}})
    assert ignored.body["status"]["phase"] == "Failed"
