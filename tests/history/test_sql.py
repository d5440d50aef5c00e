"""docs/SQL.md: each of its questions is asked on a filled database, as its reader would; and `tfjob sql` itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import asyncpg
import pytest

from controller.errors import UserError
from controller.log.audit_query import ask
from tests.history.test_why_log import tfjob

ROOT = Path(__file__).resolve().parents[2]
QUESTION = re.compile(r"^### (\d+)\. (.+?)\n```sql\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
QUESTIONS = QUESTION.findall((ROOT / "docs" / "SQL.md").read_text())


def test_there_are_twenty_and_every_view_is_asked() -> None:
    assert [int(number) for number, _, _ in QUESTIONS] == list(range(1, 21))
    text = "\n".join(query for _, _, query in QUESTIONS)
    views = [
        "jobs",
        "conditions",
        "attempts",
        "failures",
        "timeline",
        "retries",
        "gaps",
        "job_gaps",
        "latency",
        "flapping",
    ]
    assert [view for view in views if f"audit.{view}" not in text] == []


@pytest.mark.parametrize(("number", "title", "query"), QUESTIONS, ids=[title for _, title, _ in QUESTIONS])
async def test_a_question_has_an_answer(number: str, title: str, query: str, filled_url: str) -> None:
    answer = await ask(filled_url, query.rstrip(";"))
    assert answer.rows, title
    if number == "1":
        row = dict(zip(answer.columns, answer.rows[0], strict=True))
        assert (row["slot"], row["attempt"], row["exit_code"], row["last_words"]) == ("chief-0", 1, 1, "lost worker 2")
        assert row["first_slot"] == "worker-2"
        assert row["chain"][0] == "worker-1 attempt 1: code 137 OOMKilled"


async def test_the_command_prints_a_table_or_json_lines(filled_url: str) -> None:
    query = "SELECT name, slot, exit_code, chain FROM audit.failures WHERE namespace = 'team-0';"
    code, out, err = await tfjob("sql", query, "--database-url", filled_url)
    assert (code, err) == (0, "")
    assert re.search(r"^NAME +SLOT +EXIT_CODE +CHAIN", out) and re.search(r"job-a +chief-0 +1 ", out)
    code, out, err = await tfjob("sql", "--json", query, "--database-url", filled_url)
    [row] = [json.loads(line) for line in out.splitlines()]
    assert (code, row["slot"], row["exit_code"], row["chain"][-1]) == (0, "chief-0", 1, "Failed: TFJobFailed")


async def test_a_login_of_somebodys_own_reads_the_views(filled_url: str, filled: asyncpg.Connection) -> None:
    """As docs/SQL.md says; its database belongs to others, and so does the schema's revision that is looked at."""
    await filled.execute("CREATE ROLE ann LOGIN IN ROLE tfjob_reader")
    try:
        as_ann = filled_url.replace("//tfjob@", "//ann@")
        assert (await ask(as_ann, "SELECT current_user::text, count(*) > 0 FROM audit.jobs")).rows == [
            ("tfjob_reader", True)
        ]
        with pytest.raises(UserError, match="permission denied for table events"):
            await ask(as_ann, "SELECT * FROM public.events")
        await filled.execute("REVOKE tfjob_reader FROM ann")
        with pytest.raises(UserError, match=r"permission denied|may not read as tfjob_reader"):
            await ask(as_ann, "SELECT 1")
    finally:
        await filled.execute("DROP ROLE ann")


REFUSED = [
    ("SELECT * FROM public.events", "permission denied"),
    ("DELETE FROM audit.jobs", "permission denied|cannot delete|read-only"),
    ("CREATE TEMP TABLE mine (a int)", "read-only|permission denied"),
    ("RESET ROLE; SELECT * FROM public.events", "cannot insert multiple commands"),
    ("SELECT nothing FROM audit.jobs", 'column "nothing" does not exist'),
    ("SELEC 1", "syntax error"),
]


@pytest.mark.parametrize(("statement", "words"), REFUSED)
async def test_what_is_refused_is_said_in_the_servers_words(statement: str, words: str, filled_url: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        await ask(filled_url, statement)
    assert refused.value.exit_code == 1
