"""Tapes: out of a log and back, readable with a standard tool, refused where they are damaged; replays of them."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller import __version__
from controller.cli import app
from controller.errors import UserError
from controller.history.replay import replay
from controller.history.tape import Damaged, check_tape, read_tape, write_tape
from controller.history.tape_log import import_jobs, recorded_of
from controller.log import EventLog

SUCCEEDED = Path(__file__).parents[1] / "replay" / "peer-status-w1-succeeded.tape"
SEVERAL = SUCCEEDED.with_name("own-stalled-name-taken.tape")
JOBS = 3
RETRIED = SUCCEEDED.with_name("evaluator-137-exit-code.tape")


@pytest.fixture
async def tape(log: EventLog, tmp_path: Path) -> Path:
    """A tape of several jobs, out of a log."""
    await import_jobs(log, read_tape(SEVERAL), "test", "0")
    jobs = [await recorded_of(log, row.job_uid) for row in await log.list_jobs()]
    path = tmp_path / "jobs.tape"
    with path.open("wb") as out:
        assert write_tape(out, jobs, __version__) == JOBS
    return path


async def test_is_what_the_log_has(tape: Path, log: EventLog) -> None:
    rows = {row.job_uid: row for row in await log.list_jobs()}
    found = list(read_tape(tape))
    assert {each.job.uid for each in found} == set(rows)
    for each in found:
        assert [event for event in each.events if event.job_uid] == [
            event for event in await log.read_job(each.job.uid) if event.job_uid
        ]
        assert each.transitions == await log.transitions_of(each.job.uid)
        assert replay(each).difference is None


async def test_is_json_lines_for_a_standard_tool(tape: Path) -> None:
    lines = [json.loads(line) for line in subprocess.check_output(["zcat", str(tape)]).splitlines()]
    assert lines[0]["line"] == "tape"
    assert lines[-1] == {"line": "end", "jobs": JOBS, "check": lines[-1]["check"]}
    assert {line["line"] for line in lines} == {"tape", "job", "event", "transition", "end"}


async def test_the_same_histories_are_the_same_bytes(tape: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tape"
    with again.open("wb") as out:
        write_tape(out, read_tape(tape), __version__)
    assert again.read_bytes() == tape.read_bytes()


async def test_goes_into_another_log_and_is_the_same_there(tape: Path, database_url: str) -> None:
    other = await EventLog.open(database_url, cluster="imported")
    try:
        count = await import_jobs(other, read_tape(tape), "test", "0")
        assert await other.position() == count
        for each in read_tape(tape):
            there = await recorded_of(other, each.job.uid)
            assert [event.op for event in there.events] == [event.op for event in each.events]
            assert len(there.transitions) == len(each.transitions)
            assert replay(there).difference is None
        with pytest.raises(UserError, match="has events already"):
            await import_jobs(other, read_tape(tape), "test", "0")
    finally:
        await other.close()


def test_a_cut_file_is_refused_with_the_place(tmp_path: Path) -> None:
    whole = SUCCEEDED.read_bytes()
    cut = tmp_path / "cut.tape"
    for length in range(0, len(whole), 97):
        cut.write_bytes(whole[:length])
        with pytest.raises(Damaged, match=r"cut\.tape: line \d+: "):
            check_tape(cut)


def test_a_changed_byte_is_refused_with_the_place(tmp_path: Path) -> None:
    whole, luck = SUCCEEDED.read_bytes(), random.Random(8)
    damaged = tmp_path / "damaged.tape"
    # Behind the ten bytes of gzip's header, whose time and system say nothing of the content.
    for _ in range(200):
        place = luck.randrange(10, len(whole))
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << luck.randrange(8))]) + whole[place + 1 :])
        with pytest.raises(Damaged, match=r"damaged\.tape: line \d+: "):
            check_tape(damaged)


@pytest.mark.parametrize("kind", ["removed", "moved", "doubled", "edited", "no end"])
def test_lines_that_are_not_as_written_are_refused(kind: str, tmp_path: Path) -> None:
    lines = gzip.decompress(SUCCEEDED.read_bytes()).splitlines(keepends=True)
    place = 7
    match kind:
        case "removed":
            del lines[place]
        case "moved":
            lines[place], lines[place + 1] = lines[place + 1], lines[place]
        case "doubled":
            lines.insert(place, lines[place])
            place += 1
        case "edited":
            lines[place] = lines[place].replace(b"position", b"Position", 1)
        case "no end":
            lines, place = lines[:-1], len(lines) - 1
    changed = tmp_path / "changed.tape"
    changed.write_bytes(gzip.compress(b"".join(lines)))
    with pytest.raises(Damaged) as refused:
        check_tape(changed)
    assert refused.value.line == place + 1
    assert CliRunner().invoke(app, ["replay", str(changed)]).output == ""


def test_replay_says_the_same_and_exits_0() -> None:
    run = CliRunner().invoke(app, ["replay", str(SUCCEEDED)])
    assert run.exit_code == 0, run.output
    assert run.output.startswith("same  team-a/job-a")


def test_an_edit_is_compared_and_exits_1() -> None:
    run = CliRunner().invoke(app, ["replay", str(RETRIED), "--edit", "spec.runPolicy.backoffLimit=0"])
    assert run.exit_code == 1, run.output
    assert "Failed True (BackoffLimitExceeded)" in run.output
    assert "first difference: after event " in run.output
    assert "rule: RULES §" in run.output


def test_another_policy_is_compared() -> None:
    same = CliRunner().invoke(app, ["replay", str(RETRIED), "--policy", "v1"])
    other = CliRunner().invoke(app, ["replay", str(RETRIED), "--policy", "v1alpha2", "--json"])
    assert (same.exit_code, other.exit_code) == (0, 1)
    assert json.loads(other.output)["difference"]["recorded"] != json.loads(other.output)["difference"]["now"]


def test_until_a_position_or_a_time() -> None:
    (recorded,) = read_tape(SUCCEEDED)
    middle = recorded.transitions[1]
    from controller.model.instants import micro_text_of

    for until in (str(middle.position), micro_text_of(middle.at)):
        run = CliRunner().invoke(app, ["replay", str(SUCCEEDED), "--until", until, "--json"])
        assert run.exit_code == 0, run.output
        assert [each["now"]["type"] for each in json.loads(run.output)["transitions"]] == ["Created", "Running"]


def test_step_shows_states_rules_and_what_is_wanted() -> None:
    run = CliRunner().invoke(app, ["replay", str(RETRIED), "--step"])
    assert "+ conditions.Restarting.status: True" in run.output
    assert "= Restarting True (TFJobRestarting); RULES §4.3" in run.output
    assert "> wants " in run.output


@pytest.mark.parametrize(
    "wrong", [["--edit", "spec"], ["--edit", "status.x=1"], ["--policy", "v2"], ["--until", "yesterday"]]
)
def test_what_cannot_be_asked_is_one_line(wrong: list[str]) -> None:
    run = CliRunner().invoke(app, ["replay", str(SUCCEEDED), *wrong])
    assert isinstance(run.exception, UserError)
    assert run.output == ""
