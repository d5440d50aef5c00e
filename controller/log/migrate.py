"""The schema of a database: which revision it has, and bringing it to the one that this code works with.

In: a database URL. Out: `Revision`. Never: a change to a database of a newer revision. The migrations are in the wheel
(controller/log/migrations); in a source tree they are migrations/ at its root.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from controller.errors import UserError
from controller.log import connection
from controller.log.errors import UNREACHABLE, words_of

REVISIONS = ("0001", "0002")
"""The schema's revisions that this code knows, oldest first; it works with the last."""

_UPGRADE_LOCK = 0x7466_6A6F_6220_6462
"""Key of the advisory lock under which one upgrade at a time looks and works ("tfjob db" as a number)."""


class Revision(msgspec.Struct, frozen=True):
    """A database's schema revision beside this code's; `remarks` is what the server said during an upgrade."""

    database: str | None
    code: str = REVISIONS[-1]
    remarks: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        return self.database == self.code

    @property
    def is_newer(self) -> bool:
        """The database was made by a newer tfjob-controller."""
        return self.database is not None and self.database not in REVISIONS

    def problem(self) -> str | None:
        """What keeps this code from using the database, and what to do about it; None when nothing does."""
        if self.is_current:
            return None
        if self.is_newer:
            return (
                f"the database has schema revision {self.database}, newer than this tfjob-controller "
                f"(which knows up to {self.code}): use a newer tfjob-controller"
            )
        if self.database is None:
            return "the database holds no event log yet: run `tfjob db upgrade`"
        return f"the database has schema revision {self.database}, this code needs {self.code}: run `tfjob db upgrade`"


def script_location() -> Path:
    """The folder of the migrations."""
    in_wheel = Path(__file__).parent / "migrations"
    return in_wheel if in_wheel.is_dir() else Path(__file__).parents[2] / "migrations"


async def upgrade(url: str) -> Revision:
    """Brings the database to this code's revision; a second one at the same time waits, and finds it done.

    Raises UserError when Postgres cannot be used, or the database is newer than this code.
    """
    return await _run(url, lambda config: command.upgrade(config, REVISIONS[-1]))


async def downgrade(url: str, revision: str = "base") -> Revision:
    """Takes the schema back; `base` removes the log with everything in it. For tests and by hand."""
    return await _run(url, lambda config: command.downgrade(config, revision))


async def check(url: str) -> Revision:
    """The database's revision, without changing anything. Raises UserError when Postgres cannot be used."""
    try:
        raw = await connection.connect(url)
        try:
            return Revision(await revision_of(raw))
        finally:
            await raw.close()
    except Exception as error:
        raise connection.user_error(url, error) or error from error


async def revision_of(raw: asyncpg.Connection) -> str | None:
    """The revision that a database says it has; None when there is no log in it."""
    if await raw.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    found: str | None = await raw.fetchval("SELECT version_num FROM alembic_version")
    return found


async def _run(url: str, work: Any) -> Revision:
    engine = connection.engine_of(url, has_limits=False)
    remarks: list[str] = []
    try:
        async with engine.begin() as session:
            raw = (await session.get_raw_connection()).driver_connection
            assert raw is not None
            raw.add_log_listener(lambda _, message: remarks.append(str(message)))
            await raw.execute("SET client_min_messages = notice")
            await session.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
            before = Revision(await revision_of(raw))
            if before.is_newer:
                raise UserError(before.problem() or "")
            await session.run_sync(_with_config, work)
            after = await revision_of(raw)
        return Revision(after, remarks=tuple(remarks))
    except DBAPIError as error:
        raise _schema_error(url, error) or error from error
    except (asyncpg.PostgresError, ValueError, *UNREACHABLE) as error:
        raise connection.user_error(url, error) or error from error
    finally:
        await engine.dispose()


def _schema_error(url: str, error: DBAPIError) -> UserError | None:
    """What a person has to put right when a migration was refused; nothing of it was done."""
    cause = error.orig.__cause__ if error.orig is not None else None
    match cause:
        case asyncpg.InsufficientPrivilegeError():
            return UserError(f"this account may not change the schema: {words_of(cause)}", exit_code=1)
        case asyncpg.DuplicateTableError() | asyncpg.DuplicateObjectError() | asyncpg.DuplicateFunctionError():
            return UserError(
                f"{words_of(cause)}, and it is not the log's: give the log a database of its own", exit_code=1
            )
        case None:
            return None
        case _:
            return connection.user_error(url, cause)


def _with_config(session: Connection, work: Any) -> None:
    config = Config()
    # '%' is the format character of alembic's config files.
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.attributes["connection"] = session
    work(config)


def newest_script() -> str | None:
    """The newest revision in migrations/; `REVISIONS` must end with it (a test compares)."""
    config = Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    return ScriptDirectory.from_config(config).get_current_head()
