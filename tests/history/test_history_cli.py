"""`tfjob history` with its filters and --follow, and `tfjob gaps`, as a person types them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.cli.history import _wanted
from controller.errors import UserError
from controller.history import Row, timeline
from controller.log import Append, EventLog, JobSnapshot
from controller.model.events import Op, Transition
from controller.model.replicas import slot_of
from tests.history.filled import RICH, fill, play_text
from tests.history.test_why_log import ROOT, tfjob
from tests.log.words import NOW, job, pod

Json = dict[str, Any]


def rows_of(tmp_path: Path) -> list[Row]:
    """The rows of RICH."""
    player = play_text(tmp_path, RICH)
    evidence = player.history.evidence(player.state().uid)  # type: ignore[union-attr]
    assert evidence is not None
    return timeline(evidence.events, evidence.transitions, "job-a")


FILTERS: list[tuple[list[str], list[str], Any]] = [
    (["worker-1"], [], lambda row: "worker-1" in row.slots or "*" in row.slots),
    (["worker-1", "ps-0"], ["pod"], lambda row: row.subject in ("Pod job-a-worker-1", "Pod job-a-ps-0")),
    ([], ["Watch"], lambda row: row.op in ("GAP", "SYNCED")),
    ([], ["controller"], lambda row: row.op in ("DECIDED", "ACTION", "TIMER", "SETTINGS")),
    ([], [], lambda row: True),
]


@pytest.mark.parametrize(("slots", "kinds", "expected"), FILTERS, ids=[f"{case[0]}{case[1]}" for case in FILTERS])
def test_filters_by_slot_and_kind(slots: list[str], kinds: list[str], expected: Any, tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    wanted = _wanted(slots, kinds, None, None)
    found = [row for row in rows if wanted.has(row)]
    assert found == [row for row in rows if expected(row)]
    assert found


def test_rows_name_the_slots_that_they_concern(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    assert all(row.slots == (row.subject.removeprefix("Pod job-a-"),) for row in rows if row.kind == "Pod")
    assert {slot for row in rows for slot in row.slots} == {
        "chief-0", "ps-0", "worker-0", "worker-1", "worker-2", "*",
    }  # fmt: skip
    assert all(slot_of(slot) for row in rows for slot in row.slots if slot != "*")


def test_filters_by_time(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    middle = rows[len(rows) // 2].at
    later, earlier = _wanted([], [], middle, None), _wanted([], [], None, middle)
    assert [row for row in rows if earlier.has(row)] + [row for row in rows if later.has(row)] == rows
    assert not any(_wanted([], [], "1s", None).has(row) for row in rows)  # virtual time is long ago


@pytest.mark.parametrize(
    ("slots", "kinds", "since", "words"),
    [(["worker"], [], None, "--slot worker"), ([], ["Node"], None, "--kind Node"),
     ([], [], "yesterday", "--since yesterday")],
)  # fmt: skip
def test_a_filter_that_cannot_be_is_refused(slots: list[str], kinds: list[str], since: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        _wanted(slots, kinds, since, None)


class Following:
    """`tfjob history --follow --json` as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def row(self) -> Json:
        """The next row."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        assert line, "it ended"
        return json.loads(line)  # type: ignore[no-any-return]


async def followed(url: str, *arguments: str) -> Following:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller", "history", "job", "--follow", "--json", "--database-url", url, *arguments,
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    return Following(process)


def snapshot(position: int, *, is_over: bool = False) -> JobSnapshot:
    return JobSnapshot("job-uid", "ns", "job", position, b"{}", "Created", is_over)


async def test_follow_shows_each_event_once_with_what_it_changed_and_ends_with_the_job(
    log: EventLog, database_url: str
) -> None:
    await log.commit(Append(events=[job(1, Op.ADDED)], cursor=1, snapshots=[snapshot(1)]))
    following = await followed(database_url)
    assert (await following.row())["position"] == 1
    # Its transition comes with the commit after it, as the projector writes it.
    [event] = await log.commit(Append(events=[pod(0, 2, Op.ADDED)]))
    change = Transition(event.position, 0, "Running", "True", "TFJobRunning", "runs", NOW)
    await log.commit(
        Append(transitions=[("job-uid", change)], cursor=event.position, snapshots=[snapshot(event.position)])
    )
    row = await following.row()
    assert (row["position"], row["changed"]) == (event.position, ["Running=True (TFJobRunning)"])
    await log.commit(Append(events=[pod(0, 3, job="other", job_uid="other-uid")]))
    [gone] = await log.commit(Append(events=[job(4, Op.DELETED)]))
    await log.commit(Append(cursor=gone.position, snapshots=[snapshot(gone.position, is_over=True)]))
    assert (await following.row())["position"] == gone.position
    assert await asyncio.wait_for(following.process.wait(), 60) == 0


async def test_follow_shows_what_nobody_folds_after_a_while(log: EventLog, database_url: str) -> None:
    await log.commit(Append(events=[job(1, Op.ADDED)], snapshots=[snapshot(1)]))
    following = await followed(database_url, "--kind", "tfjob")
    assert (await following.row())["position"] == 1
    following.process.kill()
    await following.process.wait()


async def test_the_command_filters_and_gaps_are_shown(log: EventLog, database_url: str, tmp_path: Path) -> None:
    await fill(log, play_text(tmp_path, RICH), "a")
    at = ("--database-url", database_url)
    code, out, _ = await tfjob("history", "job-a", "--slot", "ps-0", "--kind", "Pod", "--json", *at)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and {row["subject"] for row in rows} == {"Pod job-a-ps-0"}
    code, out, _ = await tfjob("gaps", "job-a", "--json", *at)
    [gap] = [json.loads(line) for line in out.splitlines()]
    assert (code, gap["reason"], gap["closed_at"] is not None) == (0, "Expired", True)
    assert gap["changed_count"] > 0
    code, out, _ = await tfjob("gaps", *at)
    assert code == 0 and "tfjobs, pods, services" in out and "Expired" in out


async def test_no_gaps_is_said(log: EventLog, database_url: str) -> None:
    assert await tfjob("gaps", "--database-url", database_url) == (
        0,
        "No gaps: everything was seen as it happened.\n",
        "",
    )
