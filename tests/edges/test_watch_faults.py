"""The watch against what no healthy API server does. Requests and rows are counted, never seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller.kube.backoff import delay_seconds
from controller.model.events import GapReason
from tests.edges.scripted_api import (
    END,
    LAST,
    Script,
    Setting,
    bookmark,
    ended,
    html,
    line,
    pod,
    refuses,
    scripted,
    sends,
)
from tests.edges.watch_world import eventually, running


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with scripted(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(html, id="502 with a page"),
        pytest.param(sends(b"<html>\n<body>\n", ends="end"), id="200 with a page"),
        pytest.param(sends(b"\x00\xff\n", ends="stay"), id="bytes"),
        pytest.param(sends(b'{"type":"ADDED","object":{"kind":"Pod"}}\n'), id="no object"),
        pytest.param(sends(line("ADDED", pod("x", 1, uid=" ") | {"metadata": {"name": "x"}})), id="no uid"),
        pytest.param(sends(line("ERROR", {"kind": "Status", "code": 500, "message": "etcd"})), id="an error event"),
        pytest.param(sends(ends="cut"), id="cut"),
        pytest.param(sends(line("ADDED", pod("half", 11))[:40], ends="cut"), id="cut in a line"),
        pytest.param(sends(ends="end"), id="ended at once"),
        pytest.param(refuses(500, "InternalError"), id="500"),
        pytest.param(refuses(403, "Forbidden"), id="403"),
        pytest.param(refuses(404, "NotFound"), id="404"),
        pytest.param(refuses(401, "Unauthorized"), id="401"),
        pytest.param(refuses(429, "TooManyRequests"), id="429"),
    ],
)
async def test_a_fault_is_no_event_and_no_hot_loop(setting: Setting, fault: Script) -> None:
    setting.api.watches = [fault, fault, fault, LAST]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.rows() == [("ADDED", "end")]
    assert setting.api.watched() == ["10"] * len(setting.api.watched())
    assert setting.pauses.seconds == [delay_seconds(failures, 0.5) for failures in (1, 2, 3)]
    assert (setting.api.list_count, setting.reasons()) == (1, [GapReason.FIRST_SYNC])


async def test_retry_after_is_waited(setting: Setting) -> None:
    setting.api.watches = [refuses(429, "TooManyRequests", retryAfterSeconds=20), LAST]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.pauses.seconds == [22.5]


async def test_a_silent_connection_is_given_up_and_resumed(setting: Setting) -> None:
    setting.api.watches = [sends(line("ADDED", pod("a", 12))), LAST]
    async with running(setting.watches(idle_seconds=0.3)):
        await ended(setting)
    assert setting.api.watched()[:2] == ["10", "12"]
    assert setting.rows() == [("ADDED", "a"), ("ADDED", "end")]


async def test_an_endless_line_is_given_up(setting: Setting) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * (1 << 20))

    setting.api.watches = [endless, LAST]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.rows() == [("ADDED", "end")]


async def test_a_large_line_in_pieces_is_one_event(setting: Setting) -> None:
    text = line("ADDED", pod("big", 11, annotations={"note": "n" * 1_500_000}))
    pieces = [text[start : start + 70_001] for start in range(0, len(text), 70_001)]
    setting.api.watches = [sends(*pieces, line("ADDED", END))]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.rows() == [("ADDED", "big"), ("ADDED", "end")]


async def test_it_resumes_after_the_last_bookmark(setting: Setting) -> None:
    setting.api.watches = [sends(line("ADDED", pod("a", 12)), bookmark(50), ends="cut"), LAST]
    async with running(setting.watches()):
        await ended(setting)
        await setting.sink.until(lambda: setting.sink.marks("pods")[-1].resource_version == 99)
    assert setting.api.watched() == ["10", "50"]
    marks = [mark.resource_version for mark in setting.sink.marks("pods")]
    assert marks == sorted(set(marks))
    assert {10, 50, 99} <= set(marks)


async def test_a_long_lived_stream_that_ends_is_no_failure(setting: Setting) -> None:
    async def lives(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(bookmark(20 + setting.api.watch_count))
        await setting.sink.until(
            lambda: bool(setting.sink.marks("pods")) and setting.sink.marks("pods")[-1].resource_version > 20
        )
        setting.now += 300.0
        return answer

    setting.api.watches = [lives, LAST]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.pauses.seconds == [0.0]


async def test_failures_are_forgotten_after_a_healthy_stretch(setting: Setting) -> None:
    async def healthy(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(bookmark(30))
        await setting.sink.until(lambda: setting.sink.marks("pods")[-1].resource_version == 30)
        setting.now += 300.0
        return answer

    setting.api.watches = [sends(ends="end"), sends(ends="end"), healthy, sends(ends="end"), LAST]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.pauses.seconds == [delay_seconds(failures, 0.5) for failures in (1, 2, 0, 1)]


async def test_a_repeat_of_what_is_known_is_no_row(setting: Setting) -> None:
    again = line("ADDED", pod("a", 12)) + line("MODIFIED", pod("a", 13))
    setting.api.watches = [sends(again, again, line("ADDED", pod("a", 12)), line("ADDED", END))]
    async with running(setting.watches()):
        await ended(setting)
    assert setting.rows() == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "end")]


async def test_problems_are_told_and_pass(setting: Setting) -> None:
    setting.api.watches = [refuses(403, "Forbidden", name="x"), refuses(403, "Forbidden"), LAST]
    told: list[dict[str, str]] = []
    watches = setting.watches()

    async def pause(seconds: float) -> None:
        told.append(watches.problems())
        assert not watches.is_connected()
        await asyncio.sleep(0)

    setting.pauses = pause  # type: ignore[assignment]
    watches = setting.watches()
    async with running(watches):
        await ended(setting)
        await eventually(watches.is_connected)
        assert watches.problems() == {}
    assert told == [{"pods": "Forbidden"}] * 2


async def test_a_watch_asks_to_end_and_for_bookmarks(setting: Setting) -> None:
    setting.api.watches = [LAST]
    async with running(setting.watches()):
        await ended(setting)
    query = next(r.query for r in setting.api.server.seen if r.query.get("watch") and r.path.endswith("/pods"))
    assert dict(query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
        "timeoutSeconds": "300",
        "labelSelector": "training.kubeflow.org/job-name",
    }


async def test_who_may_not_read_events_is_not_held_up_by_it(setting: Setting) -> None:
    setting.api.notices = refuses(403, "Forbidden")
    setting.api.watches = [LAST]
    watches = setting.watches()
    async with running(watches):
        await ended(setting)
        await eventually(watches.is_connected)
        await eventually(lambda: watches.problems() == {"events": "Forbidden"})
