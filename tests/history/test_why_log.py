"""The answer from a real log is the one from memory, also when everything of the job is gone from the API server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from controller.cli.why import answer_of, find
from controller.errors import UserError
from controller.log import EventLog
from tests.history.filled import fill, given, play, play_text

ROOT = Path(__file__).resolve().parents[2]
GONE = """\
title: everything of a failed job is deleted
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  metadata: {name: NAME}
  spec: {tfReplicaSpecs: {Chief: {replicas: 1}, Worker: {replicas: 3}}}
steps:
  - pods: {"*": Running}
  - pods: {worker-1: {phase: Failed, exitCode: 137, reason: OOMKilled, message: "step 41\\nallocating 3 GB"}}
  - delete_job: true
"""


@pytest.mark.parametrize("file", given(24), ids=lambda file: file.stem)
async def test_from_the_log_as_from_memory(file: Path, log: EventLog) -> None:
    player = play(file)
    await fill(log, player, "a")
    expected = player.why()
    if expected is None:
        return
    found = await answer_of(log, (await find(log, player.name, player.namespace))[0])
    assert found.summary.replace("uid-a-", "uid-") == expected.summary
    assert [each.what for each in found.chain] == [each.what for each in expected.chain]
    assert (found.then, found.warnings, found.doubts) == (expected.then, expected.warnings, expected.doubts)
    assert (found.cause and found.cause.words()) == (expected.cause and expected.cause.words())
    assert (found.first and found.first.words()) == (expected.first and expected.first.words())


async def tfjob(*arguments: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of one command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller", *arguments, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_command_answers_for_a_job_of_which_nothing_is_left(
    log: EventLog, database_url: str, tmp_path: Path
) -> None:
    player = play_text(tmp_path, GONE.replace("NAME", "mnist"))
    assert not player.world.objects
    [older] = await fill(log, player, "a")
    [newer] = await fill(log, player, "b")
    code, out, err = await tfjob("why", "mnist", "--database-url", database_url)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("team-a/mnist failed at ")
    assert "worker-1 (pod mnist-worker-1, attempt 1) exited with code 137" in lines[0]
    assert lines[0].endswith("; the TFJob has been deleted since")
    assert "  exit code     137: killed by signal 9, SIGKILL" in lines
    assert "  ended by      the kernel: the container went over its memory limit" in lines
    assert "  last words    step 41" in lines and " " * 16 + "allocating 3 GB" in lines
    assert any("deleted pods (JobEnded): mnist-chief-0, mnist-worker-0, mnist-worker-2" in line for line in lines)
    assert lines[-1] == f"Older jobs of this name: {older} (give the uid to ask about one)"
    code, out, _ = await tfjob("why", older, "--json", "--database-url", database_url)
    answer = json.loads(out)
    assert code == 0
    assert (answer["uid"], answer["state"], answer["others"], answer["exists"]) == (older, "Failed", [], False)
    assert (answer["cause"]["slot"], answer["cause"]["attempt"], answer["cause"]["code"]) == ("worker-1", 1, 137)
    assert answer["cause"]["ended_by"] == "kernel"
    assert newer != older


async def test_a_name_that_no_job_has_is_answered_with_those_that_are_near(
    log: EventLog, database_url: str, tmp_path: Path
) -> None:
    await fill(log, play_text(tmp_path, GONE.replace("NAME", "mnist-large")), "a")
    code, out, err = await tfjob("why", "mnist-lagre", "--database-url", database_url)
    assert (code, out) == (1, "")
    assert err == "tfjob: no job 'mnist-lagre' in the log; did you mean team-a/mnist-large?\n"
    with pytest.raises(UserError, match="in namespace elsewhere in the log; did you mean team-a/mnist-large"):
        await find(log, "mnist-large", "elsewhere")
    with pytest.raises(UserError, match="`tfjob list` shows"):
        await find(log, "zzzzzz", None)
