"""Gaps, relists and proofs of absence, over HTTP. Requests and rows are counted, never seconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller.kube.backoff import delay_seconds
from controller.model.events import GapOpened, GapReason, Op
from controller.watch import Mark, Pace, StreamFact, Watches, reflector
from controller.watch.look import Lags
from tests.cluster.harness import until
from tests.edges.fault_server import status_body
from tests.edges.scripted_api import (
    END,
    LAST,
    Known,
    Script,
    Setting,
    ended,
    head,
    html,
    line,
    lists,
    pod,
    refuses,
    scripted,
    sends,
)
from tests.edges.watch_world import running, ticking


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with scripted(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(refuses(410, "Expired"), id="HTTP 410"),
        pytest.param(sends(line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})), id="an error event"),
    ],
)
async def test_410_is_a_gap_and_a_relist_at_once(setting: Setting, expired: Script) -> None:
    setting.api.lists = [lists(60, pod("changed", 55), pod("new", 56), pod("same", 5))]
    setting.api.watches = [expired, LAST]
    known = [head("changed", 7), head("same", 5), head("gone", 6)]
    async with running(setting.watches(known, mark=20)):
        await ended(setting)
    assert setting.rows() == [
        ("SYNC_MODIFIED", "changed"),
        ("SYNC_ADDED", "new"),
        ("SYNC_DELETED", "gone"),
        ("ADDED", "end"),
    ]
    assert (setting.reasons(), setting.api.watched()) == ([GapReason.EXPIRED], ["20", "60"])
    assert setting.pauses.seconds == [0.0]
    gaps = [item.fact for item in setting.sink.items if isinstance(item, StreamFact)]
    assert isinstance(gaps[0], GapOpened)
    assert gaps[0].resources == ("pods",)
    # Since the mark of the log, or since the last line that was read.
    assert gaps[0].from_at == 7 or (gaps[0].from_at or 0) >= 1_000_000
    gone = next(each for each in setting.sink.observations("pods") if each.op is Op.SYNC_DELETED)
    assert (gone.uid, gone.job_uid, gone.job_name, gone.resource_version) == ("uid-gone", "job-uid", "job", 60)


async def test_410_again_and_again_is_no_hot_loop(setting: Setting) -> None:
    setting.api.lists = [lists(60)]
    setting.api.watches = [refuses(410, "Expired")] * 4 + [LAST]
    async with running(setting.watches(mark=20)):
        await ended(setting)
    assert setting.pauses.seconds == [delay_seconds(failures, 0.5) for failures in (0, 1, 2, 3)]
    assert setting.api.list_count == 4


async def test_a_list_in_pages_that_expires_lives_anew(setting: Setting) -> None:
    setting.api.lists = [
        lists(60, pod("a", 1), go_on="next"),
        refuses(410, "Expired"),
        lists(61, pod("a", 1), go_on="next"),
        lists(61, pod("b", 2)),
    ]
    setting.api.watches = [LAST]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.rows() == [("SYNC_ADDED", "a"), ("SYNC_ADDED", "b"), ("ADDED", "end")]
    continued = [request.query.get("continue") for request in setting.api.server.seen if request.path == "/api/v1/pods"]
    assert continued[:4] == [None, "next", None, "next"]


async def test_a_list_below_what_was_seen_is_repeated(setting: Setting) -> None:
    setting.api.lists = [lists(15), lists(30, pod("a", 21))]
    setting.api.watches = [refuses(410, "Expired"), LAST]
    async with running(setting.watches([head("a", 21)], mark=20)):
        await ended(setting)
    assert setting.rows() == [("ADDED", "end")]
    assert setting.reasons() == [GapReason.EXPIRED]


async def test_two_lists_below_what_was_seen_mean_that_the_cluster_was_set_back(setting: Setting) -> None:
    setting.api.lists = [lists(15, pod("a", 14)), lists(16, pod("a", 14))]
    setting.api.watches = [refuses(410, "Expired"), LAST]
    async with running(setting.watches([head("a", 21)], mark=20)):
        await ended(setting)
    assert setting.reasons() == [GapReason.EXPIRED, GapReason.CLUSTER_RESTORED]
    assert setting.rows() == [("SYNC_MODIFIED", "a"), ("ADDED", "end")]
    assert setting.api.watched() == ["20", "16"]


async def test_when_much_would_vanish_a_second_list_must_agree(setting: Setting) -> None:
    everything = [pod(f"p{index}", 5) for index in range(20)]
    setting.api.lists = [lists(60), lists(61, *everything)]
    setting.api.watches = [refuses(410, "Expired"), LAST]
    async with running(setting.watches([head(f"p{index}", 5) for index in range(20)], mark=20)):
        await ended(setting)
    assert setting.rows() == [("ADDED", "end")]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(html, id="502"),
        pytest.param(refuses(404, "NotFound"), id="a 404 that names nothing"),
        pytest.param(refuses(404, "", name="gone"), id="a 404 without reason"),
        pytest.param(refuses(403, "Forbidden"), id="403"),
        pytest.param(sends(b"{}", ends="end"), id="no object"),
        pytest.param(sends(b"<html>", ends="end"), id="200 with a page"),
    ],
)
async def test_absence_is_not_written_without_proof(setting: Setting, answer: Script) -> None:
    asked = asyncio.Event()
    proof = False

    async def get(request: web.Request) -> web.StreamResponse:
        if proof:
            return status_body(404, "NotFound", name="gone")
        if setting.api.get_count >= 3:
            asked.set()
        return await answer(request)

    setting.api.gets["gone"] = get
    setting.api.lists = [lists(60, *[pod(f"p{index}", 5) for index in range(20)])]
    setting.api.watches = [refuses(410, "Expired"), LAST]
    known = [head(f"p{index}", 5) for index in range(20)] + [head("gone", 5)]
    async with running(setting.watches(known, mark=20)):
        await asyncio.wait_for(asked.wait(), 20)
        assert setting.rows() == []
        assert not setting.sink.has(Op.SYNCED)()
        proof = True
        await ended(setting)
    assert setting.rows() == [("SYNC_DELETED", "gone"), ("ADDED", "end")]


async def test_a_name_that_was_taken_again_is_proof_for_the_old_uid(setting: Setting) -> None:
    setting.api.gets["a"] = sends(json.dumps(pod("a", 70, uid="other")).encode(), ends="end")
    setting.api.watches = [sends(line("DELETED", pod("a", 12)), line("ADDED", END))]
    async with running(setting.watches([head("a", 5)], mark=10)):
        await ended(setting)
    assert setting.rows() == [("DELETED", "a"), ("ADDED", "end")]


async def test_deleted_without_a_deletion_is_looked_up_and_may_be_an_edit(setting: Setting) -> None:
    edited = pod("a", 12, labels={})
    setting.api.gets["a"] = sends(json.dumps(edited).encode(), ends="end")
    terminating = pod("b", 13, deletionTimestamp="2026-01-01T00:00:00Z")
    setting.api.watches = [sends(line("DELETED", pod("a", 12)) + line("DELETED", terminating) + line("ADDED", END))]
    async with running(setting.watches([head("a", 5), head("b", 6)], mark=10)):
        await ended(setting)
    assert setting.rows() == [("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "end")]
    assert setting.api.get_count == 1


async def test_a_deletion_in_doubt_is_read_again_after_a_cut(setting: Setting) -> None:
    async def cut_when_asked(request: web.Request) -> web.StreamResponse:
        if setting.api.get_count == 1:
            return web.Response(status=500)
        return status_body(404, "NotFound", name="a")

    setting.api.gets["a"] = cut_when_asked
    deletion = sends(line("DELETED", pod("a", 12)) + line("ADDED", END))
    setting.api.watches = [deletion, deletion]
    async with running(setting.watches([head("a", 5)], mark=10)):
        await ended(setting)
    assert setting.rows() == [("DELETED", "a"), ("ADDED", "end")]
    assert setting.api.watched() == ["10", "10"]


async def test_a_named_resource_is_listed_although_it_has_a_mark(setting: Setting) -> None:
    setting.api.lists = [lists(60, pod("a", 30))]
    setting.api.watches = [LAST]
    log = Known([head("a", 5)])
    marks = {name: Mark(name, 20, "list", 0) for name in ("tfjobs", "pods", "services")}
    pace = Pace(pause=setting.pauses)
    again = {"pods": GapReason.LOG_REWOUND}
    async with running(Watches(setting.client, log, setting.sink, marks, None, ticking(), relist=again, pace=pace)):
        await ended(setting)
    assert setting.rows() == [("SYNC_MODIFIED", "a"), ("ADDED", "end")]
    assert setting.sink.rows("none") == [("GAP", "pods"), ("SYNCED", "pods")]
    assert setting.reasons() == [GapReason.LOG_REWOUND]


async def test_synced_stands_before_the_mark_of_the_last_list(setting: Setting) -> None:
    setting.api.watches = [LAST]
    async with running(setting.watches()):
        await ended(setting)
    synced = next(
        place for place, item in enumerate(setting.sink.items) if isinstance(item, StreamFact) and item.op is Op.SYNCED
    )
    last = setting.sink.items[synced + 1]
    assert isinstance(last, Mark)
    earlier = {item.resource for item in setting.sink.items[:synced] if isinstance(item, Mark)}
    assert last.resource not in earlier


async def test_a_look_returns_when_the_stream_has_told_what_a_list_shows(setting: Setting) -> None:
    """What the list shows is not put: it is the stream's to bring, with all that was in between."""
    may_send = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await may_send.wait()
        for version in (64, 65):
            await answer.write(line("MODIFIED", pod("a", version)))
        await asyncio.Event().wait()
        return answer

    setting.api.watches = [late]
    setting.api.lists = [lists(60, pod("a", 30))]
    watches = setting.watches([])
    async with running(watches):
        await setting.sink.until(setting.sink.has(Op.SYNCED))
        setting.api.lists = [lists(70, pod("a", 65))]
        before = len(setting.rows())
        await until(watches.is_connected, "the watch is open")
        looking = asyncio.create_task(watches.look_at_pods("ns", "job"))
        await asyncio.wait([looking], timeout=0.2)
        assert setting.rows()[before:] == [] and not looking.done()
        may_send.set()
        await looking
        assert setting.rows()[before:] == [("MODIFIED", "a"), ("MODIFIED", "a")]


async def test_a_look_at_a_stream_that_has_fallen_silent_begins_it_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "LOOK_SECONDS", 0.1)
    setting.api.watches = [sends(), sends(line("DELETED", pod("a", 65, deletionTimestamp="2026-01-01T00:00:00Z")))]
    setting.api.lists = [lists(60, pod("a", 30))]
    watches = setting.watches([])
    async with running(watches):
        await setting.sink.until(setting.sink.has(Op.SYNCED))
        setting.api.lists = [lists(70)]
        before = len(setting.rows())
        await until(watches.is_connected, "the watch is open")
        with pytest.raises(Lags):
            await watches.look_at_pods("ns", "job")
        await setting.sink.until(setting.sink.has(Op.DELETED, "a"))
        await until(watches.is_connected, "the watch is open again")
        await watches.look_at_pods("ns", "job")
        assert setting.rows()[before:] == [("DELETED", "a")]
