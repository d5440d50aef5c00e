"""`tfjob simulate`: what it says of files that hold, differ, or are none."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.errors import UserError
from controller.local.apiserver import LocalApiServer

CASE = """\
title: a case
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  spec: {tfReplicaSpecs: {Worker: {replicas: 2}}}
steps:
  - pods: {"*": Running}
  - expect: {state: Running, replicas: {Worker: {active: 2}}}
  - pods: {worker-0: Succeeded}
  - expect: {state: Succeeded, pods: [worker-0], completionTime: set}
"""
WRONG_STEPS = [
    ('  - pods: {"evaluator-*": Running}\n', "steps[0].pods: evaluator-* names no pod to report Running of"),
    ("  - pods: {worker-0: Failed}\n  - pods: {worker-0: Running}\n",
     "steps[1].pods: pod job-a-worker-0 has ended Failed and cannot become Running"),
    ("  - gap:\n    - delete: worker-9\n", "steps[0].gap[0].delete: worker-9 has no pod"),
    ("  - create_job: same\n", "steps[0].create_job: same as what? The file has no job"),
    ("  - delete_job: true\n  - edit: {spec: {}}\n", "steps[1].edit: there is no job job-a"),
    ("  - after: 1s\n  - create_job: same\n", "steps[1].create_job: there is a TFJob job-a already"),
    ("  - foreign: {kind: Pod, name: job-a-worker-0}\n", "steps[0].foreign: there is a Pod job-a-worker-0 already"),
]  # fmt: skip
runner = CliRunner()


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_that_holds(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", CASE)])
    said = f"held      {tmp_path}/a.yaml: a case (2 expectations)\n1 held, 0 differed, 0 malformed\n"
    assert (result.exit_code, result.stdout) == (0, said)


def test_a_wrong_expectation_is_reported_at_its_step(tmp_path: Path) -> None:
    wrong = CASE.replace("active: 2", "active: 1").replace("pods: [worker-0]", "pods: []")
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", wrong)])
    assert result.exit_code == 1
    assert "DIFFERED" in result.stdout and "(0 of 2 expectations held)" in result.stdout
    assert "steps[1]: replicas.Worker.active: expected 1, got 2" in result.stdout
    assert 'steps[3]: pods: expected [], got ["worker-0"]' in result.stdout
    assert "0 held, 1 differed, 0 malformed" in result.stdout


def test_a_malformed_file_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", CASE)
    write(tmp_path, "b.yaml", "title: only this\n")
    result = runner.invoke(app, ["simulate", str(tmp_path)])
    assert result.exit_code == 2 and "b.yaml:1: " in result.stderr
    assert "1 held, 0 differed, 1 malformed" in result.stdout


def test_a_report_on_a_pod_that_is_not_there_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    wrong = CASE.replace("worker-0: Succeeded", "worker-7: Succeeded")
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", wrong)])
    assert result.exit_code == 2
    assert result.stderr == f"{tmp_path}/a.yaml:9: steps[2].pods: worker-7 has no pod to report Succeeded of\n"


@pytest.mark.parametrize(("steps", "said"), WRONG_STEPS)
def test_a_step_that_cannot_be_is_a_mistake_of_the_file(steps: str, said: str, tmp_path: Path) -> None:
    head = CASE.partition("steps:")[0] if "same as what" not in said else "title: a case without a job\n"
    text = head + "steps:\n" + steps
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", text)])
    assert (result.exit_code, result.stderr.partition(": ")[2]) == (2, said + "\n")


def test_a_file_that_is_only_for_other_ways_of_running_is_left_out(tmp_path: Path) -> None:
    text = CASE.replace("active: 2", "active: 1") + "only: [local, cluster]\n"
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", text)])
    assert result.exit_code == 0 and "0 held, 0 differed, 0 malformed, 1 left out" in result.stdout


def test_folders_are_searched_to_their_bottom(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "a.yml", CASE)
    write(tmp_path, "b.yaml", CASE)
    assert "2 held" in runner.invoke(app, ["simulate", str(tmp_path)]).stdout


def test_a_folder_without_scenarios_is_said_so(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", str(tmp_path)])
    assert isinstance(result.exception, UserError) and "no scenario in this folder" in str(result.exception)


def test_json_has_steps_status_transitions_with_causes_and_actions_in_order(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--json", write(tmp_path, "a.yaml", CASE)])
    found = json.loads(result.stdout)
    assert found["held"] is True
    assert [(step["path"], step["verb"], step["held"]) for step in found["steps"]] == [
        ("steps[0]", "pods", None),
        ("steps[1]", "expect", True),
        ("steps[2]", "pods", None),
        ("steps[3]", "expect", True),
    ]
    assert found["status"]["conditions"][-1]["type"] == "Succeeded"
    assert [(each["type"], each["status"]) for each in found["transitions"]] == [
        ("Created", "True"), ("Running", "True"), ("Running", "False"), ("Succeeded", "True"),
    ]  # fmt: skip
    assert "job-a-worker-0" in found["transitions"][-1]["cause"]
    positions = [each["position"] for each in found["actions"]]
    assert positions == sorted(positions)
    asked = [each["action"]["action"] for each in found["actions"]]
    assert set(asked) >= {"CreatePod", "CreateService", "PatchStatus", "DeletePod"}
    assert asked.index("CreatePod") < asked.index("DeletePod")


def test_json_says_what_differed_as_data(tmp_path: Path) -> None:
    wrong = CASE.replace("active: 2", "active: 1")
    result = runner.invoke(app, ["simulate", "--json", write(tmp_path, "a.yaml", wrong)])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["held"]) == (1, False)
    assert found["steps"][1]["differences"] == [{"key": "replicas.Worker.active", "expected": 1, "got": 2}]


def test_json_of_a_deleted_job_has_the_last_status(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--json", write(tmp_path, "a.yaml", CASE + "  - delete_job: true\n")])
    assert json.loads(result.stdout)["status"]["conditions"][-1]["type"] == "Succeeded"


def test_json_of_a_malformed_file_is_an_object_too(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "title: only this\n")
    result = runner.invoke(app, ["simulate", "--json", path])
    assert json.loads(result.stdout) == {
        "file": path, "held": False, "malformed": f"{path}:1: file: needs the key steps"
    }  # fmt: skip


def test_verbose_shows_the_status_after_every_step(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--verbose", write(tmp_path, "a.yaml", CASE)])
    lines = [line for line in result.stdout.splitlines() if ", status {" in line]
    assert result.exit_code == 0 and [line.split(":")[0].strip() for line in lines] == [
        "steps[0]", "steps[1]", "steps[2]", "steps[3]"
    ]  # fmt: skip
    # The status after a step is that of its time, not the last one.
    assert '"Succeeded"' not in lines[1] and '"Succeeded"' in lines[3]


def test_on_the_local_api_server(tmp_path: Path) -> None:
    wrong = CASE.replace("state: Succeeded", "state: Failed")
    files = [write(tmp_path, "a.yaml", CASE), write(tmp_path, "b.yaml", wrong), write(tmp_path, "c.yaml", "title: x\n")]
    files.append(write(tmp_path, "d.yaml", CASE.replace("steps:", "steps:\n  - after: 1h")))
    result = runner.invoke(app, ["simulate", "--local", *files])
    assert result.exit_code == 2
    assert result.stdout == (
        f"held      {files[0]}: a case (2 expectations)\n"
        f"DIFFERED  {files[1]}: a case (1 of 2 expectations held)\n"
        "    steps[3]: state: expected Failed, got Succeeded (True)\n"
        f"left out  {files[3]}: a case (waits 1h; --max-wait is 15 s)\n"
        "1 held, 1 differed, 1 malformed, 1 left out\n"
    )
    assert result.stderr == f"{files[2]}:1: file: needs the key steps\n"


def test_a_mistake_of_the_file_is_one_on_an_api_server_as_well(tmp_path: Path) -> None:
    wrong = CASE.replace("worker-0: Succeeded", "worker-7: Succeeded")
    result = runner.invoke(app, ["simulate", "--local", write(tmp_path, "a.yaml", wrong)])
    assert result.exit_code == 2
    assert result.stderr == f"{tmp_path}/a.yaml:9: steps[2].pods: worker-7 has no pod to report Succeeded of\n"


def test_a_live_run_tells_what_was_asked_for(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--local", "--json", "-v", write(tmp_path, "a.yaml", CASE)])
    told = json.loads(result.stdout)
    assert [step["held"] for step in told["steps"]] == [None, True, None, True]
    assert told["status"]["conditions"][-1]["type"] == "Succeeded"
    changes = [(each["type"], each["status"]) for each in told["transitions"]]
    assert changes == [("Created", "True"), ("Running", "True"), ("Running", "False"), ("Succeeded", "True")]
    created = [each["outcome"] for each in told["actions"] if each["action"]["action"] == "CreatePod"]
    assert [outcome["code"] for outcome in created] == [201, 201]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--local", "--cluster"], "--local and --cluster are two ways: name one"),
        (["--local", "--context", "x"], "--kubeconfig and --context go with --cluster"),
    ],
)
def test_ways_that_contradict_each_other(flags: list[str], said: str, tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", *flags, write(tmp_path, "a.yaml", CASE)])
    assert isinstance(result.exception, UserError) and str(result.exception) == said


async def test_a_cluster_without_the_crd_is_said(tmp_path: Path) -> None:
    server = LocalApiServer()
    await server.start()
    try:
        kubeconfig = write(tmp_path, "kubeconfig", json.dumps(server.kubeconfig()))
        arguments = ["simulate", "--cluster", "--kubeconfig", kubeconfig, write(tmp_path, "a.yaml", CASE)]
        result = await asyncio.to_thread(runner.invoke, app, arguments)
    finally:
        await server.stop()
    assert isinstance(result.exception, UserError)
    assert "serves no TFJobs: kubectl apply --server-side -f deploy/crd/tfjob.yaml" in str(result.exception)
