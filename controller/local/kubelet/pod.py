"""One pod's life on this machine: assigned, volumes, init containers, containers, its end, its deletion.

In: the pod as the watch delivers it. Out: its status on the API server, and nothing left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from pathlib import Path
from typing import Any

from controller.local.kubelet.container import Container, PodGround
from controller.local.kubelet.environment import MissingReference
from controller.local.kubelet.logs import LogRun, LogUnavailable
from controller.local.kubelet.records import ContainerRecord, Running, Terminated
from controller.local.kubelet.status import OWN_CONDITIONS, lost_containers_ended, status_of
from controller.local.kubelet.volumes import make_volumes, sources_of_volumes
from controller.model.instants import Instant

__all__ = ["PodLife"]

Json = dict[str, Any]

_TERMINAL = ("Succeeded", "Failed")


class PodLife:
    """Runs one pod (one uid). `run` is its life, to be cancelled when the pod is gone from the API server."""

    def __init__(self, ground: PodGround, node_name: str, claims: Path) -> None:
        spec = ground.pod["spec"]
        inits = spec.get("initContainers") or []
        waits_as = "PodInitializing" if inits else "ContainerCreating"
        self._ground = ground
        self._node_name = node_name
        self._claims = claims
        self._inits = [Container(ground, init, is_init=True, waits_as="PodInitializing") for init in inits]
        self._containers = [Container(ground, one, is_init=False, waits_as=waits_as) for one in spec["containers"]]
        self._started_at: Instant = 0
        self._written: Json = {}
        self._is_muted = False
        self._changed = asyncio.Event()
        self._seen = asyncio.Event()
        self._all_ended = asyncio.Event()
        ground.changed = self._changed.set

    @property
    def pod(self) -> Json:
        """The pod as last seen."""
        return self._ground.pod

    def see(self, pod: Json) -> None:
        """Take in a newer version of the pod."""
        self._ground.pod = pod
        self._seen.set()

    async def run(self) -> None:
        """Live until cancelled; a pod that was deleted is confirmed as such once nothing of it runs."""
        if not self._is_deleted and not self.pod["spec"].get("nodeName"):
            await self._ground.api.bind(self.pod, self._node_name)
        self._started_at = self._ground.clock()
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(self._write_statuses())
            tasks.create_task(self._stop_when_deleted())
            # Ended before this kubelet saw it: nothing to run, only its deletion is to be confirmed.
            if not self._is_deleted and self.pod.get("status", {}).get("phase") not in _TERMINAL:
                self._changed.set()
                await self._run_containers()
            self._all_ended.set()
            while not self._is_deleted:
                self._seen.clear()
                await self._seen.wait()
            writer.cancel()
            await self._confirm_deletion()
            # The task group goes on until the watch says that the pod is gone: a finalizer may hold it.
            await asyncio.Event().wait()

    async def stop(self, seconds: float) -> None:
        """SIGTERM to all that runs, and wait so long for it; no status is written any more. Then cancel `run`."""
        self._is_muted = True
        self._ground.stopping.set()
        self._send(signal.SIGTERM)
        if self._is_anything_running:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._all_ended.wait()

    def remove_files(self) -> None:
        """Remove all that the pod had but its logs."""
        for name in ("volumes", "containers", "messages"):
            shutil.rmtree(self._ground.folder / name, ignore_errors=True)

    def log_run(self, container: str | None, previous: bool) -> LogRun:
        """The run whose log is asked for. Raises LogUnavailable in an API server's words."""
        name = self.pod["metadata"]["name"]
        known = {one.record.name: one for one in [*self._inits, *self._containers]}
        if container is None and len(self._containers) > 1:
            names = " ".join(one.record.name for one in self._containers)
            raise LogUnavailable(f"a container name must be specified for pod {name}, choose one of: [{names}]")
        wanted = container or self._containers[0].record.name
        if wanted not in known:
            raise LogUnavailable(f"container {wanted} is not valid for pod {name}")
        found = known[wanted]
        path = found.log_path(previous=previous)
        if path is None and previous:
            raise LogUnavailable(f'previous terminated container "{wanted}" in pod "{name}" not found')
        if path is None:
            raise LogUnavailable(f'container "{wanted}" in pod "{name}" is waiting to start: ContainerCreating')
        is_open = (lambda: False) if previous else (lambda: isinstance(found.record.state, Running))
        return LogRun(path, is_open)

    @property
    def _is_deleted(self) -> bool:
        return self.pod["metadata"].get("deletionTimestamp") is not None

    @property
    def _is_anything_running(self) -> bool:
        return any(isinstance(record.state, Running) for record in [*self._init_records, *self._records])

    @property
    def _init_records(self) -> list[ContainerRecord]:
        return [container.record for container in self._inits]

    @property
    def _records(self) -> list[ContainerRecord]:
        return [container.record for container in self._containers]

    def _send(self, sign: signal.Signals) -> None:
        for container in [*self._inits, *self._containers]:
            container.send(sign)

    async def _run_containers(self) -> None:
        if not await self._has_volumes():
            return
        for init in self._inits:
            await init.run()
            if not isinstance(init.record.state, Terminated) or init.record.state.exit_code != 0:
                return
        async with asyncio.TaskGroup() as tasks:
            for container in self._containers:
                tasks.create_task(container.run())

    async def _has_volumes(self) -> bool:
        """Make the volumes; wait while a ConfigMap is missing. False if the pod was stopping before they were made."""
        ground = self._ground
        said = ""
        while not ground.stopping.is_set():
            sources = await ground.sources(sources_of_volumes(self.pod))
            try:
                ground.volumes = make_volumes(self.pod, sources, ground.folder / "volumes", self._claims)
            except MissingReference as missing:
                if said != str(missing):
                    said = str(missing)
                    ground.warn("FailedMount", f"MountVolume.SetUp failed: {missing}")
                await ground.stops_within(ground.retry_seconds)
            else:
                return True
        return False

    async def _stop_when_deleted(self) -> None:
        """SIGTERM when the pod is deleted, SIGKILL when its grace is over; a grace that is cut short is followed."""
        loop = asyncio.get_running_loop()
        while not self._is_deleted:
            self._seen.clear()
            await self._seen.wait()
        self._ground.stopping.set()
        self._send(signal.SIGTERM)
        deleted_at = loop.time()
        while not self._all_ended.is_set():
            grace = self.pod["metadata"].get("deletionGracePeriodSeconds") or 0
            left = deleted_at + grace - loop.time()
            if left <= 0:
                self._send(signal.SIGKILL)
                return
            self._seen.clear()
            woken_by = {asyncio.ensure_future(event.wait()) for event in (self._seen, self._all_ended)}
            _, late = await asyncio.wait(woken_by, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for waiter in late:
                waiter.cancel()

    async def _write_statuses(self) -> None:
        """Write the status whenever it has changed; what changes meanwhile is in the next one."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._write(self._init_records, self._records, is_terminal=False)

    async def _write(
        self, init_records: list[ContainerRecord], records: list[ContainerRecord], *, is_terminal: bool
    ) -> None:
        before = (self.pod.get("status") or {}).get("conditions") or []
        own = [one for one in self._written.get("conditions", []) if one["type"] in OWN_CONDITIONS]
        foreign = [one for one in before if one["type"] not in OWN_CONDITIONS]
        status = status_of(
            self.pod["spec"]["restartPolicy"],
            [*(own or before), *(foreign if own else [])],
            init_records,
            records,
            started_at=self._started_at,
            now=self._ground.clock(),
            is_terminal=is_terminal,
        )
        if status != self._written and not self._is_muted:
            await self._ground.api.write_status(self.pod, status)
            self._written = status

    async def _confirm_deletion(self) -> None:
        if self.pod.get("status", {}).get("phase") not in _TERMINAL or self._written:
            now = self._ground.clock()
            ended = (lost_containers_ended(self._init_records, now), lost_containers_ended(self._records, now))
            await self._write(*ended, is_terminal=True)
        if not self._is_muted:
            await self._ground.api.confirm_deletion(self.pod)
