"""`tfjob simulate`: what it says of files that hold, differ, or are none."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from controller.cli import app

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
runner = CliRunner()


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_that_holds(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", CASE)])
    assert (result.exit_code, result.stdout) == (0, "1 held, 0 differed, 0 malformed\n")


def test_a_wrong_expectation_is_reported_at_its_step(tmp_path: Path) -> None:
    wrong = CASE.replace("active: 2", "active: 1").replace("pods: [worker-0]", "pods: []")
    result = runner.invoke(app, ["simulate", write(tmp_path, "a.yaml", wrong)])
    assert result.exit_code == 1
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
    assert result.exit_code == 2 and "worker-7 has no pod" in result.stderr


def test_json_has_steps_status_transitions_with_causes_and_actions_in_order(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--json", write(tmp_path, "a.yaml", CASE)])
    found = json.loads(result.stdout)
    assert found["held"] is True and [step["path"] for step in found["steps"]] == ["steps[1]", "steps[3]"]
    assert found["status"]["conditions"][-1]["type"] == "Succeeded"
    assert [(each["type"], each["status"]) for each in found["transitions"]] == [
        ("Created", "True"), ("Running", "True"), ("Running", "False"), ("Succeeded", "True"),
    ]  # fmt: skip
    assert "job-a-worker-0" in found["transitions"][-1]["cause"]
    positions = [each["position"] for each in found["actions"]]
    assert positions == sorted(positions)
    assert {each["action"] for each in found["actions"]} >= {"CreatePod", "CreateService", "PatchStatus", "DeletePod"}


def test_verbose_shows_the_status_after_every_expectation(tmp_path: Path) -> None:
    result = runner.invoke(app, ["simulate", "--verbose", write(tmp_path, "a.yaml", CASE)])
    assert result.exit_code == 0 and result.stdout.count("status {") == 2
