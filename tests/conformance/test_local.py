"""What only the local server has: 501 for what it leaves out, logs by callback, tokens, its store, its speed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from controller.local.apiserver import LocalApiServer
from tests.conformance.api import Api, Target, session_for
from tests.conformance.conftest import install_crd
from tests.conformance.objects import config_map, pod, small_crd, widget, widgets_crd
from tests.conformance.paths import core, widgets


@pytest_asyncio.fixture
async def server(tmp_path: Any) -> AsyncIterator[LocalApiServer]:
    found = LocalApiServer()
    await found.start()
    yield found
    await found.stop()


@pytest_asyncio.fixture
async def local(server: LocalApiServer, tmp_path: Any) -> AsyncIterator[Api]:
    target = Target("local", server.url, tmp_path / "none", local=server)
    async with session_for(target) as session:
        yield Api(target, session)


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("GET", "/api/v1/nodes", "nodes"),
        ("GET", "/api/v1/namespaces/default/secrets", "secrets"),
        ("GET", "/apis/apps/v1/namespaces/default/deployments", "deployments.apps/v1"),
        ("GET", "/apis/events.k8s.io/v1/events", "events.events.k8s.io/v1"),
        ("GET", "/api/v1/watch/pods", "/watch/"),
        ("POST", "/api/v1/namespaces/default/pods/a/exec", "exec of pods"),
        ("POST", "/api/v1/namespaces/default/pods/a/eviction", "eviction of pods"),
    ],
)
async def test_what_is_left_out_says_so(local: Api, method: str, path: str, named: str) -> None:
    answer = await local.send(method, path, {} if method == "POST" else None)
    assert answer.refusal() == (501, "NotImplemented")
    assert named in answer.body["message"]


async def test_conversion_webhooks_are_left_out(local: Api) -> None:
    crd = widgets_crd()
    hook = {"clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = await local.post(path, crd)
    assert answer.refusal() == (501, "NotImplemented")
    assert (await local.get(path)).body["items"] == []


async def test_logs_come_from_the_kubelet(server: LocalApiServer, local: Api) -> None:
    path = core("default", "pods")
    await local.made(path, pod("a"))
    assert (await local.get(f"{path}/a/log")).refusal() == (501, "NotImplemented")
    asked: list[tuple[Any, ...]] = []

    def whole(namespace: str, name: str, container: str, **options: str) -> bytes:
        asked.append((namespace, name, container, options))
        return b"one\ntwo\n"

    async def streamed(*_: str, **__: str) -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    for reader in (whole, streamed):
        server.log_reader = reader
        answer = await local.get(f"{path}/a/log", tailLines="2")
        assert (answer.status, answer.body) == (200, "one\ntwo\n")
    assert asked == [("default", "a", "main", {"tailLines": "2"})]


async def test_a_token_can_be_asked_for(tmp_path: Any) -> None:
    server = LocalApiServer(token="secret")
    await server.start()
    try:
        async with session_for(Target("local", server.url, tmp_path / "none")) as session:
            answer = await Api(Target("local", server.url, tmp_path), session).get("/api/v1/pods")
            assert answer.refusal() == (401, "Unauthorized")
        target = Target("local", server.url, tmp_path, token=server.kubeconfig()["users"][0]["user"]["token"])
        async with session_for(target) as session:
            assert (await Api(target, session).get("/api/v1/pods")).status == 200
    finally:
        await server.stop()


async def test_the_store_is_there_in_process(server: LocalApiServer, local: Api) -> None:
    changes: list[tuple[str, str]] = []
    end = server.store.subscribe(lambda change: changes.append((change.kind, change.key[1])))
    server.store.create("configmaps", config_map("a"), "default")
    await local.patch(core("default", "configmaps", "a"), {"data": {"a": "2"}})
    assert server.store.get("configmaps", "default", "a")["data"] == {"a": "2"}
    assert [cm["metadata"]["name"] for cm in server.store.list("configmaps", "default")] == ["a"]
    server.store.delete("configmaps", "default", "a")
    end()
    server.store.create("configmaps", config_map("b"), "default")
    assert changes == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    history = [(change.kind, change.now.body["data"]) for change in server.store.history("configmaps", "default", "a")]
    assert history == [("ADDED", {"a": "1"}), ("MODIFIED", {"a": "2"}), ("DELETED", {"a": "2"})]


async def test_the_clock_is_given(tmp_path: Any) -> None:
    server = LocalApiServer(clock=lambda: datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    made = server.store.create("pods", pod("a"), "default")
    assert made.body["metadata"]["creationTimestamp"] == "2030-01-02T03:04:05Z"


async def test_the_window_of_history_is_bounded(tmp_path: Any) -> None:
    server = LocalApiServer(window=10)
    await server.start()
    try:
        target = Target("local", server.url, tmp_path, local=server)
        async with session_for(target) as session:
            api = Api(target, session)
            path = core("default", "configmaps")
            first = await api.made(path, config_map("first"))
            for index in range(11):
                await api.made(path, config_map(f"cm-{index}"))
            async with api.watch(path, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
                kind, status = await watch.next()
        assert (kind, status["code"]) == ("ERROR", 410)
    finally:
        await server.stop()


async def test_expired_pages_offer_a_way_on(server: LocalApiServer, local: Api) -> None:
    path = core("default", "configmaps")
    for name in "abc":
        await local.made(path, config_map(name))
    token = (await local.get(path, limit=1)).body["metadata"]["continue"]
    await local.made(path, config_map("d"))
    server.store.compact()
    expired = await local.get(path, limit=5, **{"continue": token})
    assert expired.refusal() == (410, "Expired")
    fresh = expired.body["metadata"]["continue"]
    rest = await local.get(path, limit=5, **{"continue": fresh})
    assert [item["metadata"]["name"] for item in rest.body["items"]] == ["b", "c", "d"]


async def test_checks_of_the_project_can_be_added(server: LocalApiServer, local: Api) -> None:
    from controller.local.apiserver.failures import Cause

    await install_crd(local, widgets_crd())

    def no_nines(new: dict[str, Any], _: dict[str, Any] | None) -> list[Cause]:
        found = new["spec"]["size"] == 9
        return [Cause("spec.size", "FieldValueInvalid", "Invalid value: 9: no nines")] if found else []

    server.store.validators[("conformance.example.com", "Widget")] = [no_nines]
    answer = await local.post(widgets("default"), widget("a", spec={"size": 9}))
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes() == [("spec.size", "FieldValueInvalid", "Invalid value: 9: no nines")]
    await local.made(widgets("default"), widget("a", spec={"size": 8}))


async def test_rules_in_cel_are_said_not_to_be_evaluated(server: LocalApiServer, local: Api) -> None:
    crd = widgets_crd()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": "self.size > 1", "message": "too small"}]
    answer = await local.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert answer.status == 201
    assert answer.warnings == ["the local API server does not evaluate the x-kubernetes-validations of Widget"]


async def test_tfjobs_are_checked_by_the_projects_rules(server: LocalApiServer, local: Api) -> None:
    crd = small_crd("tfjobs", "TFJob")
    crd["metadata"]["name"] = "tfjobs.kubeflow.org"
    crd["spec"]["group"] = "kubeflow.org"
    await local.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    container = {"name": "tensorflow", "image": "example.com/image:1"}
    replicas = {"Worker": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}}
    path = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
    made = await local.made(path, job | {"spec": {"tfReplicaSpecs": replicas}})
    bad = await local.patch(f"{path}/a", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": -1}}}})
    assert bad.refusal() == (422, "Invalid")
    assert bad.causes()[0][0] == "spec.tfReplicaSpecs.Worker.replicas"
    assert (await local.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})).status == 200
    assert server.store.get("tfjobs.kubeflow.org", "default", "a")["spec"] == made["spec"]


async def test_the_date_is_the_clocks(tmp_path: Any) -> None:
    server = LocalApiServer(clock=lambda: datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    await server.start()
    try:
        target = Target("local", server.url, tmp_path, local=server)
        async with session_for(target) as session:
            answer = await Api(target, session).get("/version")
        assert answer.headers["Date"] == "Wed, 02 Jan 2030 03:04:05 GMT"
    finally:
        await server.stop()


async def test_speed_of_creates_with_watchers(local: Api) -> None:
    """≥ 300 creates a second on a quiet machine; the bound here leaves room for a loaded one."""
    path = core("default", "pods")

    async def reader() -> int:
        count = 0
        async with local.watch(path) as watch:
            while count < 600:
                await watch.next()
                count += 1
        return count

    readers = [asyncio.create_task(reader()) for _ in range(3)]
    started = time.monotonic()
    for batch in range(30):
        await asyncio.gather(*(local.made(path, pod(f"p-{batch}-{index}")) for index in range(20)))
    took = time.monotonic() - started
    assert await asyncio.gather(*readers) == [600, 600, 600]
    assert 600 / took > 100, f"{600 / took:.0f} creates a second"
