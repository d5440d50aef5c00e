"""What the log keeps of a fact is enough to read the same fact again, on every release of Postgres, now and later."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.local.postgres import EmbeddedPostgres
from controller.log import Append, EventLog, migrate
from controller.log.escape import read_json, read_text, stored_json, stored_text
from controller.log.facts import fact_of, kind_of, stored_of
from controller.model.actions import Action
from controller.model.events import EVENT_SCHEMA, AnyFact, JobObserved, Op
from tests.log.facts import ACTIONS, FACTS, examples
from tests.migrations.servers import fetch, new_database

GOLDEN = Path(__file__).parent / "golden"


def test_the_examples_leave_no_fact_and_no_action_out() -> None:
    assert {type(fact) for _, fact in FACTS} == set(get_args(AnyFact))
    assert {type(action) for action in ACTIONS} == set(get_args(Action))


async def test_every_fact_reads_back_as_it_was_committed(each_server: EmbeddedPostgres) -> None:
    url = await new_database(each_server)
    await migrate.upgrade(url)
    log = await EventLog.open(url)
    try:
        await log.lead("test", "0")
        new = examples()
        committed = await log.commit(Append(events=new))
        assert [event.fact for event in committed] == [each.fact for each in new]
        assert await log.read(0) == committed
    finally:
        await log.close()
    # In SQL too: what can be said in jsonb is there under its own name.
    [[phase]] = await fetch(
        url, "SELECT body -> 'status' ->> 'phase' FROM events WHERE kind = 'Pod' AND op = 'MODIFIED'"
    )
    assert phase == "Failed"
    [[rv]] = await fetch(url, "SELECT max(resource_version)::text FROM events")
    assert int(str(rv)) > 2**100


def golden_rows() -> list[Any]:
    """The rows of all golden files: what released code has written. Files are added to, never edited."""
    return [
        pytest.param(json.loads(line), id=f"{path.stem}-{number}")
        for path in sorted(GOLDEN.glob("*.jsonl"))
        for number, line in enumerate(path.read_text().splitlines())
    ]


@pytest.mark.parametrize("row", golden_rows())
def test_rows_of_every_schema_number_still_tell_their_fact(row: dict[str, Any]) -> None:
    fact = fact_of(Op(row["op"]), row["kind"], row["schema_number"], row["body"], row["spec"])
    assert type(fact).__name__ == row["fact"]
    assert json.loads(msgspec.json.encode(fact)) == row["is"]


def test_the_golden_files_have_every_fact_of_this_schema() -> None:
    rows = [json.loads(line) for line in (GOLDEN / f"schema-{EVENT_SCHEMA}.jsonl").read_text().splitlines()]
    assert {row["fact"] for row in rows} == {each.__name__ for each in get_args(AnyFact)}
    assert {row["schema_number"] for row in rows} == {EVENT_SCHEMA}


def test_a_row_of_a_newer_schema_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=f"schema number {EVENT_SCHEMA + 1}; this code reads up to {EVENT_SCHEMA}"):
        fact_of(Op.SYNCED, "Cluster", EVENT_SCHEMA + 1, '{"resources": []}', None)


@pytest.mark.parametrize("number", range(len(FACTS)))
def test_a_fact_without_a_body_makes_its_own(number: int) -> None:
    new = examples()[number]
    stored = stored_of(new)
    spec = None if stored.spec is None else stored_json(stored.spec)
    assert stored.kind == kind_of(new.fact)
    assert fact_of(new.op, stored.kind, EVENT_SCHEMA, stored_json(stored.body), spec) == new.fact


AWKWARD_TEXT = st.text(st.sampled_from('\x00\ue000\ud800\udfff\\u0de8"a') | st.characters())


@given(AWKWARD_TEXT)
def test_any_text_is_storable_and_reads_back(text: str) -> None:
    stored = stored_text(text)
    assert "\0" not in stored
    stored.encode()  # no half pairs
    assert read_text(stored) == text


# Pieces of the inside of a JSON string: escapes, half pairs, whole pairs, look-alikes, bytes that are not UTF-8.
ESCAPES = (rb"\u0000", rb"\\u0000", rb"\\\u0000", rb"\ud800", rb"\udc00", rb"\ud83d\ude00", rb"\ue000", rb"\uD83D")
PLAIN = (b"a", b"0000", rb"\n", rb"\"", rb"\\", "é".encode(), rb"\ud83d\ude00")
BYTES = ("\ue000".encode(), "\ue0000000".encode(), b"\xff", b"\xed\xa0\x80")
PIECES = st.sampled_from((*ESCAPES, *PLAIN, *BYTES))


@given(st.lists(PIECES))
def test_any_json_is_storable_and_reads_back(pieces: list[bytes]) -> None:
    body = b'{"a":"' + b"".join(pieces) + b'"}'
    stored = stored_json(body)
    stored.encode()
    assert "\0" not in json.loads(stored)["a"]
    json.loads(stored)["a"].encode()
    again = read_json(stored)
    assert again.lower() == body.replace(rb"\ue000", "\ue000".encode()).lower()


@given(st.lists(st.sampled_from(PLAIN)))
def test_json_with_none_of_it_is_left_alone(pieces: list[bytes]) -> None:
    body = b'{"a":"' + b"".join(pieces) + b'"}'
    assert stored_json(body) == body.decode()


async def test_a_spec_reads_back_in_the_order_in_which_the_watch_wrote_it(log: EventLog) -> None:
    new = examples()[0]
    await log.commit(Append(events=[new]))
    [read] = await log.read(0)
    assert isinstance(read.fact, JobObserved)
    assert msgspec.json.encode(read.fact.job.spec) == stored_of(new).spec


async def test_an_owners_uid_that_no_index_holds_is_nobodys(log: EventLog) -> None:
    # Random, so that it cannot be compressed to fit.
    long = "".join(f"{number:08x}" for number in random.Random(1).choices(range(2**32), k=1000))
    new = msgspec.structs.replace(examples()[2], job_uid=long)
    [event] = await log.commit(Append(events=[new]))
    assert event.job_uid is None
    assert await log.read(0) == [event]
