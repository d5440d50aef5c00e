"""`tfjob` as a person types it: what it refuses, in which words, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.controlplane.kubectl import kubectl_path
from tests.postgres_fixture import open_folder

ROOT = Path(__file__).resolve().parents[2]
FAILS = ROOT / "examples" / "fails.yaml"
GOOD = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          containers:
            - {name: tensorflow, image: any, command: [python, -c, "CODE"]}
"""


def manifest(name: str, code: str) -> str:
    return GOOD.replace("NAME", name).replace("CODE", code)


@pytest_asyncio.fixture
async def state_dir() -> AsyncIterator[Path]:
    """A state folder that Postgres' account may reach, with a space in its path."""
    folder = open_folder()
    yield folder / "the state"
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _take_ctrl_c() -> None:
    """A shell's background job ignores Ctrl-C, and so would what it starts; a terminal's does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def start(*arguments: str | Path) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TFJOB_DATABASE")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller", *map(str, arguments), cwd=ROOT, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, preexec_fn=_take_ctrl_c,
    )  # fmt: skip


async def tfjob(*arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of one command."""
    process = await start(*arguments)
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


BAD = [
    ("a: [1", ":2: not YAML"),
    ("hello", ":1: not a Kubernetes object"),
    ("apiVersion: v1\nkind: Secret\nmetadata: {name: x}", ":2: a Secret"),
    ("", "no TFJob in it"),
    (GOOD.replace("NAME", "a").replace("replicas: 1", "replicass: 1"), ":7: spec.tfReplicaSpecs.Worker.replicass"),
    (GOOD.replace("NAME", "a").replace("Worker", "Wroker"), ":6: spec.tfReplicaSpecs.Wroker: is no replica type"),
    (GOOD.replace("NAME", "a").replace("image: any, ", ""), "containers[0].image: is missing"),
    (GOOD.replace("NAME", "a").replace("replicas: 1", "replicas: -1"), ":7: spec.tfReplicaSpecs.Worker.replicas"),
    (GOOD.replace("NAME", "A_b"), ":3: metadata.name"),
    (GOOD.replace("NAME", "a") + "kind: TFJob\n", "'kind' stands twice"),
]


@pytest.mark.parametrize(("text", "words"), BAD, ids=[words for _, words in BAD])
async def test_a_bad_manifest_is_refused_with_its_place_and_nothing_is_started(
    text: str, words: str, tmp_path: Path, state_dir: Path
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    code, out, err = await tfjob("local", file, "--state-dir", state_dir)
    assert (code, out) == (2, "")
    assert words in err and str(file) in err
    assert "Traceback" not in err
    assert not state_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("controller",), "--database-url"),
        (("controller", "--database-url", "mysql://x"), "begins with postgresql://"),
        (("controller", "--database-url", "postgresql://a@127.0.0.1/b", "--log-level", "loud", "--api-workers", "0"),
         "--log-level"),
        (("controller", "--database-url", "postgresql://a@127.0.0.1/b", "--kubeconfig", "/no/such"), "/no/such"),
        (("history", "a", "--database-url", "postgresql://u:p@127.0.0.1:1/b"), "cannot be reached"),
        (("db", "check", "--database-url", "postgresql://u:p@127.0.0.1:1/b"), "cannot be reached"),
        (("list", "--state-dir", "/no/such"), "tfjob local"),
        (("local",), "--examples"),
    ],
)  # fmt: skip
async def test_what_cannot_begin_says_why_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    code, out, err = await tfjob(*arguments)
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1 and err.startswith("tfjob: ")


async def test_all_problems_of_the_settings_are_named_together() -> None:
    _, _, err = await tfjob("controller", "--log-level", "loud", "--api-workers", "0")
    assert all(words in err for words in ("--log-level", "--api-workers", "--database-url"))


async def test_a_failed_job_exits_1_and_can_be_read_afterwards(state_dir: Path) -> None:
    code, out, _ = await tfjob("local", FAILS, "--state-dir", state_dir)
    assert code == 1
    assert "exited with code 3" in out and "is not a number" in out and "tfjob history fails" in out
    code, out, _ = await tfjob("history", "fails", "--json", "--state-dir", state_dir)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    changed = [change for row in rows for change in row["changed"]]
    assert changed[0] == "Created=True (TFJobCreated)" and changed[-1] == "Failed=True (TFJobFailed)"
    assert [row["position"] for row in rows] == sorted(row["position"] for row in rows)
    code, out, _ = await tfjob("list", "--json", "--state-dir", state_dir)
    assert [(row["name"], row["phase"]) for row in map(json.loads, out.splitlines())] == [("fails", "Failed")]
    code, _, err = await tfjob("history", "nobody", "--state-dir", state_dir)
    assert code == 1 and "nobody" in err


