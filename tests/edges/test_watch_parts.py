"""The small parts of the watch as tables: lines, backoff, heads, gaps."""

from __future__ import annotations

import asyncio

import pytest

from controller.kube.backoff import LONGEST_SECONDS, delay_seconds
from controller.kube.errors import Gone, ServerFault
from controller.model.events import GapOpened, GapReason, Op, Synced
from controller.watch.gaps import Gaps
from controller.watch.heads import Head, Heads
from controller.watch.lines import BadLine, Lines, bookmark_of, line_of, object_of, page_of
from controller.watch.normalise import Owner
from controller.watch.notices import may_concern_us
from controller.watch.observation import Observation, StreamFact
from controller.watch.outlet import Stamp
from controller.watch.resources import PODS
from tests.edges.watch_world import ListSink, ticking
from tests.edges.watch_world import normaliser as make_normaliser


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n"], [[b"a", b"b"]]),
        ([b"a", b"b\nc", b"\n"], [[], [b"ab"], [b"c"]]),
        ([b"\n\n \r\na\n"], [[b"a"]]),
        ([b"a\n", b"", b"b"], [[b"a"], [], []]),
        ([b"a" * 5, b"b" * 4 + b"\nc\n"], [[], [b"a" * 5 + b"b" * 4, b"c"]]),
    ],
)
def test_chunks_become_lines(chunks: list[bytes], expected: list[list[bytes]]) -> None:
    lines = Lines(limit_bytes=10)
    assert [lines.feed(chunk) for chunk in chunks] == expected


def test_a_line_without_end_is_given_up() -> None:
    lines = Lines(limit_bytes=10)
    assert lines.feed(b"x" * 10) == []
    with pytest.raises(BadLine):
        lines.feed(b"x")


@pytest.mark.parametrize(
    "text",
    [
        b"<html><body>502 Bad Gateway</body></html>",
        b'"<html>"',
        b"{}",
        b"null",
        b"[]",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":3}',
        b'{"type":"CHANGED","object":{}}',
        b'{"type":"ADDED","object":{"metadata":{}}',
        b"\xff\xfe",
        b'{"type":"ADDED","object":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    ],
)
def test_garbage_is_no_line(text: bytes) -> None:
    with pytest.raises(BadLine):
        line_of(text)


def test_an_error_line_raises_what_it_means() -> None:
    with pytest.raises(Gone, match="too old"):
        line_of(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}')
    with pytest.raises(ServerFault, match="etcd"):
        line_of(b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd event with no previous"}}')


def test_lines_and_bookmarks() -> None:
    line = line_of(b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"12"}}}')
    assert (line.op, bookmark_of(line)) == (None, 12)
    with pytest.raises(BadLine):
        bookmark_of(line_of(b'{"type":"BOOKMARK","object":{"kind":"Pod"}}'))
    assert line_of(b'{"type":"DELETED","object":{"metadata":{}}}').op is Op.DELETED


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"metadata":{"resourceVersion":""},"items":[]}', b"[]"])
def test_garbage_is_no_list(body: bytes) -> None:
    with pytest.raises(BadLine):
        page_of(body)


def test_a_list_may_have_no_items() -> None:
    assert page_of(b'{"metadata":{"resourceVersion":"3","continue":"c"},"items":null}').metadata.go_on == "c"


@pytest.mark.parametrize(
    ("failures", "luck", "retry_after", "expected"),
    [
        (0, 0.0, 0.0, 0.0),
        (0, 0.9, 0.0, 0.0),
        (1, 0.0, 0.0, 0.25),
        (1, 0.5, 0.0, 0.375),
        (2, 0.0, 0.0, 0.5),
        (3, 0.0, 0.0, 1.0),
        (6, 0.0, 0.0, 8.0),
        (7, 0.0, 0.0, 15.0),
        (7, 0.5, 0.0, 22.5),
        (1000, 0.0, 0.0, 15.0),
        (-1, 0.5, 0.0, 0.0),
        (1, 0.0, 10.0, 10.0),
        (0, 0.0, 10.0, 10.0),
        (1, 1.0, 10.0, 12.5),
        (7, 0.0, 1.0, 15.0),
    ],
)
def test_the_wait_before_the_next_try(failures: int, luck: float, retry_after: float, expected: float) -> None:
    assert delay_seconds(failures, luck, retry_after) == expected
    assert delay_seconds(failures, luck) <= LONGEST_SECONDS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"type":"ADDED","object":{"involvedObject":{"kind":"Pod"}}}', True),
        (b'{"type":"ADDED","object":{"involvedObject":{"kind": "TFJob"}}}', True),
        (b'{"type":"ADDED","object":{"involvedObject":{"kind":"Node"}}}', False),
        (b'{"type":"ADDED","object":{"involvedObject":{"kind":"PodDisruptionBudget"}}}', False),
        (b'{"type":"BOOKMARK","object":{"metadata":{}}}', True),
        (b'{"type":"ERROR","object":{"code":410}}', True),
    ],
)
def test_foreign_notices_are_not_even_decoded(line: bytes, expected: bool) -> None:
    assert may_concern_us(line) is expected


