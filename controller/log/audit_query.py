"""One statement of a person on the schema `audit`: read-only, as the role that may read its views and nothing else.

In: a database URL, one SQL statement. Out: its columns and rows as text or JSON. Raises UserError with the server's own
words. Never: a write; what the session may do is set before the statement is seen.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec

from controller.errors import UserError
from controller.log import connection, migrate
from controller.log.errors import words_of

ROLE = "tfjob_reader"
STATEMENT_SECONDS = 60
"""A question that takes longer is ended: the writer shares the server."""
MOST_ROWS = 100_000

_MAY = """
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS is_there,
    EXISTS (SELECT FROM pg_roles WHERE rolname = $1 AND pg_has_role(current_user, oid, 'MEMBER')) AS may"""


class Answer(msgspec.Struct, frozen=True):
    """The rows of a statement; `is_cut` when there were more than `MOST_ROWS`."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool = False


async def ask(url: str, statement: str) -> Answer:
    """Runs one statement and returns its rows."""
    try:
        problem = (await migrate.check(url)).problem()
    except asyncpg.InsufficientPrivilegeError as error:
        raise UserError(f"this login may not read as {ROLE}: {words_of(error)}", exit_code=1) from error
    if problem:
        raise UserError(problem, exit_code=1)
    try:
        session = await connection.connect(url)
    except Exception as error:
        raise connection.user_error(url, error) or error from error
    try:
        await _as_reader(session)
        async with session.transaction(readonly=True):
            prepared = await session.prepare(statement)
            cursor = await prepared.cursor()
            rows = await cursor.fetch(MOST_ROWS + 1)
            columns = tuple(each.name for each in prepared.get_attributes())
        return Answer(columns, [tuple(row) for row in rows[:MOST_ROWS]], len(rows) > MOST_ROWS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise UserError(_words(error), exit_code=1) from error
    finally:
        await session.close()


async def _as_reader(session: asyncpg.Connection) -> None:
    row = await session.fetchrow(_MAY, ROLE)
    if not row["is_there"]:
        raise UserError(f"the role {ROLE} is missing: an account that may create roles runs `tfjob db upgrade`")
    if not row["may"]:
        raise UserError(f"this login may not read as {ROLE}: GRANT {ROLE} TO it", exit_code=1)
    await session.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'; SET search_path = audit")
    await session.execute(f"SET default_transaction_read_only = on; SET ROLE {ROLE}")


def _words(error: Exception) -> str:
    hint = getattr(error, "hint", None)
    position = getattr(error, "position", None)
    at = f" (at character {position})" if position else ""
    return f"{words_of(error)}{at}" + (f"; {hint}" if hint else "")