async def test_a_job_that_deletes_itself_and_one_that_keeps_its_pods_end_like_others(
    state_dir: Path, tmp_path: Path
) -> None:
    brief, keeps = tmp_path / "brief.yaml", tmp_path / "keeps.yaml"
    ttl = "spec:\n  runPolicy: {ttlSecondsAfterFinished: 0}\n"
    brief.write_text(manifest("brief", "print(1)").replace("spec:\n", ttl, 1))
    policy = "spec:\n  runPolicy: {cleanPodPolicy: None}\n"
    code = "import os, json, time; time.sleep(99 * json.loads(os.environ['TF_CONFIG'])['task']['index'])"
    text = manifest("keeps", code).replace("spec:\n", policy, 1).replace("replicas: 1", "replicas: 2")
    keeps.write_text(text)
    exit_code, out, err = await tfjob("local", brief, keeps, "--state-dir", state_dir)
    assert exit_code == 0, out + err
    assert "default/brief  Succeeded" in out and "default/keeps  Succeeded" in out


async def test_a_second_run_in_the_same_folder_takes_the_same_name_again(state_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(manifest("again", "print(1)"))
    for _ in range(2):
        code, out, err = await tfjob("local", file, "--state-dir", state_dir)
        assert code == 0, out + err
    _, out, _ = await tfjob("list", "--json", "--state-dir", state_dir)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["name"] for row in rows] == ["again", "again"]
    assert len({row["job_uid"] for row in rows}) == 2


@asynccontextmanager
async def kept(state_dir: Path, *arguments: str | Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`tfjob local --keep` when it is up; its process and the kubeconfig that it printed."""
    process = await start("local", "--keep", "--state-dir", state_dir, *arguments)
    assert process.stdout is not None
    try:
        kubeconfig = ""
        while not kubeconfig:
            line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
            assert line, "it ended before it was up"
            found = re.search(r"KUBECONFIG=['\"]?([^'\"\n]+)", line)
            kubeconfig = found[1] if found else ""
        yield process, kubeconfig
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 60)


async def run_kubectl(kubeconfig: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        kubectl_path(), "--kubeconfig", kubeconfig, *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_kept_up_it_serves_kubectl_and_refuses_a_second_one(state_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "later.yaml"
    file.write_text(manifest("later", "print(41 + 1)"))
    async with kept(state_dir) as (process, kubeconfig):
        code, _, err = await tfjob("local", file, "--state-dir", state_dir)
        assert code == 2 and str(state_dir) in err and "Traceback" not in err
        assert "tfjob.kubeflow.org/later created" in await run_kubectl(kubeconfig, "apply", "-f", str(file))
        await run_kubectl(kubeconfig, "wait", "tfjob/later", "--for=condition=Succeeded", "--timeout=30s")
        assert "Succeeded" in await run_kubectl(kubeconfig, "get", "tfjobs")
        assert "42" in await run_kubectl(kubeconfig, "logs", "later-worker-0")
        assert "TFJobSucceeded" in await run_kubectl(kubeconfig, "describe", "tfjob", "later")
        code, out, _ = await tfjob("history", "later", "--state-dir", state_dir)
        assert code == 0 and "Succeeded=True" in out
        assert process.returncode is None


async def test_a_port_in_use_is_said_in_one_line(state_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(manifest("a", "print(1)"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = await tfjob("local", file, "--port", str(port), "--state-dir", state_dir)
    assert code == 2 and str(port) in err and "Traceback" not in err


def _descendants(pid: int) -> set[int]:
    """Processes whose parent chain leads to `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    found: set[int] = set()
    grown = True
    while grown:
        grown = False
        for child, parent in parents.items():
            if child not in found and (parent == pid or parent in found):
                found.add(child)
                grown = True
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("after_seconds", [0.0, 0.4, 1.2, 2.5])
async def test_ctrl_c_at_any_moment_leaves_no_process_and_keeps_the_data(
    after_seconds: float, state_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(manifest("long", "import time; time.sleep(300)"))
    process = await start("local", file, "--state-dir", state_dir)
    # Before its first words it is Python's own start-up that is interrupted.
    assert process.stdout is not None and await process.stdout.readline()
    waiting = asyncio.create_task(process.communicate())
    # The moment itself is what is varied: there is nothing to wait for.
    await asyncio.wait([waiting], timeout=after_seconds)
    assert process.returncode is None
    family = _descendants(process.pid)
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(waiting, 60)
    assert process.returncode not in (0, None)
    assert b"Traceback" not in waiting.result()[1]
    assert not {pid for pid in family if _is_alive(pid)}
    file.write_text(manifest("short", "print(1)"))
    code, out, err = await tfjob("local", file, "--state-dir", state_dir)
    assert code == 0, out + err