def test_time_never_runs_back() -> None:
    times = iter([5, 9, 3, 9, 12])
    stamp = Stamp(lambda: next(times))
    assert [stamp.now() for _ in range(5)] == [5, 9, 9, 9, 12]


def seen(uid: str, version: int, op: Op = Op.MODIFIED) -> Observation:
    raw = f'{{"metadata":{{"name":"n","namespace":"ns","uid":"{uid}","resourceVersion":"{version}"}}}}'
    return make_normaliser().observation(PODS, op, object_of(raw.encode()), 1)


@pytest.mark.parametrize(
    ("uid", "version", "op", "after_restore", "expected"),
    [
        ("known", 6, Op.MODIFIED, False, True),
        ("known", 5, Op.MODIFIED, False, False),
        ("known", 4, Op.MODIFIED, False, False),
        ("known", 4, Op.SYNC_MODIFIED, True, True),
        ("known", 5, Op.SYNC_MODIFIED, True, False),
        ("known", 5, Op.DELETED, False, True),
        ("new", 1, Op.ADDED, False, True),
        ("never-seen", 9, Op.DELETED, False, True),
        ("gone", 7, Op.SYNC_ADDED, False, False),
        ("gone", 9, Op.DELETED, False, False),
    ],
)
def test_what_is_news(uid: str, version: int, op: Op, after_restore: bool, expected: bool) -> None:
    heads = Heads({"known": Head("ns", "n", "known", 5, "job", "j")}, marked=4)
    heads.take(seen("gone", 7))
    heads.take(seen("gone", 8, Op.DELETED))
    assert heads.is_news(seen(uid, version, op), after_restore=after_restore) is expected


def test_heads_know_what_was_put_and_whose_it_was() -> None:
    heads = Heads({"known": Head("ns", "n", "known", 5, "job", "j")}, marked=20)
    assert (heads.highest, heads.owner("known"), heads.owner("other")) == (20, Owner("job", "j"), None)
    heads.take(seen("new", 30))
    assert (heads.highest, {head.uid for head in heads.missing({"known"})}) == (30, {"new"})
    heads.take(seen("known", 31, Op.DELETED))
    assert ("known" in heads, heads.owner("known")) == (False, Owner(None, None))


async def test_a_gap_ends_when_the_last_list_is_through() -> None:
    sink = ListSink()
    gaps = Gaps(sink.put, ticking())
    await gaps.open(["pods", "tfjobs"], GapReason.FIRST_SYNC, None)
    await gaps.close("tfjobs")
    await gaps.close("services")
    assert [item.op for item in sink.items] == [Op.GAP]  # type: ignore[union-attr]
    await gaps.open(["services"], GapReason.EXPIRED, 7)
    await gaps.close("pods")
    assert gaps.is_open, "services are still to come"
    await gaps.close("services")
    facts = [item.fact for item in sink.items if isinstance(item, StreamFact)]
    assert facts == [
        GapOpened(("pods", "tfjobs"), GapReason.FIRST_SYNC, None, 1_000_000),
        GapOpened(("services",), GapReason.EXPIRED, 7, 1_000_001),
        Synced(("pods", "services", "tfjobs")),
    ]


async def test_a_gap_that_begins_again_is_not_through() -> None:
    sink = ListSink()
    gaps = Gaps(sink.put, ticking())
    await gaps.open(["pods", "tfjobs"], GapReason.FIRST_SYNC, None)
    await gaps.close("pods")
    await gaps.open(["pods"], GapReason.EXPIRED, None)
    await gaps.close("tfjobs")
    assert gaps.is_open
    await gaps.close("pods")
    assert sink.rows()[-1] == ("SYNCED", "pods,tfjobs")


async def test_the_next_gap_does_not_overtake_the_end_of_the_last() -> None:
    sink = ListSink()
    gaps = Gaps(sink.put, ticking())
    await gaps.open(["pods"], GapReason.FIRST_SYNC, None)
    sink.gate.clear()
    closing = asyncio.create_task(gaps.close("pods"))
    await asyncio.sleep(0)
    opening = asyncio.create_task(gaps.open(["services"], GapReason.EXPIRED, None))
    await asyncio.sleep(0)
    sink.gate.set()
    await asyncio.gather(closing, opening)
    assert [row[0] for row in sink.rows()] == ["GAP", "SYNCED", "GAP"]
