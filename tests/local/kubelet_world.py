"""A local API server and a kubelet on it, with what a test needs to make pods and to see what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller.local.apiserver import LocalApiServer
from controller.local.apiserver.deletion import DeleteOptions
from controller.local.kubelet import ProcessKubelet
from tests.local.process_watch import DEADLINE_SECONDS, becomes_true

Json = dict[str, Any]

NAMESPACE = "default"


def pod_of(name: str, *containers: Json, **spec: Any) -> Json:
    """A pod whose containers get a name and an image where they have none; restartPolicy Never."""
    named = [{"name": "tensorflow", "image": "python:3.11", **container} for container in containers]
    job = spec.pop("job", None)
    labels = {} if job is None else {"training.kubeflow.org/job-name": job}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": named, **spec},
    }


def python(code: str, **container: Any) -> Json:
    """A container that runs Python code."""
    return {"command": ["python", "-c", code], **container}


def shell(code: str, **container: Any) -> Json:
    """A container that runs shell code; $$ is a shell's own here (Kubernetes reads $$ as one $)."""
    return {"command": ["sh", "-c", code.replace("$$", "$$$$")], **container}


def state_of(pod: Json, container: int = 0) -> Json:
    """The state of one container."""
    state: Json = pod["status"]["containerStatuses"][container]["state"]
    return state


class World:
    """`said` holds the kubelet's lines; `kubelet` and `server` are the real ones."""

    def __init__(self, work_dir: Path) -> None:
        self.work_dir = work_dir
        self.said: list[str] = []
        self.server = LocalApiServer()
        self.kubelet: ProcessKubelet

    async def start(self) -> None:
        await self.server.start()
        self.kubelet = ProcessKubelet(self.server.url, self.work_dir, say=self.said.append, restart_backoff_seconds=0.2)
        self.server.log_reader = self.kubelet.log_reader
        await self.kubelet.start()

    async def stop(self) -> None:
        await self.kubelet.stop()
        await self.server.stop()

    def create(self, pod: Json) -> Json:
        return dict(self.server.store.create("pods", pod, NAMESPACE).body)

    def config_map(self, name: str, data: dict[str, str]) -> None:
        self.server.store.create("configmaps", {"metadata": {"name": name}, "data": data}, NAMESPACE)

    def delete(self, name: str, grace_seconds: int | None = None) -> None:
        options = DeleteOptions(grace_period_seconds=grace_seconds)
        self.server.store.delete("pods", NAMESPACE, name, options)

    async def patch(self, name: str, patch: list[Json]) -> None:
        """A JSON patch of the pod."""
        url = f"{self.server.url}/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        headers = {"Content-Type": "application/json-patch+json"}
        async with aiohttp.ClientSession() as session, session.patch(url, json=patch, headers=headers) as response:
            assert response.status == 200, await response.text()

    def versions(self, name: str) -> list[tuple[str, Json]]:
        """Every version of the pod that the server has seen: (ADDED, MODIFIED or DELETED; the object)."""
        return [(change.kind, change.now.body) for change in self.server.store.history("pods", NAMESPACE, name)]

    def phases(self, name: str) -> list[str]:
        """The pod's phases in order, each once in a row."""
        phases = [body.get("status", {}).get("phase", "") for _, body in self.versions(name)]
        return [phase for before, phase in zip(["", *phases], phases, strict=False) if phase != before]

    async def until(self, name: str, condition: Callable[[Json], bool]) -> Json:
        """The first version of the pod from the newest on that fits; fails when none comes."""
        changed = asyncio.Event()
        end = self.server.store.subscribe(lambda _: changed.set())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    changed.clear()
                    kind, body = self.versions(name)[-1]
                    if kind != "DELETED" and condition(body):
                        return body
                    await changed.wait()
        except TimeoutError:
            pytest.fail(f"pod {name} stays {self.versions(name)[-1]}")
        finally:
            end()

    async def until_phase(self, name: str, phase: str) -> Json:
        return await self.until(name, lambda pod: pod.get("status", {}).get("phase") == phase)

    async def until_gone(self, name: str) -> Json:
        """The last version of a pod that goes."""
        assert await becomes_true(lambda: self.versions(name)[-1][0] == "DELETED"), self.versions(name)[-1]
        return self.versions(name)[-1][1]

    async def log(self, name: str, **options: str) -> str:
        """The pod's log as the API server gives it, or its refusal."""
        url = f"{self.server.url}/api/v1/namespaces/{NAMESPACE}/pods/{name}/log"
        async with aiohttp.ClientSession() as session, session.get(url, params=options) as response:
            return await response.text()

    async def until_logged(self, name: str, words: str) -> str:
        """The log, once it holds these words."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while words not in (text := await self.log(name)):
            assert time.monotonic() < deadline, text
            await asyncio.sleep(0.02)
        return text

    def warnings(self, reason: str) -> list[str]:
        """The messages of the core/v1 Events of this reason."""
        return [event["message"] for event in self.server.store.list("events") if event["reason"] == reason]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    one = World(tmp_path / "work dir")
    await one.start()
    yield one
    await one.stop()
