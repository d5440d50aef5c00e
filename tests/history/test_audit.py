"""The schema `audit` on a filled database: its contract, its plans, what its role may do, the words that it shares."""

from __future__ import annotations

import json

import asyncpg
import pytest

from controller.fold.exit_codes import meaning_of
from controller.history.ends import ender_of
from controller.log import one_job, reader
from tests.history.conftest import SCENARIOS
from tests.history.filled import given, play
from tests.history.test_why import ENDERS

CONTRACT = {
    "jobs": "cluster namespace name job_uid state verdict reason message first_seen_at running_at finished_at"
    " last_event_at retries by_gap is_gone parked",
    "conditions": "cluster namespace name job_uid position ordinal at type status reason message by_gap cause_op"
    " cause_kind cause_object",
    "attempts": "cluster namespace name job_uid slot type index attempt pod_name pod_uid node started_at finished_at"
    " ran_seconds outcome exit_code exit_meaning signal reason last_words ended_by ended_because position",
    "failures": "cluster namespace name job_uid failed_at reason message slot attempt pod_name node exit_code"
    " exit_meaning attempt_reason ended_by last_words first_slot first_attempt first_at first_exit_code first_reason"
    " by_gap chain warnings position",
    "timeline": "cluster namespace name job_uid position at op kind object what changed body",
    "retries": "cluster namespace name job_uid slot attempt ended_at outcome is_counted exit_code exit_meaning reason"
    " ended_by next_started_at next_outcome waited_seconds",
    "gaps": "cluster position reason resources from_at to_at closed_at closed_position changed_count",
    "job_gaps": "cluster namespace name job_uid position reason from_at to_at closed_at changed_count",
    "latency": "cluster namespace name job_uid position type status observed_at recorded_at written_at log_ms"
    " status_ms",
    "flapping": "cluster namespace name job_uid type changed_count became_true_count first_at last_at is_flapping",
}
OF_JOBS = [view for view in CONTRACT if view != "gaps"]


async def a_job(filled: asyncpg.Connection, phase: str = "Failed") -> asyncpg.Record:
    """A job in the middle of the log that ended so."""
    return await filled.fetchrow(
        "SELECT job_uid, namespace, name FROM job_states AS j WHERE phase = $1 AND job_uid LIKE '%-7'"
        " AND EXISTS (SELECT FROM attempts AS a WHERE a.job_uid = j.job_uid) ORDER BY position LIMIT 1", phase
    )  # fmt: skip


async def test_views_and_columns_are_the_contract_and_all_are_explained(filled: asyncpg.Connection) -> None:
    found: dict[str, list[str]] = {}
    for row in await filled.fetch(
        "SELECT c.relname::text AS view, a.attname::text AS column, col_description(c.oid, a.attnum) AS words,"
        " obj_description(c.oid) AS about FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
        " WHERE c.relnamespace = 'audit'::regnamespace AND c.relkind = 'v' ORDER BY a.attnum"
    ):
        assert row["words"] and row["about"], (row["view"], row["column"])
        found.setdefault(row["view"], []).append(row["column"])
    assert found == {view: columns.split() for view, columns in CONTRACT.items()}


def tables_read_whole(plan: dict[str, object]) -> list[str]:
    """The tables that a plan reads from end to end, log_head (one row a cluster) apart."""
    found = [str(plan["Relation Name"])] if plan["Node Type"] == "Seq Scan" else []
    for inner in plan.get("Plans", ()):  # type: ignore[attr-defined]
        found += tables_read_whole(inner)
    return [name for name in found if name != "log_head"]


