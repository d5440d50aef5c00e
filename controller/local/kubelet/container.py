"""One container of one pod: its runs, one after the other, until its restart policy has it stay as it is.

In: the container as an API object and what its pod has in common (PodGround). Out: a record that is always up to date.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.local.kubelet.addresses import LoopbackPorts, tf_config_on_loopback
from controller.local.kubelet.api import KubeletApi
from controller.local.kubelet.environment import (
    MissingReference,
    environment_of,
    expanded,
    rewritten,
    sources_named_by,
)
from controller.local.kubelet.logs import last_lines
from controller.local.kubelet.processes import ContainerProcess, Processes, StartFailed, base_environment
from controller.local.kubelet.records import ContainerRecord, ContainerState, Running, Terminated, Waiting
from controller.local.kubelet.restarts import Backoff, is_restarted
from controller.local.kubelet.volumes import places_of
from controller.model.instants import Instant

__all__ = ["JOB_NAME_LABEL", "Container", "PodGround"]

Json = dict[str, Any]

JOB_NAME_LABEL = "training.kubeflow.org/job-name"
_START_ERROR_CODE = 128
_MESSAGE_FILE_BYTES = 4096


@dataclass(slots=True)
class PodGround:
    """What the containers of one pod share. `stopping` is set when nothing of the pod may start any more."""

    pod: Json
    api: KubeletApi
    processes: Processes
    ports: LoopbackPorts
    folder: Path
    clock: Callable[[], Instant]
    backoff_seconds: float
    retry_seconds: float
    warn: Callable[[str, str], None]
    changed: Callable[[], None] = lambda: None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    volumes: dict[str, Path] = field(default_factory=dict)

    async def stops_within(self, seconds: float) -> bool:
        """Wait so long, or until the pod is stopping; whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return False
        return True

    async def sources(self, named: set[tuple[str, str]]) -> dict[tuple[str, str], Json | None]:
        """The ConfigMaps and Secrets of these (plural, name)."""
        namespace = self.pod["metadata"]["namespace"]
        return {key: await self.api.find(namespace, *key) for key in sorted(named)}


