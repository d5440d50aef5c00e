"""How many requests the controller makes: of a job's whole life, and of a thousand jobs that want nothing.

Counted at its client; seconds say nothing on a shared machine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller.kube import KubeClient, Response
from controller.kube.credentials import credentials_of
from tests.cluster.harness import until
from tests.run.world import PODS, TFJOBS, World, world_of

MOST_REQUESTS = 22
"""Of a job of 1 chief, 2 PS and 4 workers, from its submission until it is cleaned up, Events included (DESIGN §5)."""
FINISHED, RUNNING = 1000, 100
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
Json = dict[str, Any]


class CountingClient(KubeClient):
    """Counts what is asked for: (method, plural)."""

    asked: Counter[tuple[str, str]]

    async def request(self, method: str, path: str, **options: Any) -> Response:
        plural = next(part for part in ("tfjobs", "pods", "services", "events", "") if f"/{part}" in path)
        self.asked[method, plural] += 1
        return await super().request(method, path, **options)

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        self.streams.append(path)
        async with super().stream(path, **options) as answer:
            self.open_streams.append(answer)
            yield answer

    def writes(self) -> dict[tuple[str, str], int]:
        return {key: count for key, count in self.asked.items() if key[0] != "GET"}


@asynccontextmanager
async def counted(database_url: str, folder: Path) -> AsyncIterator[tuple[World, CountingClient]]:
    """A world whose controller has a client that counts."""
    async with world_of(database_url, folder) as world:
        credentials = await credentials_of(folder / "kubeconfig", None, None)
        async with CountingClient(credentials, (await credentials.access()).base_url) as client:
            client.asked, client.streams, client.open_streams = Counter(), [], []
            world.controller_client = client
            yield world, client
            await world.stop()


def job_of(name: str, status: Json | None = None, **replicas: int) -> Json:
    specs = {kind: {"replicas": count, "template": TEMPLATE} for kind, count in replicas.items()}
    spec = {"runPolicy": {"cleanPodPolicy": "All"}, "tfReplicaSpecs": specs}
    body: Json = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}
    return body | ({"status": status} if status else {})


async def report(world: World, pod: str, phase: str, exit_code: int | None = None) -> None:
    """What a kubelet reports."""
    state: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "finishedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "tensorflow", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": state}
    found = await world.send("GET", f"{PODS}/{pod}")
    found["status"] = {"phase": phase, "containerStatuses": [container]}
    await world.send("PUT", f"{PODS}/{pod}/status", found)


async def test_a_job_costs_at_most_22_requests_from_submission_to_cleanup(database_url: str, tmp_path: Path) -> None:
    async with counted(database_url, tmp_path) as (world, client):
        world.start()
        await until(lambda: len(client.open_streams) >= 4, "the watches are open")
        client.asked.clear()
        await world.send("POST", TFJOBS, job_of("a", Chief=1, PS=2, Worker=4))
        names = ["a-chief-0", "a-ps-0", "a-ps-1", *(f"a-worker-{index}" for index in range(4))]
        await until(lambda: world.has_pods(*names), "all pods")
        for name in names:
            await report(world, name, "Running")
        await until(lambda: world.is_in("a", "Running"), "the job runs")
        await report(world, "a-chief-0", "Succeeded", 0)
        await until(lambda: world.is_in("a", "Succeeded"), "the job has succeeded")

        async def is_clean() -> bool:
            services = await world.send("GET", "/api/v1/namespaces/default/services")
            return not await world.pods() and not services["items"]

        await until(is_clean, "everything is cleaned up")
        await asyncio.sleep(1.0)
        assert sum(client.asked.values()) <= MOST_REQUESTS, dict(client.asked)
        # One request each: a pod and a service for every slot; the pods and the services go by one request each.
        assert client.asked["POST", "pods"] == client.asked["POST", "services"] == len(names)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.soak)])
async def test_quiet_jobs_cost_no_writes(seconds: float, database_url: str, tmp_path: Path) -> None:
    """A thousand finished and a hundred running jobs: nothing is written, also when the watches begin anew and the
    controller is started again."""
    async with counted(database_url, tmp_path) as (world, client):
        ended = {
            "conditions": [
                {"type": "Created", "status": "True", "reason": "TFJobCreated", "message": ""},
                {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": ""},
            ],
            "completionTime": "2026-01-01T00:00:00Z",
        }
        for number in range(FINISHED):
            world.server.store.create("tfjobs.kubeflow.org", job_of(f"ended-{number}", ended, Worker=1), "default")
        for number in range(RUNNING):
            await world.send("POST", TFJOBS, job_of(f"runs-{number}", Worker=1))
        names = [f"runs-{number}-worker-0" for number in range(RUNNING)]
        world.start()
        await until(lambda: world.has_pods(*names), "all pods")
        for name in names:
            await report(world, name, "Running")
        last = f"runs-{RUNNING - 1}"
        await until(lambda: world.is_in(last, "Running"), "the jobs run")
        await until(lambda: all_running(world), "all of them")
        await until(lambda: is_still(client), "nothing more is written")
        before = client.writes()
        for answer in client.open_streams:
            answer.close()
        await asyncio.sleep(seconds)
        await world.stop()
        world.start()
        jobs = await world.fetch("SELECT count(DISTINCT uid) FROM events WHERE kind = 'TFJob'")
        await asyncio.sleep(seconds)
        assert client.writes() == before
        assert jobs == [FINISHED + RUNNING]


async def all_running(world: World) -> bool:
    items = (await world.send("GET", TFJOBS))["items"]
    states = [(each.get("status") or {}).get("conditions", [{}])[-1].get("type") for each in items]
    return states.count("Running") == RUNNING


async def is_still(client: CountingClient) -> bool:
    before = client.writes()
    await asyncio.sleep(1.0)
    return client.writes() == before
