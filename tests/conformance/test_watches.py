"""Watches: order, resuming, selectors, bookmarks, initial events, the end of history."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.conformance.api import Api
from tests.conformance.objects import config_map, pod, widget
from tests.conformance.paths import core, widgets

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
END = "k8s.io/initial-events-end"


async def listed_revision(api: Api, path: str) -> str:
    """The revision to watch from."""
    return str((await api.get(path)).body["metadata"]["resourceVersion"])


async def test_a_watch_tells_every_change_in_order(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    async with api.watch(path, resourceVersion=await listed_revision(api, path)) as watch:
        made = await api.made(path, widget("a"))
        changed = (await api.patch(f"{path}/a", {"spec": {"size": 2}})).body
        await api.delete(f"{path}/a")
        assert await watch.next() == ("ADDED", made)
        assert await watch.next() == ("MODIFIED", changed)
        kind, last = await watch.next()
    assert (kind, last["spec"]) == ("DELETED", changed["spec"])
    assert int(last["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])
    assert "deletionTimestamp" not in last["metadata"]


async def test_objects_of_a_watch_carry_their_kind(api: Api, namespace: str) -> None:
    path = core(namespace, "pods")
    async with api.watch(path, resourceVersion=await listed_revision(api, path)) as watch:
        made = await api.made(path, pod("a"))
        assert await watch.next() == ("ADDED", made)
    assert (made["kind"], made["apiVersion"]) == ("Pod", "v1")


async def test_a_pod_that_goes_at_once_is_first_marked(api: Api, namespace: str) -> None:
    path = core(namespace, "pods")
    await api.made(path, pod("a"))
    async with api.watch(path, resourceVersion=await listed_revision(api, path)) as watch:
        await api.delete(f"{path}/a")
        lines = [await watch.next(), await watch.next()]
    assert [kind for kind, _ in lines] == ["MODIFIED", "DELETED"]
    assert [obj["metadata"]["deletionGracePeriodSeconds"] for _, obj in lines] == [0, 0]
    assert all("deletionTimestamp" in obj["metadata"] for _, obj in lines)


async def test_a_watch_resumes_where_it_left_off(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    first = await api.made(path, widget("a"))
    await api.made(path, widget("b"))
    await api.delete(f"{path}/a")
    async with api.watch(path, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        lines = [await watch.next() for _ in range(2)]
    assert [(kind, obj["metadata"]["name"]) for kind, obj in lines] == [("ADDED", "b"), ("DELETED", "a")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_from_nowhere_begins_with_what_is_there(api: Api, namespace: str, query: dict) -> None:
    path = widgets(namespace)
    await api.made(path, widget("a"))
    await api.made(path, widget("b"))
    async with api.watch(path, **query) as watch:
        lines = [await watch.next() for _ in range(2)]
        assert sorted((kind, obj["metadata"]["name"]) for kind, obj in lines) == [("ADDED", "a"), ("ADDED", "b")]
        await api.made(path, widget("c"))
        kind, obj = await watch.next()
    assert (kind, obj["metadata"]["name"]) == ("ADDED", "c")


@pytest.mark.parametrize("word", ["True", "1", "true"])
async def test_every_spelling_of_true(api: Api, namespace: str, word: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    answer = await api.get(widgets(namespace), watch=word, timeoutSeconds=1)
    assert answer.body["type"] == "ADDED"


async def test_a_watch_ends_after_its_timeout(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    revision = await listed_revision(api, path)
    started = time.monotonic()
    async with api.watch(path, resourceVersion=revision, timeoutSeconds=1) as watch:
        lines = await watch.rest()
    assert lines == []
    assert 0.9 <= time.monotonic() - started < 5


async def test_selectors_turn_changes_into_comings_and_goings(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    await api.made(path, widget("a", labels={"app": "x"}))
    revision = await listed_revision(api, path)
    async with api.watch(path, resourceVersion=revision, labelSelector="app=x") as watch:
        await api.made(path, widget("other", labels={"app": "y"}))
        left = (await api.patch(f"{path}/a", {"metadata": {"labels": {"app": "y"}}})).body
        await api.patch(f"{path}/a", {"spec": {"size": 2}})
        came = (await api.patch(f"{path}/a", {"metadata": {"labels": {"app": "x"}}})).body
        await api.patch(f"{path}/a", {"spec": {"size": 3}})
        kind, obj = await watch.next()
        assert (kind, obj["metadata"]["name"]) == ("DELETED", "a")
        assert obj["metadata"]["labels"] == {"app": "x"}
        assert obj["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        assert await watch.next() == ("ADDED", came)
        kind, obj = await watch.next()
        assert (kind, obj["spec"]["size"]) == ("MODIFIED", 3)


async def test_field_selectors_of_a_watch(api: Api, namespace: str) -> None:
    path = core(namespace, "pods")
    await api.made(path, pod("a"))
    revision = await listed_revision(api, path)
    async with api.watch(path, resourceVersion=revision, fieldSelector="status.phase=Running") as watch:
        await api.patch(f"{path}/a/status", {"status": {"phase": "Running"}})
        await api.patch(f"{path}/a/status", {"status": {"phase": "Succeeded"}})
        kinds = [(await watch.next())[0] for _ in range(2)]
    assert kinds == ["ADDED", "DELETED"]
    async with api.watch(path, resourceVersion=revision, fieldSelector="metadata.name=b") as watch:
        await api.made(path, pod("c"))
        made = await api.made(path, pod("b"))
        assert await watch.next() == ("ADDED", made)


async def test_one_objects_path_is_read_not_watched(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    assert (await api.get(widgets(namespace, "a"), watch="true")).body == made


async def test_a_watch_stays_in_its_namespace(api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps")
    other = f"{namespace}-2"
    await api.made("/api/v1/namespaces", {"metadata": {"name": other}})
    async with api.watch(path, resourceVersion=await listed_revision(api, path)) as watch:
        await api.made(core(other, "configmaps"), config_map("elsewhere"))
        await api.made(path, config_map("here"))
        assert (await watch.next())[1]["metadata"]["name"] == "here"
    await api.delete(f"/api/v1/namespaces/{other}")


async def test_many_watchers_see_the_same(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    revision = await listed_revision(api, path)

    async def seen() -> list:
        async with api.watch(path, resourceVersion=revision) as watch:
            return [await watch.next() for _ in range(5)]

    readers = [asyncio.create_task(seen()) for _ in range(10)]
    for index in range(5):
        await api.made(path, widget(f"w{index}"))
    results = await asyncio.gather(*readers)
    assert all(result == results[0] for result in results)
    assert [obj["metadata"]["name"] for _, obj in results[0]] == [f"w{index}" for index in range(5)]


# --- bookmarks and initial events --------------------------------------------------------------------------------


async def test_bookmarks_come_when_asked_for(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    made = await api.made(path, widget("a"))
    revision = made["metadata"]["resourceVersion"]
    # near its end a real server sends one for sure; the local one sends them regularly
    async with api.watch(path, resourceVersion=revision, allowWatchBookmarks="true", timeoutSeconds=4) as watch:
        obj = await watch.until("BOOKMARK")
    assert (obj["kind"], obj["apiVersion"]) == ("Widget", made["apiVersion"])
    assert int(obj["metadata"]["resourceVersion"]) >= int(revision)
    assert "name" not in obj["metadata"]
    async with api.watch(path, resourceVersion=obj["metadata"]["resourceVersion"]) as resumed:
        await api.made(path, widget("b"))
        assert (await resumed.next())[0] == "ADDED"


async def test_initial_events_end_with_a_bookmark(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    for name in ("a", "b"):
        await api.made(path, widget(name))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": 10,
    }
    async with api.watch(path, **query) as watch:
        lines = [await watch.next() for _ in range(3)]
        assert sorted((kind, obj["metadata"].get("name")) for kind, obj in lines[:2]) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        kind, obj = lines[2]
        assert (kind, obj["metadata"]["annotations"]) == ("BOOKMARK", {END: "true"})
        await api.made(path, widget("c"))
        assert (await watch.until("ADDED"))["metadata"]["name"] == "c"


async def test_initial_events_of_the_future_are_a_timeout(api: Api, namespace: str) -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(widgets(namespace), resourceVersion="99999999999", **query) as watch:
        kind, status = await watch.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 504, "Timeout")


async def test_initial_events_need_a_match(api: Api, namespace: str) -> None:
    query = {"watch": "true", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    answer = await api.get(widgets(namespace), **query)
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes()[0] == (
        "resourceVersionMatch",
        "FieldValueForbidden",
        "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    )
    answer = await api.get(widgets(namespace), watch="true", resourceVersionMatch="NotOlderThan", resourceVersion="0")
    assert answer.refusal() == (422, "Invalid")


# --- the end of history ------------------------------------------------------------------------------------------


async def test_history_that_is_not_kept_is_gone(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    await api.made(path, widget("a"))
    if api.target.local is not None:
        api.target.local.store.compact()
    async with api.watch(path, resourceVersion="1") as watch:
        kind, status = await watch.next()
        assert kind == "ERROR"
        with pytest.raises(EOFError):
            await watch.next()
    assert (status["kind"], status["status"], status["code"], status["reason"]) == (
        "Status",
        "Failure",
        410,
        "Expired",
    )
    assert status["message"].startswith("too old resource version: 1 (")


async def test_a_watch_from_no_number_is_refused(api: Api, namespace: str) -> None:
    answer = await api.get(widgets(namespace), watch="true", resourceVersion="abc")
    assert answer.refusal() == (500, "")
    listed = await api.get(widgets(namespace), resourceVersion="abc")
    assert listed.refusal() == (400, "BadRequest")


# --- other forms -------------------------------------------------------------------------------------------------


async def test_a_watch_of_tables(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    await api.made(path, widget("a"))
    async with api.watch(path, TABLE) as watch:
        kind, table = await watch.next()
    assert (kind, table["kind"]) == ("ADDED", "Table")
    assert table["rows"][0]["cells"][0] == "a"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Size", "Age"]


async def test_a_watch_of_metadata_alone(api: Api, namespace: str) -> None:
    path = widgets(namespace)
    made = await api.made(path, widget("a"))
    async with api.watch(path, PARTIAL) as watch:
        kind, obj = await watch.next()
    assert (kind, obj) == (
        "ADDED",
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]},
    )