async def plan_of(filled: asyncpg.Connection, query: str, *arguments: object) -> dict[str, object]:
    rows = await filled.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *arguments)
    return json.loads(rows)[0]["Plan"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("view", OF_JOBS)
async def test_each_view_by_job_goes_by_indexes(view: str, filled: asyncpg.Connection) -> None:
    job = await a_job(filled)
    by_uid = await plan_of(filled, f"SELECT * FROM audit.{view} WHERE job_uid = '{job['job_uid']}'")
    assert tables_read_whole(by_uid) == [], json.dumps(by_uid, indent=1)
    where = f"namespace = '{job['namespace']}' AND name = '{job['name']}'"
    by_name = await plan_of(filled, f"SELECT * FROM audit.{view} WHERE {where}")
    assert tables_read_whole(by_name) == [], json.dumps(by_name, indent=1)
    assert await filled.fetch(f"SELECT * FROM audit.{view} WHERE {where}") or view in ("retries", "job_gaps")


OF_ONE_JOB = {
    "state": one_job._STATE,
    "failures": one_job._FAILURES,
    "asked": one_job._ASKED,
    "later": one_job._LATER,
    "gaps": one_job._GAPS,
    "transitions": reader._TRANSITIONS,
    "events": reader._READ_JOB,
    "settings": reader._LASTING,
    "by name": reader._NAMED_JOBS,
}


@pytest.mark.parametrize("statement", OF_ONE_JOB.values(), ids=list(OF_ONE_JOB))
async def test_what_an_answer_reads_goes_by_indexes(statement: str, filled: asyncpg.Connection) -> None:
    job = await a_job(filled)
    second = "100000" if statement is reader._LASTING else f"'{job['job_uid']}'"
    if statement is reader._NAMED_JOBS:
        second = "NULL"
    third = f"'{job['name']}-x'" if statement is reader._NAMED_JOBS else "9223372036854775807"
    for number, value in ((1, "1::smallint"), (2, second), (3, third)):
        statement = statement.replace(f"${number}", value)
    assert tables_read_whole(await plan_of(filled, statement)) == []


async def test_a_view_without_an_index_is_noticed(filled: asyncpg.Connection) -> None:
    """The test above can fail: what has no index is read whole."""
    assert tables_read_whole(await plan_of(filled, "SELECT * FROM events WHERE name = 'x'")) == ["events"]


async def test_gaps_go_by_the_index_of_cluster_facts(filled: asyncpg.Connection) -> None:
    plan = await plan_of(filled, "SELECT cluster, reason, closed_at FROM audit.gaps")
    assert tables_read_whole(plan) == []
    rows = await filled.fetch("SELECT * FROM audit.gaps WHERE changed_count > 0")
    assert rows and all(row["closed_position"] > row["position"] for row in rows)


async def test_failures_say_what_the_answer_says(filled: asyncpg.Connection) -> None:
    """Slot, attempt, code and the first end, for every failed scenario in the database, as `why` has them."""
    compared = 0
    for number, file in enumerate(given(SCENARIOS), 1):
        player = play(file)
        answer = player.why()
        if answer is None or answer.state != "Failed" or not answer.chain:
            continue
        row = await filled.fetchrow(
            "SELECT * FROM audit.failures WHERE namespace = $1 ORDER BY position DESC LIMIT 1", f"team-{number}"
        )
        cause, first = answer.cause, answer.first or answer.cause
        assert row["reason"] == answer.reason
        assert row["slot"] == (cause and cause.slot), file.stem
        if cause is None:
            continue
        compared += 1
        assert (row["attempt"], row["pod_name"], row["exit_code"]) == (cause.attempt, cause.pod, cause.code), file.stem
        assert row["exit_meaning"] == (None if cause.code is None else cause.meaning)
        if row["first_slot"] is not None:
            assert first is not None and (row["first_slot"], row["first_attempt"]) == (first.slot, first.attempt)
    assert compared >= 5


async def test_stopped_attempts_say_who_stopped_them(filled: asyncpg.Connection) -> None:
    rows = await filled.fetch(
        "SELECT DISTINCT ended_by, ended_because FROM audit.attempts WHERE outcome = 'stopped'"
        " AND namespace NOT LIKE 'team-%-%'"
    )
    assert {row["ended_by"] for row in rows} == {"controller"}
    assert "JobEnded" in {row["ended_because"] for row in rows}


async def test_codes_and_enders_have_the_words_of_the_code(filled: asyncpg.Connection) -> None:
    rows = await filled.fetch("SELECT code, audit.meaning_of(code) AS words FROM generate_series(0, 300) AS code")
    assert {row["code"]: row["words"] for row in rows} == {code: meaning_of(code) for code in range(301)}
    for how, code, reason, _because, ender in ENDERS:
        assert await filled.fetchval("SELECT audit.ender_of($1, $2, $3)", how, code, reason) == ender.value
        assert ender_of(how, code, reason, None)[0] is ender


REFUSED = [
    "SELECT * FROM public.events",
    "SELECT * FROM public.job_states",
    "DELETE FROM audit.jobs",
    "UPDATE audit.flapping SET type = 'x'",
    "CREATE TABLE mine (a int)",
    "INSERT INTO public.transitions SELECT * FROM public.transitions",
]


@pytest.mark.parametrize("statement", REFUSED)
async def test_the_reading_role_reads_views_and_nothing_else(statement: str, filled: asyncpg.Connection) -> None:
    async with filled.transaction():
        await filled.execute("SET LOCAL ROLE tfjob_reader")
        assert await filled.fetchval("SELECT count(*) FROM audit.jobs") > SCENARIOS
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ObjectNotInPrerequisiteStateError)):
            async with filled.transaction():
                await filled.execute(statement)
