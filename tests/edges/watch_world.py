"""What the tests of the watch share: a local API server, a client, and a sink that tells when something came."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from controller.kube import AlreadyExists, KubeClient, NotFound, TooManyRequests, connect
from controller.local.apiserver import LocalApiServer
from controller.model.events import DELETIONS, Op
from controller.watch import Mark, Observation, Pace, StreamFact, Watched, Watches
from controller.watch.heads import Head
from controller.watch.normalise import Normaliser
from controller.watch.redact import Redaction

JOB_LABEL = "training.kubeflow.org/job-name"

TFJOB_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tfjobs.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "scope": "Namespaced",
        "names": {"kind": "TFJob", "plural": "tfjobs", "singular": "tfjob", "listKind": "TFJobList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {"status": {}},
            }
        ],
    },
}


class ListSink:
    """Keeps everything that was put; `until` waits for a condition on it."""

    def __init__(self) -> None:
        self.items: list[Watched] = []
        self._changed = asyncio.Condition()
        self.gate = asyncio.Event()
        """Cleared: the sink is full."""
        self.gate.set()

    async def put(self, item: Watched) -> None:
        await self.gate.wait()
        async with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    def observations(self, resource: str | None = None) -> list[Observation]:
        return [i for i in self.items if isinstance(i, Observation) and (resource is None or i.resource == resource)]

    def rows(self, resource: str | None = None) -> list[tuple[str, str]]:
        """(op, name) of what was observed, gaps among them by their resources."""
        found: list[tuple[str, str]] = []
        for item in self.items:
            match item:
                case Observation() if resource is None or item.resource == resource:
                    found.append((item.op.value, item.name))
                case StreamFact():
                    found.append((item.op.value, ",".join(item.fact.resources)))
                case _:
                    pass
        return found

    def has(self, op: Op, name: str = "") -> Callable[[], bool]:
        """A condition: an observation (or a gap's row) of that op and name has come."""
        return lambda: any(row[0] == op.value and (not name or row[1] == name) for row in self.rows())

    def in_step(self, resource: str) -> Callable[[], bool]:
        """A condition: a gap of that resource has come to its end. Resources may lose their place one after another,
        and then have a gap each."""
        return lambda: any(row[0] == "SYNCED" and resource in row[1].split(",") for row in self.rows())

    def marks(self, resource: str) -> list[Mark]:
        return [i for i in self.items if isinstance(i, Mark) and i.resource == resource]


class LogOfSink:
    """The heads and marks that a log would have after committing what a sink holds."""

    def __init__(self, *sinks: ListSink) -> None:
        self.items = [item for sink in sinks for item in sink.items]

    async def heads(self, resource: str) -> Mapping[str, Head]:
        found: dict[str, Head] = {}
        for item in self.items:
            if isinstance(item, Observation) and item.resource == resource:
                if item.op in DELETIONS:
                    found.pop(item.uid, None)
                else:
                    found[item.uid] = Head(
                        item.namespace, item.name, item.uid, item.resource_version, item.job_uid, item.job_name
                    )
        return found

    def marks(self) -> dict[str, Mark]:
        return {item.resource: item for item in self.items if isinstance(item, Mark)}


class Pauses:
    """Takes the place of waiting: counts and remembers how long the watch would have waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


async def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Polls a condition that nothing signals."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def ticking() -> Callable[[], int]:
    """A clock that goes on by a microsecond at each look."""
    counter = itertools.count(1_000_000)
    return lambda: next(counter)


@asynccontextmanager
async def running(watches: Watches) -> AsyncIterator[asyncio.Task[None]]:
    """The watches at work; at the end they are cancelled, and must end at once."""
    task = asyncio.create_task(watches.run())
    try:
        yield task
    finally:
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, "the watches did not end when they were cancelled"
        if not task.cancelled() and (error := task.exception()):
            raise error


class World:
    """One namespace of an API server with the TFJob kind, and a client of it."""

    def __init__(
        self, client: KubeClient, compact: Callable[[], Awaitable[None]], namespace: str, only: str | None = None
    ) -> None:
        """`only` is the namespace that the watches see (None: all)."""
        self.client = client
        self.compact = compact
        self.namespace = namespace
        self.only = only
        self.pauses = Pauses()

    def watches(self, sink: ListSink, log: LogOfSink | None = None, **options: Any) -> Watches:
        log = log or LogOfSink()
        pace = options.pop("pace", Pace(pause=self.pauses, luck=lambda: 0.5))
        return Watches(
            self.client,
            log,
            sink,
            log.marks(),
            options.pop("namespace", self.only),
            options.pop("clock", ticking()),
            redaction_key=b"k",
            pace=pace,
            **options,
        )

    async def send(self, method: str, path: str, body: Any = None, content_type: str | None = None) -> Any:
        return (await self.client.request(method, path, body=body, content_type=content_type)).json()

    async def create(self, kind: str, name: str, namespace: str | None = None, **changes: Any) -> Any:
        manifest = MANIFESTS[kind](name) | changes
        return await self.send("POST", f"{PATHS[kind].format(namespace=namespace or self.namespace)}", manifest)

    async def patch(self, kind: str, name: str, patch: Any, namespace: str | None = None, sub: str = "") -> Any:
        path = f"{PATHS[kind].format(namespace=namespace or self.namespace)}/{name}{sub}"
        return await self.send("PATCH", path, patch, "application/merge-patch+json")

    async def delete(self, kind: str, name: str, namespace: str | None = None, **body: Any) -> Any:
        return await self.send(
            "DELETE", f"{PATHS[kind].format(namespace=namespace or self.namespace)}/{name}", body or None
        )


PATHS = {
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Event": "/api/v1/namespaces/{namespace}/events",
}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {JOB_LABEL: "job"}, **metadata},
        "spec": {"containers": [{"name": "tensorflow", "image": "python", "env": [{"name": "A", "value": "hidden"}]}]},
    }


def service(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {JOB_LABEL: "job"}, **metadata},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 2222}]},
    }


def tfjob(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": pod("x")["spec"]}}}},
    }


def notice(name: str, about: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about["metadata"]["namespace"]},
        "involvedObject": {
            "kind": about["kind"],
            "name": about["metadata"]["name"],
            "namespace": about["metadata"]["namespace"],
            "uid": about["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available",
        **changes,
    }


MANIFESTS: dict[str, Callable[[str], dict[str, Any]]] = {"TFJob": tfjob, "Pod": pod, "Service": service}


@asynccontextmanager
async def with_tfjobs(client: KubeClient) -> AsyncIterator[None]:
    """Has the API server serve TFJobs; takes the definition away again where it was not there before."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    try:
        await client.request("POST", crds, body=TFJOB_CRD)
        is_ours = True
    except AlreadyExists:
        is_ours = False
    for _ in range(600):
        if await _serves_tfjobs(client):
            break
        await asyncio.sleep(0.05)
    try:
        yield
    finally:
        if is_ours:
            await client.request("DELETE", f"{crds}/{TFJOB_CRD['metadata']['name']}")


async def _serves_tfjobs(client: KubeClient) -> bool:
    try:
        await client.request("GET", "/apis/kubeflow.org/v1/tfjobs")
    except (NotFound, TooManyRequests):
        return False
    return True


@asynccontextmanager
async def local_world(folder: Path, **options: Any) -> AsyncIterator[World]:
    server = LocalApiServer(port=0, **options)
    await server.start()
    try:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(server.kubeconfig()))
        async with await connect(path) as client:

            async def compact() -> None:
                server.store.compact()

            async with with_tfjobs(client):
                yield World(client, compact, "default")
    finally:
        await server.stop()


def normaliser() -> Normaliser:
    return Normaliser(Redaction(b"k"))
