"""Postgres' errors → this project's: whether to try again, to stop, or to tell a person.

Never: lets an exception of the driver out when it says only that the server is away or refuses us.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from controller.errors import Temporary, TfjobError, UserError


class Fenced(TfjobError):
    """Another writer leads now: its epoch is above ours, and nothing of ours is written any more (DESIGN §3)."""


class LogWentBack(TfjobError):
    """The log is no longer the one that this writer wrote: a restore, or a replica that lagged, has taken its place.

    Whoever leads drops its memory and leads again with a new incarnation (DESIGN §3).
    """


# SQLSTATE classes and codes: connection, resources, operator intervention, system, rollback; lock not available,
# read-only (a primary that was demoted), a session ended for idling in a transaction, a login while passwords rotate,
# a database that is not there or lets nobody in while a restore puts another in its place.
_TEMPORARY_CLASSES = ("08", "53", "57", "58", "40", "28")
_TEMPORARY_CODES = ("55P03", "25006", "25P03", "25P04", "3D000", "55000")

UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what a session says that was ended between two of our statements
)
"""What says that the connection is gone, so that what was sent last may or may not have been done."""


def is_temporary(error: BaseException) -> bool:
    """True when the same may work later."""
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        return False  # a value or a setting that the driver cannot send: it will not be able to later either
    if isinstance(error, UNREACHABLE):
        return True
    code = getattr(error, "sqlstate", None) or ""
    return isinstance(error, asyncpg.PostgresError) and (code[:2] in _TEMPORARY_CLASSES or code in _TEMPORARY_CODES)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Inside, the driver's errors become Temporary or UserError; what is left is a bug and stays what it is."""
    try:
        yield
    except (asyncpg.PostgresError, *UNREACHABLE) as error:
        if is_temporary(error):
            raise Temporary(f"Postgres cannot be used while {doing}: {words_of(error)}") from error
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            raise UserError(f"Postgres refuses while {doing}: {words_of(error)}", exit_code=1) from error
        raise


def words_of(error: BaseException) -> str:
    """An error's own words on one line."""
    text = " ".join(str(error).split())
    return text or type(error).__name__
