"""The audit over HTTP: a stream that left something out is found out, one that is only behind is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller.model.events import GapReason, Op
from tests.edges.scripted_api import LAST, Script, Setting, bookmark, ended, head, line, lists, pod, scripted, sends
from tests.edges.watch_world import running


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with scripted(tmp_path) as found:
        yield found


class Once:
    """Lets the first audit of pods begin when the test says so, and no other."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.is_through = asyncio.Event()
        """Each of the three resources has been audited, and waits for its next audit."""

    async def __call__(self, seconds: float) -> None:
        assert 600 <= seconds <= 1800
        self.begun += 1
        if self.begun == 6:
            self.is_through.set()
        await (self.go.wait() if self.begun <= 3 else asyncio.Event().wait())


KNOWN = [head("a", 5), head("b", 6)]


@pytest.mark.parametrize(
    ("audit", "relist", "rows"),
    [
        pytest.param(
            lists(70, pod("a", 5)), lists(71, pod("a", 5)), [("SYNC_DELETED", "b"), ("ADDED", "end")], id="a deletion"
        ),
        pytest.param(
            lists(70, pod("a", 65), pod("b", 6)),
            lists(71, pod("a", 65), pod("b", 6)),
            [("SYNC_MODIFIED", "a"), ("ADDED", "end")],
            id="a change",
        ),
        pytest.param(
            lists(70, pod("a", 5), pod("b", 6), pod("c", 66)),
            lists(71, pod("a", 5), pod("b", 6), pod("c", 66)),
            [("SYNC_ADDED", "c"), ("ADDED", "end")],
            id="a new one",
        ),
    ],
)
async def test_what_the_stream_left_out_is_a_gap(
    setting: Setting, audit: Script, relist: Script, rows: list[tuple[str, str]]
) -> None:
    once = Once()
    # The list of names, a second one where much would vanish.
    setting.api.lists = [audit, relist, relist]
    setting.api.watches = [sends(bookmark(80)), LAST]
    async with running(setting.watches(KNOWN, mark=20, audit_pause=once)):
        await setting.sink.until(lambda: setting.sink.marks("pods")[-1:] != [])
        once.go.set()
        await ended(setting)
    assert setting.rows() == rows
    assert setting.reasons() == [GapReason.AUDIT_DIFFERED]
    assert setting.sink.has(Op.SYNCED)()


async def test_a_stream_that_is_behind_is_waited_for(setting: Setting) -> None:
    once = Once()
    told = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(bookmark(60))
        await told.wait()
        gone = pod("b", 64, deletionTimestamp="2026-01-01T00:00:00Z")
        await answer.write(line("MODIFIED", pod("a", 63)) + line("DELETED", gone))
        await answer.write(line("ADDED", pod("end", 99)))
        await asyncio.Event().wait()
        return answer

    setting.api.lists = [lists(65, pod("a", 63))]
    setting.api.watches = [slow]
    async with running(setting.watches(KNOWN, mark=20, audit_pause=once)):
        await setting.sink.until(lambda: setting.sink.marks("pods")[-1:] != [])
        once.go.set()
        await setting.api.server.wait_for(lambda: setting.api.list_count == 1)
        told.set()
        await ended(setting)
        await asyncio.wait_for(once.is_through.wait(), 20)
    assert setting.rows() == [("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "end")]
    assert setting.reasons() == []
