"""The watch against the local API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.edges.watch_cases")

from controller.model.events import Op  # noqa: E402
from tests.edges.watch_cases import *  # noqa: E402, F403
from tests.edges.watch_world import ListSink, LogOfSink, World, local_world, running  # noqa: E402


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with local_world(tmp_path) as found:
        yield found


async def test_a_namespaced_watch_sees_its_namespace_only(world: World) -> None:
    await world.send("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "other"}})
    sink = ListSink()
    async with running(world.watches(sink, namespace="other")):
        await sink.until(sink.has(Op.SYNCED))
        await world.create("Pod", "not-mine")
        await world.create("Pod", "mine", namespace="other")
        await sink.until(sink.has(Op.ADDED, "mine"))
    assert [each.name for each in sink.observations()] == ["mine"]


async def test_a_log_of_all_namespaces_loses_nothing_under_a_namespaced_watch(world: World) -> None:
    await world.send("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "other"}})
    before = ListSink()
    async with running(world.watches(before)):
        await before.until(before.has(Op.SYNCED))
        await world.create("Pod", "not-mine")
        await world.create("Pod", "mine", namespace="other")
        await before.until(before.has(Op.ADDED, "mine"))
    await world.delete("Pod", "not-mine", gracePeriodSeconds=0)
    await world.delete("Pod", "mine", namespace="other", gracePeriodSeconds=0)
    await world.compact()
    after = ListSink()
    async with running(world.watches(after, LogOfSink(before), namespace="other")):
        await after.until(after.has(Op.SYNCED))
    assert [(each.op, each.name) for each in after.observations()] == [(Op.SYNC_DELETED, "mine")]
