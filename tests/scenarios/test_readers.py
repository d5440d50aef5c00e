"""What others read of the status, after every step of every given scenario.

Katib asks the gjson path `status.conditions.#(type=="Succeeded")#|#(status=="True")#` and the same for Failed, and
takes a trial as ended when one gives something; Pipelines looks at `conditions[-1]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.model.names import JOB_ROLE_LABEL, OPERATOR_LABEL
from controller.scenario import parse_file
from controller.scenario.model import Step
from controller.scenario.play import PurePlayer
from tests.scenarios.test_given import FILES

Json = dict[str, Any]
TYPES = {"Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended", "Stalled"}
ADOPTED = """\
title: a trial's job
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  metadata:
    ownerReferences:
      - {apiVersion: kubeflow.org/v1beta1, kind: Trial, name: trial-1, uid: uid-of-trial, controller: true}
  spec: {tfReplicaSpecs: {Chief: {replicas: 1}, Worker: {replicas: 2}}}
steps:
  - pods: {"*": Running}
  - pods: {chief-0: Succeeded}
"""


def katib(status: Json, kind: str) -> list[Json]:
    """What Katib's path gives for a type."""
    of_type = [entry for entry in status.get("conditions") or () if entry["type"] == kind]
    return [entry for entry in of_type if entry["status"] == "True"]


class Readers:
    """Looks at the job's status after each step; what they once took as the end stays the end of that job."""

    def __init__(self, player: PurePlayer) -> None:
        self._player = player
        self._ends: dict[str, str] = {}
        self.looks = 0

    def look(self, _step: Step) -> None:
        job = self._player.job()
        status: Json = (job.body.get("status") if job else None) or {}
        if job is None or not status.get("conditions"):
            return
        self.looks += 1
        ends = [kind for kind in ("Succeeded", "Failed") if katib(status, kind)]
        last = status["conditions"][-1]
        assert len(ends) <= 1
        assert last["status"] == "True" and last["type"] in TYPES - {"Stalled"}
        assert (last["type"] in ("Succeeded", "Failed")) == bool(ends)
        if job.uid in self._ends:
            assert ends == [self._ends[job.uid]]
        if ends:
            self._ends[job.uid] = ends[0]
            assert ends == [last["type"]] and "completionTime" in status


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_katib_and_pipelines_read_one_end_and_it_stays(file: Path) -> None:
    player = PurePlayer(parse_file(file))
    readers = Readers(player)
    player.run(readers.look, readers.look)
    only_admission = all(step.verb == "submit" for step in player.scenario.steps)
    assert readers.looks > 0 or only_admission or player.status() is None


def test_owners_of_the_job_and_the_role_that_katib_looks_for_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "trial.yaml"
    file.write_text(ADOPTED)
    player = PurePlayer(parse_file(file))
    roles: dict[str, set[str]] = {}

    def note(_step: Step) -> None:
        for pod in player.world.of_kind("Pod"):
            labels = pod.metadata["labels"]
            assert labels[OPERATOR_LABEL] == "tfjob-controller"
            roles.setdefault(labels.get(JOB_ROLE_LABEL, "none"), set()).add(pod.metadata["name"])

    player.run(note, note)
    job = player.job_body()
    assert job is not None
    assert [each["name"] for each in job["metadata"]["ownerReferences"]] == ["trial-1"]
    assert roles == {"master": {"job-a-chief-0"}, "none": {"job-a-worker-0", "job-a-worker-1"}}
