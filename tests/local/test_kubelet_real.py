"""A pod's life on a real API server: it takes every binding, status and deletion that the kubelet sends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp

from controller.local.kubelet.addresses import LoopbackPorts
from controller.local.kubelet.api import KubeletApi
from controller.local.kubelet.container import PodGround
from controller.local.kubelet.pod import PodLife
from controller.local.kubelet.processes import Processes
from tests.controlplane.server import ControlPlane
from tests.local.kubelet_world import pod_of, shell, state_of

Json = dict[str, Any]


def now() -> int:
    return int(time.time() * 1_000_000)


class RealLives:
    """Pods of one namespace of the real server, each with a PodLife fed by its watch. (A whole kubelet would take the
    pods of all other tests as well.)"""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.api = KubeletApi(plane.url, plane.admin_token, plane.ssl_context())
        self.processes = Processes()
        self.session = aiohttp.ClientSession(
            f"{plane.url}/api/v1/namespaces/{namespace}/",
            headers={"Authorization": f"Bearer {plane.admin_token}"},
            connector=aiohttp.TCPConnector(ssl=plane.ssl_context()),
        )
        self.namespace = namespace
        self.folder = folder
        self.versions: dict[str, list[tuple[str, Json]]] = {}
        self.lives: dict[str, tuple[PodLife, asyncio.Task[None]]] = {}
        self.seen = asyncio.Condition()

    async def feed(self) -> None:
        listed, position = await self.api.list_pods()
        for pod in listed:
            await self.take("ADDED", pod)
        async for kind, pod in self.api.watch_pods(position):
            if kind != "BOOKMARK":
                await self.take(kind, pod)

    async def take(self, kind: str, pod: Json) -> None:
        if pod["metadata"]["namespace"] != self.namespace:
            return
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            self.lives[name][1].cancel()
        elif name in self.lives:
            self.lives[name][0].see(pod)
        else:
            self.lives[name] = self.begun(pod)
        async with self.seen:
            self.versions.setdefault(name, []).append((kind, pod))
            self.seen.notify_all()

    def begun(self, pod: Json) -> tuple[PodLife, asyncio.Task[None]]:
        folder = self.folder / pod["metadata"]["name"]
        folder.mkdir()
        ground = PodGround(
            pod=pod,
            api=self.api,
            processes=self.processes,
            ports=LoopbackPorts(),
            folder=folder,
            clock=now,
            backoff_seconds=0.2,
            retry_seconds=0.2,
            warn=lambda reason, message: None,
        )
        life = PodLife(ground, "local", self.folder / "claims")
        return life, asyncio.create_task(life.run())

    async def create(self, pod: Json) -> None:
        async with self.session.post("pods", json=pod) as answer:
            assert answer.status == 201, await answer.text()

    async def until(self, name: str, phase: str, kind: str = "MODIFIED") -> Json:
        async with asyncio.timeout(30), self.seen:
            while True:
                last = self.versions.get(name, [("", {})])[-1]
                if last[0] == kind and last[1]["status"]["phase"] == phase:
                    return last[1]
                life = self.lives.get(name)
                if life is not None and life[1].done() and not life[1].cancelled():
                    life[1].result()
                await self.seen.wait()

    def phases(self, name: str) -> list[str]:
        phases = [pod["status"]["phase"] for _, pod in self.versions[name]]
        return [phase for before, phase in zip(["", *phases], phases, strict=False) if phase != before]


async def test_a_real_server_takes_what_the_kubelet_sends(
    control_plane: ControlPlane, real_namespace: str, tmp_path: Path
) -> None:
    world = RealLives(control_plane, real_namespace, tmp_path)
    world.api.open()
    world.processes.open()
    feed = asyncio.create_task(world.feed())
    try:
        count = "echo run >> /memory/runs; n=$(wc -l < /memory/runs); [ $n -ge 3 ] || exit $n"
        mount = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
        init = [{"name": "first", "image": "x", **shell("true")}]
        await world.create(pod_of("good", shell("exit 0"), initContainers=init))
        await world.create(pod_of("bad", shell("echo why; exit 3", terminationMessagePolicy="FallbackToLogsOnError")))
        await world.create(pod_of("absent", {"command": ["no-such-program"]}))
        await world.create(
            pod_of("again", shell(count, **mount), restartPolicy="OnFailure", volumes=[{"name": "memory"}])
        )
        await world.create(pod_of("stopped", shell("sleep 1000")))

        assert state_of(await world.until("good", "Succeeded"))["terminated"]["exitCode"] == 0
        bad = state_of(await world.until("bad", "Failed"))["terminated"]
        assert (bad["exitCode"], bad["message"]) == (3, "why\n")
        assert state_of(await world.until("absent", "Failed"))["terminated"]["exitCode"] == 128
        again = (await world.until("again", "Succeeded"))["status"]["containerStatuses"][0]
        assert (again["restartCount"], again["lastState"]["terminated"]["exitCode"]) == (2, 2)
        await world.until("stopped", "Running")
        async with world.session.delete("pods/stopped") as answer:
            assert answer.status == 200
        stopped = await world.until("stopped", "Failed", "DELETED")
        assert state_of(stopped)["terminated"]["exitCode"] == 143
        assert world.phases("again") == ["Pending", "Running", "Succeeded"]
    finally:
        tasks = [feed, *(task for _, task in world.lives.values())]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await world.session.close()
        await world.api.close()
        world.processes.close()
