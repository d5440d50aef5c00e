"""The watch against a real kube-apiserver: the same cases, a restart of it, and an independent watch beside ours."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.register_assert_rewrite("tests.edges.watch_cases")

from controller.kube import KubeClient, connect  # noqa: E402
from controller.model.events import Op  # noqa: E402
from tests.controlplane.server import ControlPlane  # noqa: E402
from tests.edges.watch_cases import *  # noqa: E402, F403
from tests.edges.watch_world import ListSink, World, running, with_tfjobs  # noqa: E402


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with await connect(control_plane.kubeconfig) as found, with_tfjobs(found):
        yield found


@pytest.fixture
async def world(client: KubeClient, control_plane: ControlPlane, real_namespace: str) -> World:
    async def compact() -> None:
        await control_plane.kill("kube-apiserver", signal.SIGKILL)  # a gentle end waits a minute for open connections
        await control_plane.compact()

    return World(client, compact, real_namespace, only=real_namespace)


async def test_a_restart_of_the_api_server_loses_nothing(world: World, control_plane: ControlPlane) -> None:
    sink = ListSink()
    watches = world.watches(sink)
    async with running(watches):
        await sink.until(sink.has(Op.SYNCED))
        await world.create("Pod", "before")
        await sink.until(sink.has(Op.ADDED, "before"))
        await control_plane.kill("kube-apiserver", signal.SIGKILL)
        await control_plane.start_apiserver()
        await world.create("Pod", "after")
        await sink.until(sink.has(Op.ADDED, "after"), seconds=60)
    rows = [row for row in sink.rows("pods") if row[0] not in ("GAP", "SYNCED")]
    assert rows == [("ADDED", "before"), ("ADDED", "after")]


async def test_everything_an_independent_watch_sees_is_put_once(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        seen: set[tuple[str, str]] = set()

        async def watch_beside() -> None:
            query: dict[str, str | int | bool | None] = {
                "watch": True,
                "labelSelector": "training.kubeflow.org/job-name",
            }
            path = f"/api/v1/namespaces/{world.namespace}/pods"
            async with world.client.stream(path, query=query) as answer:
                async for text in answer.content:
                    body = json.loads(text)["object"]["metadata"]
                    seen.add((body["name"], body["resourceVersion"]))
                    if body["name"] == "last":
                        return

        beside = asyncio.create_task(watch_beside())
        for index in range(5):
            await world.create("Pod", f"p{index}")
            for phase in ("Running", "Failed"):
                await world.patch("Pod", f"p{index}", {"status": {"phase": phase}}, sub="/status")
            await world.delete("Pod", f"p{index}")
        await world.create("Pod", "last")
        await asyncio.wait_for(beside, 30)
        await sink.until(sink.has(Op.ADDED, "last"))
    ours = [(each.name, str(each.resource_version)) for each in sink.observations("pods")]
    assert len(ours) == len(set(ours))
    assert seen <= set(ours)
