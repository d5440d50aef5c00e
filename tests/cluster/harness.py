"""What the tests against the real API server share: a controller process, a played kubelet, a second watch.

In: a running control plane, a namespace, a database. Out: objects to drive and to ask.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import yaml

from tests.controlplane.server import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
CRD_FILE = ROOT / "deploy" / "crd" / "tfjob.yaml"
TFJOBS = "/apis/kubeflow.org/v1"
CORE = "/api/v1"
DEADLINE_SECONDS = 60.0
LABEL = "training.kubeflow.org/job-name"
Json = dict[str, Any]


class Api:
    """Raw requests to the API server as the admin."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        headers = {"Authorization": f"Bearer {plane.admin_token}"}
        connector = aiohttp.TCPConnector(ssl=plane.ssl_context(), limit=0)
        self.session = aiohttp.ClientSession(plane.url, headers=headers, connector=connector)

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        """One request that must succeed."""
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, path, data=data, headers={"Content-Type": content_type}) as answer:
            text = await answer.text()
            assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
            return json.loads(text)  # type: ignore[no-any-return]

    async def try_call(self, method: str, path: str, body: Any, content_type: str) -> Json:
        """One request; the Status object when it was refused."""
        headers = {"Content-Type": content_type}
        async with self.session.request(method, path, data=json.dumps(body), headers=headers) as answer:
            return json.loads(await answer.text())  # type: ignore[no-any-return]

    async def status_of(self, method: str, path: str, body: Any = None) -> int:
        """The code of one request that may fail."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        async with self.session.request(method, path, data=data, headers=headers) as answer:
            await answer.read()
            return answer.status

    async def watch(self, path: str, version: str) -> AsyncIterator[Json]:
        """The events of a watch, as they come."""
        query = {"watch": "1", "resourceVersion": version}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.session.get(path, params=query, timeout=timeout) as answer:
            assert answer.status == 200, await answer.text()
            while line := await answer.content.readline():
                yield json.loads(line)


async def install_crd(api: Api) -> None:
    """Applies the CRD, server-side, and waits until it is served."""
    body = yaml.safe_load(CRD_FILE.read_text())
    name = body["metadata"]["name"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=tests&force=true"
    await api.call("PATCH", path, body, "application/apply-patch+yaml")

    async def is_served() -> bool:
        return await api.status_of("GET", f"{TFJOBS}/tfjobs") == 200

    await until(is_served, "the CRD is served")


async def until(holds: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS) -> Any:
    """Polls until `holds` is true and gives its value; fails with `what` when the time is over."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"not in {seconds:.0f} s: {what}"
        await asyncio.sleep(0.05)


class Version(NamedTuple):
    """One object version that a watch delivered."""

    kind: str
    uid: str
    resource_version: int


class SecondWatch:
    """An independent watch of a namespace: every object version that the API server delivers."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._tasks: list[asyncio.Task[None]] = []
        self.seen: list[Version] = []

    async def start(self) -> None:
        for path, kind in ((f"{TFJOBS}", "TFJob"), (CORE, "Pod"), (CORE, "Service")):
            url = f"{path}/namespaces/{self._namespace}/{kind.lower()}s"
            version = (await self._api.call("GET", url))["metadata"]["resourceVersion"]
            self._tasks.append(asyncio.create_task(self._follow(url, kind, version)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, url: str, kind: str, version: str) -> None:
        async for event in self._api.watch(url, version):
            metadata = event["object"]["metadata"]
            if kind == "TFJob" or LABEL in (metadata.get("labels") or {}):
                self.seen.append(Version(kind, metadata["uid"], int(metadata["resourceVersion"])))


class Kubelet:
    """The kubelet that a test plays: pods are bound when they appear, and gone soon after they are to go."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._base = f"{CORE}/namespaces/{namespace}/pods"
        self._task: asyncio.Task[None] | None = None
        self.pods: dict[str, Json] = {}
        self.created: dict[str, list[str]] = {}

    async def start(self) -> None:
        """Takes up the pods that are there, and follows."""
        found = await self._api.call("GET", self._base)
        for pod in found["items"]:
            await self._see("ADDED", pod)
        self._task = asyncio.create_task(self._follow(found["metadata"]["resourceVersion"]))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, version: str) -> None:
        async for event in self._api.watch(self._base, version):
            await self._see(event["type"], event["object"])

    async def _see(self, kind: str, pod: Json) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if kind == "DELETED":
            if self.pods.get(name, {}).get("metadata", {}).get("uid") == uid:
                del self.pods[name]
            return
        self.pods[name] = pod
        uids = self.created.setdefault(name, [])
        if uid not in uids:
            uids.append(uid)
        if not pod["spec"].get("nodeName"):
            await self.bind(name)
        if pod["metadata"].get("deletionTimestamp"):
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self._api.status_of("DELETE", f"{self._base}/{name}", options)

    async def bind(self, name: str) -> None:
        """What the scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        binding = {"metadata": {"name": name}, "target": target}
        await self._api.status_of("POST", f"{self._base}/{name}/binding", binding)

    async def report(self, name: str, phase: str, exit_code: int | None = None) -> None:
        """Writes a pod's status: Running, or ended with a code."""
        await until(lambda: name in self.pods and self.pods[name]["spec"].get("nodeName"), f"pod {name} is bound")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if exit_code is None:
            state: Json = {"running": {"startedAt": now}}
        else:
            reason = "Completed" if exit_code == 0 else "Error"
            state = {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": now, "finishedAt": now}}
        container = {
            "name": "tensorflow", "image": "example/train:1", "imageID": "", "ready": exit_code is None,
            "restartCount": 0, "state": state,
        }  # fmt: skip
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        await self._api.call("PATCH", f"{self._base}/{name}/status", status, "application/merge-patch+json")


class ControllerProcess:
    """`tfjob controller` as its users run it."""

    def __init__(self, plane: ControlPlane, database_url: str, namespace: str, log_file: Path, *further: str) -> None:
        """`further` arguments win over those that are always given; without any it leads without a Lease."""
        self._arguments = [
            sys.executable, "-m", "controller", "controller", "--kubeconfig", str(plane.kubeconfig),
            "--database-url", database_url, "--namespace", namespace, "--log-level", "info", "--log-format", "json",
            *further,
        ]  # fmt: skip
        self.log_file = log_file
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._arguments, cwd=ROOT, env=environment, stdout=log, stderr=log
            )

    async def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.terminate()
        return await self.process.wait()

    def said(self) -> str:
        return self.log_file.read_text(errors="replace")


@asynccontextmanager
async def running(controller: ControllerProcess) -> AsyncIterator[ControllerProcess]:
    """The controller while the block lasts; its own words when the block fails."""
    await controller.start()
    try:
        yield controller
    except BaseException:
        print(controller.said()[-8000:])
        raise
    finally:
        await controller.kill()
