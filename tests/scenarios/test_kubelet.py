"""What a kubelet reports for the words of a scenario: the status as a real one writes it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.instants import MINUTE, SECOND, instant_of
from controller.scenario.kubelet import status_of_report, stopped_status
from controller.scenario.parse import report_of

T0 = instant_of("2026-01-01T00:00:00Z")
AT = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"


def reported(*states: Any) -> dict[str, Any]:
    """The status after these reports, a minute apart."""
    status: dict[str, Any] = {"phase": "Pending"}
    for number, state in enumerate(states):
        status = status_of_report(report_of(state), T0 + number * MINUTE, status)
    return status


def main_of(status: dict[str, Any]) -> dict[str, Any]:
    (found,) = (each for each in status["containerStatuses"] if each["name"] == "tensorflow")
    return dict(found)


def ended(code: int, at: str, began: str = AT, **words: str) -> dict[str, Any]:
    reason = "Completed" if code == 0 else "Error"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": at, **words}}


MAIN = [
    ("Running", "Running", 0, {"running": {"startedAt": AT}}),
    ("Succeeded", "Succeeded", 0, ended(0, AT)),
    ("Failed", "Failed", 0, ended(1, AT)),
    ("Failed(137)", "Failed", 0, ended(137, AT)),
    ("Failed(137 OOMKilled)", "Failed", 0, ended(137, AT, reason="OOMKilled")),
    ({"waiting": "ImagePullBackOff", "message": "no such image"}, "Pending", 0,
     {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
    ({"waiting": "CrashLoopBackOff", "restartCount": 3}, "Running", 3, {"waiting": {"reason": "CrashLoopBackOff"}}),
    ({"phase": "Pending", "waiting": "ContainerCreating"}, "Pending", 0, {"waiting": {"reason": "ContainerCreating"}}),
    ({"phase": "Running", "main": {"exitCode": 0}, "sidecar": "running"}, "Running", 0, ended(0, AT)),
    ({"phase": "Failed", "exitCode": 1, "message": "last words"}, "Failed", 0, ended(1, AT, message="last words")),
    ({"phase": "Failed", "init": {"exitCode": 3}}, "Failed", 0, {"waiting": {"reason": "PodInitializing"}}),
]  # fmt: skip


@pytest.mark.parametrize(("state", "phase", "count", "main"), MAIN, ids=[str(row[0]) for row in MAIN])
def test_the_main_container(state: Any, phase: str, count: int, main: dict[str, Any]) -> None:
    status = reported(state)
    found = main_of(status)
    assert (status["phase"], found["restartCount"], found["state"]) == (phase, count, main)


WITHOUT_CONTAINERS = [
    ("Pending", {"phase": "Pending"}),
    ({"phase": "Pending"}, {"phase": "Pending"}),
    ({"unschedulable": "0/3 nodes"}, {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "lastTransitionTime": AT, "reason": "Unschedulable",
         "message": "0/3 nodes"}]}),
    ("Evicted", {"phase": "Failed", "reason": "Evicted"}),
    ({"phase": "Failed"}, {"phase": "Failed"}),
    ({"phase": "Failed", "podReason": "NodeLost", "message": "gone"},
     {"phase": "Failed", "reason": "NodeLost", "message": "gone"}),
]  # fmt: skip


@pytest.mark.parametrize(("state", "expected"), WITHOUT_CONTAINERS, ids=[str(row[0]) for row in WITHOUT_CONTAINERS])
def test_a_pod_of_whose_containers_nothing_is_known(state: Any, expected: dict[str, Any]) -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT}
    if expected["phase"] != "Pending":
        expected = {**expected, "conditions": [scheduled]}
    assert reported(state) == expected


def test_a_container_that_runs_on_keeps_its_start() -> None:
    assert main_of(reported("Running", "Running"))["state"] == {"running": {"startedAt": AT}}


def test_an_end_keeps_its_time_when_it_is_reported_again() -> None:
    first = {"phase": "Running", "main": {"exitCode": 0}, "sidecar": "running"}
    assert main_of(reported("Running", first, "Succeeded"))["state"] == ended(0, LATER)


def test_a_restart_begins_anew_and_remembers_the_end_before() -> None:
    found = main_of(reported("Running", {"phase": "Running", "restartCount": 1, "lastExitCode": 137}))
    assert found["restartCount"] == 1
    assert found["state"] == {"running": {"startedAt": LATER}}
    assert found["lastState"] == ended(137, LATER)


def test_a_restart_after_a_reported_end_has_that_end_as_its_last() -> None:
    before = {"phase": "Running", "main": {"exitCode": 7}}
    found = main_of(reported(before, {"phase": "Running", "restartCount": 1}))
    assert found["lastState"] == ended(7, AT)


def test_a_count_that_is_not_said_goes_on() -> None:
    crashing = {"waiting": "CrashLoopBackOff", "restartCount": 2, "lastExitCode": 3}
    found = main_of(reported("Running", crashing, "Running"))
    assert (found["restartCount"], found["lastState"]) == (2, ended(3, LATER))


def test_a_count_that_is_said_may_go_down() -> None:
    found = main_of(reported({"phase": "Running", "restartCount": 4}, {"phase": "Running", "restartCount": 1}))
    assert found["restartCount"] == 1


def test_who_backs_off_from_crashing_has_crashed() -> None:
    assert main_of(reported("Running", {"waiting": "CrashLoopBackOff"}))["lastState"] == ended(1, LATER)


def test_a_lost_node_leaves_the_containers_as_they_were_reported_last() -> None:
    status = reported({"phase": "Running", "restartCount": 2}, "Unknown")
    assert (status["phase"], status["reason"]) == ("Unknown", "NodeLost")
    assert main_of(status)["restartCount"] == 2


def test_a_disruption_is_announced_by_its_condition() -> None:
    status = reported({"phase": "Failed", "exitCode": 137, "disruptionTarget": "PreemptionByScheduler"})
    assert {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": AT,
        "reason": "PreemptionByScheduler",
    } in (status["conditions"])


def test_sidecars_end_beside_the_main_container() -> None:
    status = reported({"phase": "Failed", "main": {"exitCode": 0}, "sidecar": {"exitCode": 2}})
    assert [(each["name"], each["state"]) for each in status["containerStatuses"]] == [
        ("tensorflow", ended(0, AT)), ("sidecar", ended(2, AT)),
    ]  # fmt: skip


def test_an_end_without_its_time_can_be_said() -> None:
    status = reported({"phase": "Failed", "main": {"exitCode": 137, "finishedAt": None}})
    assert "finishedAt" not in main_of(status)["state"]["terminated"]


def test_times_have_whole_seconds() -> None:
    status = status_of_report(report_of("Running"), T0 + SECOND - 1, {"phase": "Pending"})
    assert main_of(status)["state"] == {"running": {"startedAt": AT}}


def test_a_pod_that_is_stopped_ends_by_sigterm_unless_its_main_container_had_ended() -> None:
    running = stopped_status(reported("Running"), T0)
    done = stopped_status(reported({"phase": "Running", "main": {"exitCode": 0}, "sidecar": "running"}), T0)
    assert (running["phase"], main_of(running)["state"]) == ("Failed", ended(143, AT))
    assert (done["phase"], main_of(done)["state"]) == ("Failed", ended(0, AT))
