"""Weaknesses of training-operator 1.9 that no scenario can show: requests, Events, conflicts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from controller.act import Actor, Request
from controller.kube import connect
from controller.local.apiserver import LocalApiServer
from controller.model.actions import Action, Because, DeletePod, EmitNotice, Outcome, PatchStatus, Result
from controller.model.events import ActionSettled, Decided, Op
from controller.model.settings import PolicySettings
from controller.scenario import parse_file
from controller.scenario.play import PurePlayer
from tests.core.words import UID, Line, job
from tests.mutants import Change, mutated

NOTICES = """\
title: a failure, a gap, two restarts of the controller and a relist
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  spec:
    tfReplicaSpecs:
      Chief: {replicas: 1}
      Worker: {replicas: 1, restartPolicy: ExitCode}
steps:
  - pods: {"*": Running}
  - pods: {worker-0: Failed(137)}
  - restart: controller
  - pods: {worker-0: Pending}
  - gap:
    - pods: {chief-0: Running}
  - edit: {metadata: {labels: {some: edit}}}
  - pods: {worker-0: Running}
  - pods: {chief-0: Succeeded}
  - restart: controller
  - gap:
    - after: 5s
"""
SAID_ONCE = ["SuccessfulCreatePod", "TFJobRestarting", "TFJobSucceeded"]


def notices(folder: Path) -> list[str]:
    """The reasons of the Events that the controller makes of that story."""
    file = folder / "story.yaml"
    file.write_text(NOTICES)
    player = PurePlayer(parse_file(file))
    player.run(lambda step: None)
    return player.notices()


async def test_weakness_16_no_deletion_without_a_uid(tmp_path: Path) -> None:
    server = LocalApiServer()
    await server.start()
    try:
        pod = {"metadata": {"name": "a-worker-0"}, "spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}
        server.store.create("namespaces", {"metadata": {"name": "n"}})
        fresh = server.store.create("pods", pod, "n").body
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(server.kubeconfig()))
        async with await connect(kubeconfig) as client:
            action = DeletePod("a-worker-0", "the-pod-of-before", Because.REPLACED)
            request = Request(action, UID, "n", "a", decided_position=1, ordinal=0, generation=1)
            await Actor(client, PolicySettings()).carry_out(request, 0)
        assert [each["metadata"]["uid"] for each in server.store.list("pods")] == [fresh["metadata"]["uid"]]
    finally:
        await server.stop()


def test_weakness_27_an_event_is_said_once(tmp_path: Path) -> None:
    assert notices(tmp_path) == SAID_ONCE
    edit = Change("controller.decide.evaluate", "if not board.is_true(reasons.RESTARTING):\n            draft", "draft")
    with mutated([edit._replace(new="if True:\n            draft")]):
        assert notices(tmp_path) != SAID_ONCE


def test_weakness_28_an_end_is_told_once_whatever_is_seen_again(tmp_path: Path) -> None:
    assert notices(tmp_path).count("TFJobSucceeded") == 1
    with mutated([Change("controller.decide.evaluate", "    if not state.has_ended():\n", "    if True:\n")]):
        assert notices(tmp_path).count("TFJobSucceeded") != 1


def decided(line: Line, seconds: float) -> Decided:
    """What was asked for last becomes a DECIDED event."""
    assert line.last is not None
    fact = Decided(line.last.actions)
    line.fold(line.event(fact, seconds, Op.DECIDED, uid=UID, job_uid=UID))
    return fact


def settle(line: Line, position: int, fact: Decided, seconds: float, refused: type[PatchStatus]) -> None:
    """Everything is done but a status, which meets a conflict."""
    for ordinal, action in enumerate(fact.actions):
        outcome = Outcome(Result.DONE, code=201, uid=f"uid-{ordinal}", resource_version="2")
        if isinstance(action, refused):
            rested_on = str(line.state.resource_version) if line.state else ""
            outcome = Outcome(Result.REFUSED, code=409, reason="Conflict", resource_version=rested_on)
        settled = ActionSettled(position, ordinal, 1, action, outcome)
        line.fold(line.event(settled, seconds, Op.ACTION, uid=UID, job_uid=UID))


@pytest.mark.parametrize("conflicts", [1, 3])
def test_weakness_39_a_conflict_repeats_only_the_status(conflicts: int) -> None:
    """The status is written again once the newer version is in the log; no Event and no creation with it."""
    line = Line()
    line.see_job(job(template_restart_policy()))
    asked: list[Action] = []
    for number in range(conflicts):
        fact = decided(line, number + 0.1)
        asked += fact.actions
        settle(line, line.position, fact, number + 0.2, PatchStatus)
        assert line.last is not None
        assert not any(isinstance(action, PatchStatus) for action in line.last.actions)
        line.see_job(job(template_restart_policy()), number + 0.5, Op.MODIFIED, version=number + 2)
    asked += decided(line, conflicts).actions
    kinds = Counter(type(action).__name__ for action in asked)
    assert kinds == {"PatchStatus": conflicts + 1, "CreatePod": 1, "CreateService": 1, "EmitNotice": 2}
    said = [action.reason for action in asked if isinstance(action, EmitNotice)]
    assert said == ["SetPodTemplateRestartPolicy", "SuccessfulCreatePod"]


def template_restart_policy() -> dict[str, dict[str, object]]:
    """A job about which there is something to say at its first sight."""
    container = {"name": "tensorflow", "image": "example/train:1"}
    return {"Worker": {"template": {"spec": {"restartPolicy": "Always", "containers": [container]}}}}
