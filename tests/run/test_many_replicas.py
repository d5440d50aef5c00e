"""A job of very many replicas beside a small one: the small one has its turn, and the many go by one request.

Five hundred in every run, five thousand in `make soak`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.harness import until
from tests.run.test_requests import counted, job_of, report
from tests.run.world import TFJOBS, World

SECONDS = 600.0


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.soak)])
async def test_many_replicas_starve_nobody(count: int, database_url: str, tmp_path: Path) -> None:
    async with counted(database_url, tmp_path) as (world, client):
        world.start()
        await until(lambda: len(client.open_streams) >= 4, "the watches are open")
        large = job_of("large", Chief=1, Worker=count)
        # Otherwise every pod names every other in TF_CONFIG: a gigabyte at five thousand.
        large["spec"]["enableDynamicWorker"] = True
        await world.send("POST", TFJOBS, large)
        await until(lambda: pod_count(world) > 0, "the first pods of the large job")
        await world.send("POST", TFJOBS, job_of("small", Worker=2))
        await until(lambda: world.has_pods("small-worker-0", "small-worker-1"), "the small job's pods")
        assert pod_count(world) < count, "the small job had to wait for all of the large one"
        await report(world, "small-worker-0", "Succeeded", 0)
        await until(lambda: world.is_in("small", "Succeeded"), "the small job's end")
        await until(lambda: pod_count(world) == count + 1, "all pods of the large job", SECONDS)
        await report(world, "large-chief-0", "Running")
        await until(lambda: world.is_in("large", "Running"), "the large job runs", SECONDS)
        client.asked.clear()
        await report(world, "large-chief-0", "Succeeded", 0)
        await until(lambda: world.is_in("large", "Succeeded"), "the large job's end", SECONDS)
        await until(lambda: pod_count(world) == 0, "its pods are gone", SECONDS)
        deletions = {key: number for key, number in client.asked.items() if key[0] == "DELETE"}
        assert deletions in ({("DELETE", "pods"): 1, ("DELETE", "services"): 1}, {("DELETE", "pods"): 1})


def pod_count(world: World) -> int:
    return len(list(world.server.store.list("pods")))
