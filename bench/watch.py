"""How many watch events a second one core reads, decodes, normalises and redacts.

Two figures: the work alone (lines in memory → observations), and the whole way over loopback HTTP from a server process
that sends recorded lines as fast as it can. Pods as a real API server shows them, 7 KB with managedFields.

    python bench/watch.py [--events 20000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from controller.kube import connect
from controller.model.events import Op
from controller.watch import Observation, Watched, Watches
from controller.watch.heads import Head
from controller.watch.lines import Lines, line_of
from controller.watch.normalise import Normaliser
from controller.watch.redact import Redaction
from controller.watch.resources import PODS

UPDATES = ("Pending", "Scheduled", "ContainerCreating", "Running", "Running", "Succeeded", "Succeeded")


def pod_of(index: int, update: int, resource_version: int) -> dict[str, Any]:
    """One version of one pod, as kube-apiserver writes it."""
    name = f"job-{index // 7}-worker-{index % 7}"
    phase = UPDATES[update]
    spec: dict[str, Any] = {
        "volumes": [{"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}],
        "containers": [{
            "name": "tensorflow", "image": "registry.example.com/team/trainer:1.2.3",
            "command": ["python", "-m", "trainer", "--steps", "1000"],
            "ports": [{"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}],
            "env": [{"name": "TF_CONFIG", "value": json.dumps({"cluster": {"worker": [
                f"job-{index // 7}-worker-{n}.default.svc:2222" for n in range(7)]},
                "task": {"type": "worker", "index": index % 7}})}]
            + [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(8)],
            "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
            "volumeMounts": [{"name": "kube-api-access-x7k2p", "readOnly": True, "mountPath": "/var/run/secrets"}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "FallbackToLogsOnError",
            "imagePullPolicy": "IfNotPresent"}],
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default", "schedulerName": "default-scheduler", "securityContext": {},
        "tolerations": [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
                         "tolerationSeconds": 300} for key in ("not-ready", "unreachable")],
    }  # fmt: skip
    if update:
        spec["nodeName"] = f"node-{index % 50}"
    state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
    if phase == "Running":
        state = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
    if phase == "Succeeded":
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:05Z",
                                "finishedAt": "2026-01-01T00:09:05Z", "containerID": "cri://" + "a" * 64}}  # fmt: skip
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    status: dict[str, Any] = {
        "phase": phase if phase in ("Running", "Succeeded") else "Pending", "qosClass": "Guaranteed",
        "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "startTime": "2026-01-01T00:00:01Z",
        "conditions": [{"type": kind, "status": "True", "lastProbeTime": None,
                        "lastTransitionTime": "2026-01-01T00:00:04Z"} for kind in types],
        "containerStatuses": [{"name": "tensorflow", "state": state, "lastState": {}, "ready": phase == "Running",
                               "restartCount": 0, "image": "registry.example.com/team/trainer:1.2.3",
                               "imageID": "registry.example.com/team/trainer@sha256:" + "b" * 64,
                               "containerID": "containerd://" + "a" * 64, "started": phase == "Running"}],
    }  # fmt: skip
    if phase == "ContainerCreating":
        status["conditions"][2] |= {"status": "False", "reason": "ContainersNotReady",
                                    "message": "containers with unready status: [tensorflow]"}  # fmt: skip
    fields = {
        f"f:{key}": {"f:inner": {}, 'k:{"name":"x"}': {".": {}, "f:name": {}}} for key in (*spec, *status, *types)
    }
    return {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "default", "uid": f"00000000-0000-0000-0000-{index:012d}",
            "resourceVersion": str(resource_version), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"training.kubeflow.org/job-name": f"job-{index // 7}",
                       "training.kubeflow.org/operator-name": "tfjob-controller",
                       "training.kubeflow.org/replica-type": "worker",
                       "training.kubeflow.org/replica-index": str(index % 7)},
            "ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": f"job-{index // 7}",
                                 "uid": f"10000000-0000-0000-0000-{index // 7:012d}", "controller": True,
                                 "blockOwnerDeletion": True}],
            "managedFields": [{"manager": manager, "operation": "Update", "apiVersion": "v1",
                               "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
                              for manager in ("tfjob-controller", "kubelet")],
        },
        "spec": spec, "status": status,
    }  # fmt: skip


def lines_of(count: int) -> list[bytes]:
    """`count` watch lines: pods in rounds of all their updates, as they come when many jobs start at once."""
    found: list[bytes] = []
    block = 70
    for start in range(0, count, block * len(UPDATES)):
        for update in range(len(UPDATES)):
            for index in range(block):
                body = pod_of(start + index, update, len(found) + 100)
                op = "MODIFIED" if update else "ADDED"
                found.append(json.dumps({"type": op, "object": body}, separators=(",", ":")).encode() + b"\n")
    return found[:count]


def work_alone(lines: list[bytes]) -> float:
    """CPU seconds for lines in memory → observations."""
    normaliser = Normaliser(Redaction(b"key"))
    cutter = Lines()
    begun = time.process_time()
    for start in range(0, len(lines), 16):
        for text in cutter.feed(b"".join(lines[start : start + 16])):
            line = line_of(text)
            normaliser.observation(PODS, line.op or Op.ADDED, line.object, 1)
    return time.process_time() - begun


def serve(lines: list[bytes], address: Connection) -> None:
    """Another process: empty lists, and the lines to whoever watches pods."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if not request.query.get("watch"):
            return web.json_response({"metadata": {"resourceVersion": "10"}, "items": []})
        answer = web.StreamResponse()
        await answer.prepare(request)
        if request.path.endswith("/pods"):
            for start in range(0, len(lines), 8):
                await answer.write(b"".join(lines[start : start + 8]))
        await asyncio.Event().wait()
        return answer

    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


class CountingSink:
    """Counts observations; tells when the last has come."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self.done = asyncio.Event()

    async def put(self, item: Watched) -> None:
        if isinstance(item, Observation):
            self.left -= 1
            if not self.left:
                self.done.set()


class EmptyLog:
    async def heads(self, resource: str) -> dict[str, Head]:
        return {}


async def over_http(lines: list[bytes], port: int) -> tuple[float, float]:
    """(wall, CPU) seconds for the whole way over loopback, from the first request to the last observation."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        async with await connect(path) as client:
            sink = CountingSink(len(lines))
            clock: Callable[[], int] = lambda: time.time_ns() // 1000  # noqa: E731
            watches = Watches(client, EmptyLog(), sink, {}, None, clock, redaction_key=b"key")
            wall, cpu = time.perf_counter(), time.process_time()
            task = asyncio.create_task(watches.run())
            await sink.done.wait()
            spent = time.perf_counter() - wall, time.process_time() - cpu
            task.cancel()
            await asyncio.wait([task])
            return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = lines_of(options.events)
    count = len(lines)
    alone = work_alone(lines)
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(target=serve, args=(lines, theirs), daemon=True)
    server.start()
    try:
        wall, cpu = asyncio.run(over_http(lines, ours.recv()))
    finally:
        server.terminate()
        server.join()
    result = {
        "events": count,
        "bytes_per_event": sum(map(len, lines)) // count,
        "decode_and_normalise_events_per_cpu_second": round(count / alone),
        "decode_and_normalise_us_per_event": round(alone / count * 1e6, 1),
        "over_http_events_per_second": round(count / wall),
        "over_http_cpu_us_per_event": round(cpu / count * 1e6, 1),
    }
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:45} {value:>10}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
