"""The examples' programs, run as they are written: real processes that find each other by TF_CONFIG on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
ENDS_WITHIN_SECONDS = 60


def documents_of(example: str) -> dict[str, Any]:
    """The example's manifests by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all((EXAMPLES / example).read_text())}


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


@contextmanager
def processes_of(example: str, folder: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Every replica's command as a process, by slot (`worker-0`), with its volume in `folder`; killed at the end."""
    documents = documents_of(example)
    for name, text in documents["ConfigMap"]["data"].items():
        (folder / name).write_text(text)
    replicas = {kind.lower(): spec for kind, spec in documents["TFJob"]["spec"]["tfReplicaSpecs"].items()}
    ports = iter(free_ports(sum(spec["replicas"] for spec in replicas.values())))
    cluster = {kind: [f"127.0.0.1:{next(ports)}" for _ in range(spec["replicas"])] for kind, spec in replicas.items()}
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        for kind, spec in replicas.items():
            container = spec["template"]["spec"]["containers"][0]
            mount = container["volumeMounts"][0]["mountPath"]
            assert container["command"][0] == "python"
            words = [word.replace(mount, str(folder)) for word in container["command"][1:]]
            for index in range(spec["replicas"]):
                config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
                processes[f"{kind}-{index}"] = subprocess.Popen(
                    [sys.executable, *words],
                    env={**os.environ, "TF_CONFIG": json.dumps(config)},
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("example", "decider", "last_words"),
    [
        ("master-is-chief.yaml", "chief-0", "chief-0: after 480 pushes the line is y = 3.00x + 2.00"),
        ("v1-no-chief.yaml", "worker-0", "worker-0: pi is about 3.14"),
    ],
)
def test_the_decider_ends_with_0_while_all_others_run(
    example: str, decider: str, last_words: str, tmp_path: Path
) -> None:
    with processes_of(example, tmp_path) as processes:
        output, _ = processes[decider].communicate(timeout=ENDS_WITHIN_SECONDS)
        assert processes[decider].returncode == 0, output
        assert output.splitlines()[-1].startswith(last_words)
        others = {slot: process for slot, process in processes.items() if slot != decider}
        assert {slot: process.poll() for slot, process in others.items()} == dict.fromkeys(others)
        # And they end as a stopped container does.
        for process in others.values():
            process.send_signal(signal.SIGTERM)
        codes = {slot: process.wait(timeout=ENDS_WITHIN_SECONDS) for slot, process in others.items()}
        assert codes == dict.fromkeys(others, 143)


def test_the_failing_worker_ends_with_its_code_and_says_why(tmp_path: Path) -> None:
    with processes_of("fails.yaml", tmp_path) as processes:
        output, _ = processes["worker-1"].communicate(timeout=ENDS_WITHIN_SECONDS)
        assert processes["worker-1"].returncode == 3
        assert "Traceback (most recent call last):" in output
        assert output.splitlines()[-1] == "ValueError: shard-1.csv, line 3: 'n/a' is not a number"
        assert processes["worker-0"].poll() is None


def test_the_seed_case_keeps_its_shape() -> None:
    job = documents_of("master-is-chief.yaml")["TFJob"]
    replicas = {kind: spec["replicas"] for kind, spec in job["spec"]["tfReplicaSpecs"].items()}
    assert (job["apiVersion"], replicas) == ("kubeflow.org/v1alpha2", {"CHIEF": 1, "PS": 2, "WORKER": 4})
