"""What the tests of the loops share: the controller in this process, a local API server, a database that can be copied.

In: a database URL. Out: jobs, pods and conditions of a running controller. No kubelet: a test says what pods do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from controller.app import Controller
from controller.kube import KubeClient, connect
from controller.local.apiserver import LocalApiServer
from controller.local.manifests import crd_manifest
from controller.log.connection import dsn_of
from controller.settings import Settings
from tests.cluster.harness import until

TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
PODS = "/api/v1/namespaces/default/pods"
Json = dict[str, Any]


class World:
    """One API server, one database, and a controller that is started and stopped."""

    def __init__(self, server: LocalApiServer, client: KubeClient, database_url: str) -> None:
        self.server, self.client, self.database_url = server, client, database_url
        self.controller_client = client
        self.stop_signal = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.stop_signal = asyncio.Event()
        settings = Settings(database_url=self.database_url)
        self.task = asyncio.create_task(Controller(settings, self.controller_client).run(self.stop_signal))

    async def stop(self) -> None:
        """As SIGTERM does; raises what the controller raised."""
        self.stop_signal.set()
        if self.task is not None:
            task, self.task = self.task, None
            await task

    async def send(self, method: str, path: str, body: Any = None) -> Json:
        found: Json = (await self.client.request(method, path, body=body)).json()
        return found

    async def submit(self, name: str, workers: int = 1) -> None:
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
        await self.send(
            "POST",
            TFJOBS,
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "metadata": {"name": name},
                "spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}},
            },
        )

    async def pods(self) -> dict[str, str]:
        """name → uid."""
        items = (await self.send("GET", PODS))["items"]
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}

    async def has_pods(self, *names: str) -> bool:
        return set(names) <= set(await self.pods())

    async def end(self, pod: str, exit_code: int = 0) -> None:
        """What a kubelet reports of a pod that ended."""
        state = {"terminated": {"exitCode": exit_code, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}}
        container = {
            "name": "tensorflow", "image": "example/train:1", "imageID": "", "ready": False, "restartCount": 0,
            "state": state,
        }  # fmt: skip
        found = await self.send("GET", f"{PODS}/{pod}")
        found["status"] = {"phase": "Succeeded" if exit_code == 0 else "Failed", "containerStatuses": [container]}
        await self.send("PUT", f"{PODS}/{pod}/status", found)

    async def is_in(self, name: str, state: str) -> bool:
        found = ((await self.send("GET", f"{TFJOBS}/{name}")).get("status") or {}).get("conditions") or []
        return bool(found) and found[-1]["type"] == state and found[-1]["status"] == "True"

    async def fetch(self, query: str) -> list[Any]:
        connection = await asyncpg.connect(dsn_of(self.database_url))
        try:
            return [row[0] for row in await connection.fetch(query)]
        finally:
            await connection.close()


@asynccontextmanager
async def world_of(database_url: str, folder: Path) -> AsyncIterator[World]:
    server = LocalApiServer()
    await server.start()
    try:
        server.store.create("customresourcedefinitions.apiextensions.k8s.io", crd_manifest())
        file = folder / "kubeconfig"
        file.write_text(json.dumps(server.kubeconfig()))
        async with await connect(file, None, None) as client:
            world = World(server, client, database_url)
            try:
                yield world
            finally:
                if world.task is not None:
                    world.task.cancel()
                    await asyncio.gather(world.task, return_exceptions=True)
    finally:
        await server.stop()


class Databases:
    """The databases of the server, as whoever restores a backup handles them."""

    def __init__(self, connection: asyncpg.Connection, name: str) -> None:
        self._connection, self.name = connection, name

    async def rename(self, old: str, new: str) -> None:
        """Takes the name away from whoever is connected."""

        async def is_done() -> bool:
            await self._connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", old
            )
            try:
                await self._connection.execute(f'ALTER DATABASE "{old}" RENAME TO "{new}"')
            except asyncpg.ObjectInUseError:
                return False
            return True

        await until(is_done, f"{old} is free")

    async def copy(self, new: str) -> None:
        await self._connection.execute(f'CREATE DATABASE "{new}" TEMPLATE "{self.name}"')

    async def drop(self, name: str) -> None:
        await self._connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@asynccontextmanager
async def databases_of(database_url: str, maintenance_dsn: str) -> AsyncIterator[Databases]:
    connection = await asyncpg.connect(maintenance_dsn)
    try:
        yield Databases(connection, urlsplit(dsn_of(database_url)).path.lstrip("/"))
    finally:
        await connection.close()
