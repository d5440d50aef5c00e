"""An API server as a scenario's people use it: the user, the scheduler, the kubelet, whoever deletes pods.

In: what a step wants done. Out: requests, and the objects of the scenario's namespaces as a `World`.
On a shared cluster a scenario's namespaces have other names; they are exchanged on the way in and out.
Never: a view of the rules.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from controller.kube import JSON_PATCH, MERGE_PATCH, AlreadyExists, ApiError, Conflict, KubeClient, NotFound
from controller.model.instants import Instant
from controller.model.names import POD_FINALIZER
from controller.model.settings import PolicySettings
from controller.scenario.kubelet import status_of_report, stopped_status
from controller.scenario.model import PodReport
from controller.scenario.world import Held, World, is_watched

Json = dict[str, Any]
NODE = "node-1"
LINGER_FINALIZER = "tfjob.kubeflow.org/scenario-lingers"
STORAGE = "kubeflow.org/v1"
KINDS = ("TFJob", "Pod", "Service")
_KEPT_STATUS = ("qosClass", "hostIP", "hostIPs", "podIP", "podIPs", "observedGeneration")
"""What a report does not say and the API server would not let go."""


def now() -> Instant:
    """The kubelet's clock."""
    return time.time_ns() // 1_000


class Site:
    """One scenario's part of an API server. `suffix` is what its namespaces are called there, behind their name."""

    def __init__(
        self, client: KubeClient, namespaces: Iterable[str], suffix: str, clock: Callable[[], Instant] = now
    ) -> None:
        self._client = client
        self._now = clock
        self._suffix = suffix
        self.namespaces = tuple(namespaces)
        self.jobs: dict[str, tuple[str, str]] = {}
        """Every job of the scenario that there was: uid → (namespace, name)."""

    def real(self, namespace: str) -> str:
        """What a scenario's namespace is called on the server."""
        return f"{namespace}{self._suffix}"

    async def begin(self) -> None:
        """Makes the namespaces."""
        for namespace in self.namespaces:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.real(namespace)}}
            await self._request("POST", "/api/v1/namespaces", body)

    async def end(self) -> None:
        """Removes what the scenario left: its objects, past every finalizer, and its namespaces."""
        for held in (await self.look()).objects.values():
            await self.vanish(held)
        for namespace in self.namespaces:
            await self._unless_gone("DELETE", f"/api/v1/namespaces/{self.real(namespace)}")

    # --- looking -----------------------------------------------------------------------------------------------------

    async def look(self) -> World:
        """All that is there now, the oldest first."""
        world = World(PolicySettings(), self._now(), jobs=self.jobs)
        for kind in KINDS:
            found = [each for namespace in self.namespaces for each in await self._list(kind, namespace)]
            for body in sorted(found, key=lambda each: str(each["metadata"]["creationTimestamp"])):
                metadata = body["metadata"]
                held = Held(kind, body, int(metadata["resourceVersion"]))
                held.lingers = LINGER_FINALIZER in (metadata.get("finalizers") or ())
                world.objects[kind, metadata["namespace"], metadata["name"]] = held
        return world

    async def notices(self, namespace: str, name: str) -> list[str]:
        """Reasons of the Events on the job of that name."""
        found = await self._list("Event", namespace)
        about = (each for each in found if each["involvedObject"].get("kind") == "TFJob")
        return [each["reason"] for each in about if each["involvedObject"].get("name") == name]

    # --- the user ----------------------------------------------------------------------------------------------------

    async def create_job(self, manifest: Json) -> list[str]:
        """Creates a TFJob as its user writes it; what the API server says against it, else nothing."""
        try:
            created = await self._create("TFJob", manifest, manifest["apiVersion"])
        except ApiError as error:
            return [error.status.message]
        metadata = created["metadata"]
        self.jobs[metadata["uid"]] = (metadata["namespace"], metadata["name"])
        return []

    async def submit(self, manifest: Json) -> list[str]:
        """What the API server says against a manifest; nothing is kept. Its rules are asked first, then whether it has
        unknown fields, which kubectl wants to know (the API server's own order would hide the rules' words)."""
        metadata = manifest.get("metadata") or {}
        namespace = metadata.get("namespace") or self.namespaces[0]
        body = {**manifest, "metadata": {**metadata, "namespace": self.real(namespace)}}
        path = self._path("TFJob", namespace, api=str(manifest.get("apiVersion", STORAGE)))
        try:
            for strictness in ("Ignore", "Strict"):
                await self._request("POST", path, body, query={"dryRun": "All", "fieldValidation": strictness})
        except ApiError as error:
            return [error.status.message]
        return []

    async def edit_job(self, job: Held, patch: Json) -> None:
        """A merge patch by the user. Raises ApiError when it is refused."""
        await self._request("PATCH", self._path_of(job), patch, MERGE_PATCH)

    async def delete_job(self, job: Held) -> None:
        """kubectl delete: what the job owns is collected."""
        await self._request("DELETE", self._path_of(job), {"propagationPolicy": "Background"})

    async def create_foreign(self, kind: str, body: Json) -> None:
        """An object that is not the job's."""
        spec: Json = {"clusterIP": "None"} if kind == "Service" else {"containers": [{"name": "x", "image": "x"}]}
        await self._create(kind, {**body, "spec": spec}, "v1")

    async def another_job(self, namespace: str, name: str) -> str:
        """The uid of a TFJob of that name that this controller leaves alone."""
        replica = {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}
        spec = {"runPolicy": {"managedBy": "example.com/another"}, "tfReplicaSpecs": {"Worker": replica}}
        body = {"kind": "TFJob", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        try:
            found = await self._create("TFJob", body, STORAGE)
        except AlreadyExists:
            found = self._read((await self._request("GET", self._path("TFJob", namespace, name))).body)
        return str(found["metadata"]["uid"])

    # --- scheduler, kubelet and others --------------------------------------------------------------------------------

    async def bind(self, pod: Held) -> None:
        """The scheduler's part; a pod that has a node keeps it."""
        if not pod.body["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata["name"]}, "target": target}
            await self._request("POST", f"{self._path_of(pod)}/binding", body)
            pod.body["spec"]["nodeName"] = NODE

    async def report(self, pod: Held, report: PodReport) -> None:
        """The kubelet writes a pod's status."""
        if report.is_bound:
            await self.bind(pod)
        await self._write_status(pod, status_of_report(report, self._now(), pod.body.get("status") or {}))

    async def delete_pod(self, pod: Held) -> None:
        """Somebody deletes a pod: one that has not ended terminates until it is gone."""
        if not pod.has_ended:
            await self.bind(pod)
            await self.linger(pod)
        await self._request("DELETE", self._path_of(pod))

    async def linger(self, pod: Held) -> None:
        """The pod stays when it is deleted, until `vanish`."""
        if not pod.lingers and not pod.is_terminating:
            finalizers = [*(pod.metadata.get("finalizers") or ()), LINGER_FINALIZER]
            await self._request("PATCH", self._path_of(pod), {"metadata": {"finalizers": finalizers}}, MERGE_PATCH)
        pod.lingers = True

    async def vanish(self, held: Held) -> None:
        """The object disappears, past any finalizer."""
        if held.is_held:
            await self._unless_gone("PATCH", self._path_of(held), {"metadata": {"finalizers": None}}, MERGE_PATCH)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": held.uid}}
        await self._unless_gone("DELETE", self._path_of(held), body)

    async def tend(self, world: World, linger_next: set[str], *, holds_deleted: bool) -> bool:
        """What a kubelet does by itself: pods that are to go have stopped, and go. True when there was something."""
        has_acted = False
        for pod in world.of_kind("Pod"):
            if pod.metadata["name"] in linger_next:
                linger_next.discard(pod.metadata["name"])
                await self.linger(pod)
                has_acted = True
            if not pod.is_terminating or pod.lingers or holds_deleted:
                continue
            if POD_FINALIZER not in (pod.metadata.get("finalizers") or ()):
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
                await self._unless_gone("DELETE", self._path_of(pod), body)
                has_acted = True
            elif pod.body["spec"].get("nodeName") and not pod.has_ended:
                await self._write_status(pod, stopped_status(pod.body.get("status") or {}, self._now()))
                has_acted = True
        return has_acted

    @staticmethod
    def versions(world: World) -> dict[str, int]:
        """uid → resourceVersion of what a controller watches."""
        return {held.uid: held.version for held in world.objects.values() if is_watched(held)}

    @staticmethod
    def uncollected(world: World, *, holds_deleted: bool) -> str:
        """An object whose job is gone and that will go; empty when there is none."""
        jobs = {job.uid for job in world.of_kind("TFJob")}
        for held in world.objects.values():
            is_left = held.owner_uid is not None and held.owner_uid not in jobs
            if is_left and not (held.is_terminating and (held.lingers or holds_deleted)):
                return f"{held.kind} {held.metadata['name']} is not collected yet"
        return ""

    async def _write_status(self, pod: Held, status: Json) -> None:
        kept = {key: value for key, value in (pod.body.get("status") or {}).items() if key in _KEPT_STATUS}
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "add", "path": "/status", "value": kept | status},
        ]
        await self._request("PATCH", f"{self._path_of(pod)}/status", patch, JSON_PATCH)

    async def _create(self, kind: str, body: Json, api: str) -> Json:
        metadata = body["metadata"]
        sent = {**body, "apiVersion": api, "kind": kind}
        sent["metadata"] = {**metadata, "namespace": self.real(metadata["namespace"])}
        return self._read((await self._request("POST", self._path(kind, metadata["namespace"], api=api), sent)).body)

    async def _list(self, kind: str, namespace: str) -> list[Json]:
        items: list[Json] = self._read((await self._request("GET", self._path(kind, namespace))).body)["items"]
        return items

    async def _unless_gone(self, method: str, path: str, body: Any = None, content_type: str | None = None) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self._request(method, path, body, content_type)

    async def _request(
        self, method: str, path: str, body: Any = None, content_type: str | None = None, **options: Any
    ) -> Any:
        return await self._client.request(method, path, body=body, content_type=content_type, **options)

    def _path_of(self, held: Held) -> str:
        return self._path(held.kind, held.metadata["namespace"], held.metadata["name"])

    def _path(self, kind: str, namespace: str, name: str = "", api: str = STORAGE) -> str:
        prefix = f"/apis/{api}" if kind == "TFJob" else "/api/v1"
        path = f"{prefix}/namespaces/{self.real(namespace)}/{kind.lower()}s"
        return f"{path}/{name}" if name else path

    def _read(self, body: bytes) -> Json:
        """An answer, with the namespaces called as in the scenario."""
        if self._suffix:
            for namespace in self.namespaces:
                body = body.replace(self.real(namespace).encode(), namespace.encode())
        found: Json = msgspec.json.decode(body)
        return found
