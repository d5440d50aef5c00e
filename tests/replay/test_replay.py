"""Histories recorded by this and all earlier releases replay for ever; known bugs of conditions, put into the code, are
found by `tfjob diff` over them, with the job, the event and the rule.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from controller.cli import app
from controller.history.diff import compare_tape, tapes_in
from controller.history.tape import read_tape
from tests.mutants import Change, mutated

FOLDER = Path(__file__).parent
TAPES = tapes_in(FOLDER)
JUDGE, ENDING, EVALUATE = "controller.fold.judge", "controller.decide.ending", "controller.decide.evaluate"

BUGS: dict[str, tuple[list[Change], str, str, str]] = {
    "an evaluator with 137 under ExitCode fails the whole job": (
        [
            Change(
                JUDGE,
                "        return is_retryable(ending.code or 0, state.rules, state.spec.retryable)\n",
                "        own = slot.type.value != 'Evaluator'\n"
                "        return own and is_retryable(ending.code or 0, state.rules, state.spec.retryable)\n",
            )
        ],
        "evaluator-137-exit-code",
        "is Failed True",
        "§4.5",
    ),
    "Succeeded and Failed both True": (
        [
            Change(
                EVALUATE,
                "    board.set_true(end.type, end.reason, end.message)\n",
                "    board.set_true(end.type, end.reason, end.message)\n"
                "    if any(tally.failed for tally in state.tallies.values()):\n"
                "        board.set_true(reasons.FAILED, reasons.JOB_FAILED, end.message)\n",
            )
        ],
        "own-success-and-failure-v1alpha2",
        "is Failed True",
        "§4.5",
    ),
    "retries are not counted against backoffLimit": (
        [Change(JUDGE, "        count_retries(draft, slot, 1)\n", "")],
        "own-exit-code-retryable-v1",
        "Restarting True (TFJobRestarting): message differs",
        "§4.3",
    ),
    "Running stays True after the end": (
        [Change(EVALUATE, "for kind in (reasons.RUNNING, reasons.RESTARTING):", "for kind in (reasons.RESTARTING,):")],
        "peer-status-w1-succeeded",
        "was Running False",
        "§4.2",
    ),
    "v1alpha2: any evaluator or worker that failed fails the job": (
        [Change(ENDING, "        return slot.type is ReplicaType.PS\n", "        return True\n")],
        "own-evaluator-failed-v1alpha2",
        "is Failed True",
        "§4.5",
    ),
}


@pytest.mark.parametrize("tape", TAPES, ids=[tape.stem for tape in TAPES])
def test_replays_as_it_was_recorded(tape: Path) -> None:
    results = compare_tape(tape)
    assert results
    assert [each for each in results if each.differs] == []


def test_every_kind_of_ending_is_recorded() -> None:
    transitions = [each for tape in TAPES for job in read_tape(tape) for each in job.transitions]
    true = {(each.type, each.reason) for each in transitions if each.status == "True"}
    assert true >= {
        ("Succeeded", "TFJobSucceeded"),
        ("Failed", "TFJobFailed"),
        ("Failed", "BackoffLimitExceeded"),
        ("Failed", "DeadlineExceeded"),
        ("Restarting", "TFJobRestarting"),
        ("Suspended", "TFJobSuspended"),
        ("Stalled", "Unschedulable"),
        ("Stalled", "NameTaken"),
    }
    assert any(each.by_gap for each in transitions)


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_is_found(name: str, tmp_path: Path) -> None:
    changes, tape, what, rule = BUGS[name]
    junit = tmp_path / "junit.xml"
    with mutated(changes):
        run = CliRunner().invoke(app, ["diff", str(FOLDER), "--cores", "1", "--json", "--junit", str(junit)])
        text = CliRunner().invoke(app, ["diff", str(FOLDER), "--cores", "1"])
    assert run.exit_code == text.exit_code == 1, run.output
    found = [
        (group, job)
        for group in json.loads(run.output)["groups"]
        for job in group["jobs"]
        if job["source"].endswith(f"/{tape}.tape")
    ]
    ((group, job),) = found
    assert what in group["what"]
    assert rule in group["rule"]
    assert job["position"] > 0
    assert job["event"]
    assert job["recorded"] != job["now"]
    assert f"({job['uid']}) after event {job['position']}: {job['event']}" in text.output or len(group["jobs"]) > 5
    failures = ElementTree.parse(junit).findall("testcase/failure")
    assert any(failure.get("message") == group["what"] for failure in failures)


def test_diff_is_quiet_without_a_bug() -> None:
    run = CliRunner().invoke(app, ["diff", str(FOLDER), "--cores", "2"])
    assert run.exit_code == 0, run.output
    assert run.output.splitlines()[-1].endswith(": 0 differ")
