"""The kubelet of processes: watches the pods of an API server and runs each of them on this machine.

In: the pod watch. Out: one PodLife a pod, Warnings for what goes wrong, a line to a person for what is not honoured.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from controller.local.kubelet.addresses import LoopbackPorts
from controller.local.kubelet.api import Expired, KubeletApi, RefusedRequest
from controller.local.kubelet.container import JOB_NAME_LABEL, PodGround
from controller.local.kubelet.logs import LogReader, LogRun, LogUnavailable
from controller.local.kubelet.pod import PodLife
from controller.local.kubelet.processes import Processes
from controller.local.kubelet.unhonoured import unhonoured_by_process
from controller.model.instants import Instant, text_of

__all__ = ["ProcessKubelet"]

Json = dict[str, Any]

_log = structlog.get_logger()
_WATCH_AGAIN_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_STOP_SECONDS = 2.0
_PLAIN_PATH = re.compile(r"/[\w./+:@-]*")


def _now() -> Instant:
    return int(time.time() * 1_000_000)


class ProcessKubelet:
    """Runs every pod of the API server at `api_url` as processes of this machine, below the folder `work_dir`.

    `say` gets one line for what a job asks for and a process cannot have, once a job. `restart_backoff_seconds` is
    the base of the waits between restarts in place (10 s in a real kubelet). `trust` checks an https server.
    Start it in the main thread's event loop: the kernel ends the processes when the thread that started them ends.

    A pod whose processes an earlier kubelet ran is started anew.
    """

    def __init__(
        self,
        api_url: str,
        work_dir: Path,
        *,
        say: Callable[[str], None],
        node_name: str = "local",
        token: str | None = None,
        trust: ssl.SSLContext | None = None,
        restart_backoff_seconds: float = 1.0,
    ) -> None:
        self._api = KubeletApi(api_url, token, trust)
        self._work_dir = work_dir
        self._alias: Path | None = None
        self._say = say
        self._node_name = node_name
        self._backoff_seconds = restart_backoff_seconds
        self._processes = Processes()
        self._ports = LoopbackPorts()
        self._lives: dict[str, tuple[PodLife, asyncio.Task[None]]] = {}
        self._said: set[tuple[str, str, str]] = set()
        self._notices: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self.log_reader = LogReader(self._log_run)

    async def start(self) -> None:
        """Begin. Raises RefusedRequest or aiohttp.ClientError if the API server does not answer as one."""
        self._work_dir.mkdir(parents=True, exist_ok=True)
        if not _PLAIN_PATH.fullmatch(str(self._work_dir)):
            self._alias = Path(tempfile.mkdtemp(prefix="tfjob-pods-", dir="/tmp"))
            (self._alias / "work").symlink_to(self._work_dir.absolute())
        self._processes.open()
        self._api.open()
        try:
            position = await self._relist()
        except BaseException:
            await self.stop()
            raise
        self._watch = asyncio.create_task(self._watch_pods(position), name="kubelet-watch")
        self._watch.add_done_callback(self._report)

    async def stop(self) -> None:
        """End every process (SIGTERM, two seconds, SIGKILL) and the kubelet. No status is written for that."""
        if self._watch is not None:
            await _cancelled(self._watch)
            self._watch = None
        lives = list(self._lives.values())
        await asyncio.gather(*(life.stop(_STOP_SECONDS) for life, _ in lives))
        await asyncio.gather(*(_cancelled(task) for _, task in lives))
        await asyncio.gather(*(_cancelled(task) for task in list(self._notices)))
        for life, _ in lives:
            life.remove_files()
        self._lives.clear()
        await self._api.close()
        self._processes.close()
        if self._alias is not None:
            shutil.rmtree(self._alias, ignore_errors=True)
            self._alias = None

    @property
    def _folder(self) -> Path:
        """The work folder by a name that a shell takes as one word: the paths are put into commands."""
        return self._work_dir if self._alias is None else self._alias / "work"

    def _report(self, watch: asyncio.Task[None]) -> None:
        if not watch.cancelled() and (error := watch.exception()) is not None:
            _log.error("kubelet.watch_failed", exc_info=error)
            self._say(f"the local kubelet sees no pods any more: {error!r}")

    async def _watch_pods(self, position: str) -> None:
        while True:
            try:
                async for kind, pod in self._api.watch_pods(position):
                    position = pod["metadata"]["resourceVersion"]
                    if kind == "DELETED":
                        await self._gone(pod["metadata"]["uid"])
                    elif kind != "BOOKMARK":
                        self._seen(pod)
            except (Expired, RefusedRequest, aiohttp.ClientError, TimeoutError) as reason:
                _log.info("kubelet.watch_again", reason=repr(reason))
                await asyncio.sleep(_WATCH_AGAIN_SECONDS)
                with contextlib.suppress(RefusedRequest, aiohttp.ClientError, TimeoutError):
                    position = await self._relist()

    async def _relist(self) -> str:
        pods, position = await self._api.list_pods()
        for uid in set(self._lives) - {pod["metadata"]["uid"] for pod in pods}:
            await self._gone(uid)
        for pod in pods:
            self._seen(pod)
        return position

    def _seen(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._lives:
            self._lives[uid][0].see(pod)
        elif self._is_ours(pod):
            life = self._life_of(pod)
            task = asyncio.create_task(self._run(life), name=f"kubelet-pod-{pod['metadata']['name']}")
            self._lives[uid] = (life, task)
            self._say_what_is_not_honoured(pod)

    def _is_ours(self, pod: Json) -> bool:
        spec, metadata = pod["spec"], pod["metadata"]
        if spec.get("schedulingGates"):
            return False
        if not spec.get("nodeName"):
            return metadata.get("deletionTimestamp") is None
        has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        is_deleted = metadata.get("deletionTimestamp") is not None
        return bool(spec["nodeName"] == self._node_name and (is_deleted or not has_ended))

    def _life_of(self, pod: Json) -> PodLife:
        metadata = pod["metadata"]
        folder = self._folder / "pods" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        folder.mkdir(parents=True, exist_ok=True)
        ground = PodGround(
            pod=pod,
            api=self._api,
            processes=self._processes,
            ports=self._ports,
            folder=folder,
            clock=_now,
            backoff_seconds=self._backoff_seconds,
            retry_seconds=_RETRY_SECONDS,
            warn=lambda reason, message: self._warn(pod, reason, message),
        )
        return PodLife(ground, self._node_name, self._folder / "claims")

    async def _run(self, life: PodLife) -> None:
        try:
            await life.run()
        except Exception as error:
            metadata = life.pod["metadata"]
            _log.exception("kubelet.pod_failed", namespace=metadata["namespace"], pod=metadata["name"])
            self._say(f"the local kubelet gave up on pod {metadata['namespace']}/{metadata['name']}: {error!r}")

    async def _gone(self, uid: str) -> None:
        """The pod is no longer on the API server: nothing of it may run."""
        if uid in self._lives:
            life, task = self._lives.pop(uid)
            await _cancelled(task)
            life.remove_files()

    def _say_what_is_not_honoured(self, pod: Json) -> None:
        metadata = pod["metadata"]
        job = (metadata.get("labels") or {}).get(JOB_NAME_LABEL, metadata["name"])
        phrases = [
            phrase for phrase in unhonoured_by_process(pod) if (metadata["namespace"], job, phrase) not in self._said
        ]
        if phrases:
            self._said.update((metadata["namespace"], job, phrase) for phrase in phrases)
            words = "a process of this machine cannot honour " + "; ".join(phrases)
            self._say(f"{metadata['namespace']}/{job}: {words}")
            self._warn(pod, "NotHonoured", words)

    def _warn(self, pod: Json, reason: str, message: str) -> None:
        """Create a Warning about the pod, beside everything else; a server that refuses it changes nothing."""
        metadata = pod["metadata"]
        now = text_of(_now())
        notice = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self._node_name},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node_name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

        async def create() -> None:
            try:
                await self._api.create_notice(notice)
            except (RefusedRequest, aiohttp.ClientError) as refusal:
                _log.info("kubelet.notice_refused", reason=reason, answer=str(refusal))

        task = asyncio.create_task(create())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    def _log_run(self, namespace: str, pod: str, container: str | None, previous: bool) -> LogRun:
        for life, _ in self._lives.values():
            metadata = life.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, pod):
                return life.log_run(container, previous)
        raise LogUnavailable(f"pod {pod} in namespace {namespace} has not run here")


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel the task and wait for its end. (To await it would also swallow a cancellation of the one who waits.)"""
    task.cancel()
    await asyncio.wait({task})