class Container:
    """Runs one container. `record` is what is known of it at any time."""

    def __init__(self, ground: PodGround, spec: Json, *, is_init: bool, waits_as: str) -> None:
        policy = ground.pod["spec"]["restartPolicy"]
        # An init container that has succeeded has done its work, whatever the policy.
        self._policy = "OnFailure" if is_init and policy == "Always" else policy
        self._ground = ground
        self._spec = spec
        self._process: ContainerProcess | None = None
        self._run = 0
        self.record = ContainerRecord(spec["name"], spec.get("image", ""), Waiting(waits_as))

    def log_path(self, *, previous: bool) -> Path | None:
        """The file of the current run, or of the one before it; None if there was none."""
        run = self._run - 1 if previous else self._run
        return self._log_path(run) if run >= 1 else None

    def send(self, sign: signal.Signals) -> None:
        """Signal its process group, if it runs."""
        if self._process is not None:
            self._process.send(sign)

    async def run(self) -> None:
        """Run it, again and again as the policy says, until it has ended for good or the pod is stopping."""
        record, ground = self.record, self._ground
        backoff = Backoff(ground.backoff_seconds)
        while (end := await self._run_once()) is not None:
            if ground.stopping.is_set() or not is_restarted(self._policy, end.exit_code):
                return
            seconds = backoff.seconds_after(end.started_at, end.finished_at)
            if seconds > 0:
                metadata = ground.pod["metadata"]
                pod_words = f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
                words = f"back-off {seconds:g}s restarting failed container={record.name} {pod_words}"
                before = record.last
                record.state, record.last = Waiting("CrashLoopBackOff", words), end
                ground.changed()
                ground.warn("BackOff", f"Back-off restarting failed container {record.name}")
                if await ground.stops_within(seconds):
                    record.state, record.last = end, before
                    return

    async def _run_once(self) -> Terminated | None:
        """One run: None if the pod was stopping before it began, else its end, which is in the record already."""
        prepared = await self._prepared()
        if prepared is None:
            return None
        command, variables, folder, message_file = prepared
        self._run += 1
        container_id = f"process://{self._ground.pod['metadata']['uid']}/{self.record.name}/{self._run}"
        try:
            if not command:
                raise StartFailed("no command: the image is not pulled, so what it would run is not known")
            self._process = await self._ground.processes.start(command, variables, folder, self._log_path(self._run))
        except StartFailed as failure:
            self._ground.warn("Failed", f"Error: {failure}")
            now = self._ground.clock()
            return self._ended(Terminated(_START_ERROR_CODE, "StartError", str(failure), 0, now, container_id))
        started_at = self._ground.clock()
        self._becomes(Running(started_at, container_id))
        if self._ground.stopping.is_set():
            self._process.send(signal.SIGTERM)
        try:
            code = await self._process.ended()
        finally:
            self._process = None
        reason = "Completed" if code == 0 else "Error"
        message = self._last_words(message_file, code)
        return self._ended(Terminated(code, reason, message, started_at, self._ground.clock(), container_id))

    def _becomes(self, state: ContainerState) -> None:
        """A new run's first state: what was before it becomes the last state, and the restart counts now."""
        if self._run > 1 and self.record.restart_count < self._run - 1:
            self.record.last = self.record.end
            self.record.restart_count = self._run - 1
        self.record.state = state
        self._ground.changed()

    def _ended(self, end: Terminated) -> Terminated:
        self._becomes(end)
        return end

    async def _prepared(self) -> tuple[list[str], dict[str, str], Path, Path] | None:
        """Command, variables, folder and termination message file; None if the pod was stopping before they were
        complete. While a ConfigMap or key is missing the container waits, as a kubelet has it wait."""
        ground, spec = self._ground, self._spec
        while not ground.stopping.is_set():
            try:
                variables = environment_of(spec, ground.pod, await ground.sources(sources_named_by(spec)))
            except MissingReference as missing:
                if self.record.state != Waiting("CreateContainerConfigError", str(missing)):
                    self.record.last = self.record.end
                    self.record.state = Waiting("CreateContainerConfigError", str(missing))
                    ground.changed()
                    ground.warn("Failed", f"Error: {missing}")
                await ground.stops_within(ground.retry_seconds)
                continue
            return self._words(variables)
        return None

    def _words(self, variables: dict[str, str]) -> tuple[list[str], dict[str, str], Path, Path]:
        spec, ground = self._spec, self._ground
        metadata = ground.pod["metadata"]
        own_folder = ground.folder / "containers" / self.record.name
        own_folder.mkdir(parents=True, exist_ok=True)
        message_file = ground.folder / "messages" / self.record.name
        message_file.parent.mkdir(exist_ok=True)
        message_file.write_bytes(b"")
        message_path = spec.get("terminationMessagePath") or "/dev/termination-log"
        places = {**places_of(spec, ground.volumes), message_path: str(message_file)}
        job = (metadata.get("labels") or {}).get(JOB_NAME_LABEL)
        if job is not None and "TF_CONFIG" in variables:
            namespace = metadata["namespace"]
            variables["TF_CONFIG"] = tf_config_on_loopback(
                variables["TF_CONFIG"], namespace, job, lambda address: ground.ports.port_of(namespace, job, address)
            )
        words = [*(spec.get("command") or []), *(spec.get("args") or [])] if spec.get("command") else []
        command = [rewritten(expanded(word, variables), places) for word in words]
        moved = {name: rewritten(value, places) for name, value in variables.items()}
        folder = Path(rewritten(spec["workingDir"], places)) if spec.get("workingDir") else own_folder
        return command, {**base_environment(metadata["name"]), **moved}, folder, message_file

    def _last_words(self, message_file: Path, code: int) -> str:
        """The termination message: what the process wrote for it, or the end of its log if the policy says so."""
        try:
            text = message_file.read_bytes()[:_MESSAGE_FILE_BYTES].decode(errors="replace")
        except OSError:
            text = ""
        wants_log = self._spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not text and code != 0 and wants_log:
            return last_lines(self._log_path(self._run))
        return text

    def _log_path(self, run: int) -> Path:
        folder = self._ground.folder / "logs" / self.record.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{run}.log"
