"""Connections to Postgres: how they are opened, with which limits, and the errors of opening in words.

In: a URL as libpq or SQLAlchemy writes it. Out: asyncpg connections, an SQLAlchemy engine over them.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from controller.errors import UserError
from controller.log.errors import words_of

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
POOL_CONNECTIONS = 4
COMMAND_SECONDS = 60.0
"""A query that has no answer then is given up: the server, or the way to it, is gone."""

# A dead peer is noticed after about 10 s on either side, and a writer that hangs in a transaction loses the lock.
_LIMITS = {
    "application_name": "tfjob-controller",
    "idle_in_transaction_session_timeout": "5000",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "jit": "off",
}
_WRITER_LIMITS = {"application_name": "tfjob-controller writer", "lock_timeout": "10000", "statement_timeout": "30000"}


def dsn_of(url: str) -> str:
    """The URL as asyncpg reads it, `postgresql+asyncpg://` included. Raises UserError when it names no Postgres."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres", "postgresql+asyncpg") or not rest:
        raise UserError("the database URL must begin with postgresql://")
    return f"postgresql://{rest}"


def place_of(url: str) -> str:
    """Where a URL points, without its password, for messages."""
    parts = urlsplit(dsn_of(url))
    socket_folders = (each[5:] for each in parts.query.split("&") if each.startswith("host="))
    # Not `parts.port`: a URL that a person got wrong has to be named as well.
    host = parts.netloc.rpartition("@")[2] or next(socket_folders, "localhost")
    return f"{host}{parts.path}"


async def connect(url: str, *, is_writer: bool = False, has_limits: bool = True) -> asyncpg.Connection:
    """A new connection; without `has_limits` (migrations) it may wait as long as it takes. Raises what asyncpg does."""
    limits = _LIMITS | (_WRITER_LIMITS if is_writer else {}) if has_limits else {}
    return await asyncpg.connect(
        dsn_of(url),
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS if has_limits else None,
        server_settings=limits,
    )


async def pool_of(url: str) -> asyncpg.Pool:
    """A pool for readers; it connects when first asked. Raises what asyncpg does."""
    pool = asyncpg.create_pool(
        dsn_of(url),
        min_size=0,
        max_size=POOL_CONNECTIONS,
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS,
        server_settings=_LIMITS,
    )
    return await pool


async def close_pool(pool: asyncpg.Pool) -> None:
    """Ends its sessions, gently if that works at once."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await pool.close()
    except TimeoutError:
        pool.terminate()


def engine_of(url: str, *, has_limits: bool = True, **options: Any) -> AsyncEngine:
    """An engine whose connections `connect` opens, so that URLs mean what they mean to libpq (sslmode, passfile, …)."""

    async def creator() -> asyncpg.Connection:
        return await connect(url, has_limits=has_limits)

    return create_async_engine("postgresql+asyncpg://", async_creator=creator, **options)


def user_error(url: str, error: BaseException) -> UserError | None:
    """What a person has to put right when a database cannot be opened; None when the error says nothing of the kind."""
    place = place_of(url)
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return UserError(f"Postgres at {place} refuses the login: {words_of(error)}")
        case asyncpg.InvalidCatalogNameError():
            return UserError(f"Postgres at {place} has no such database: {words_of(error)}")
        case asyncpg.CannotConnectNowError() | asyncpg.TooManyConnectionsError():
            return UserError(f"Postgres at {place} takes no connection now: {words_of(error)}")
        case TimeoutError():
            return UserError(f"Postgres at {place} does not answer within {CONNECT_SECONDS:.0f} s")
        case OSError() | asyncpg.PostgresConnectionError():
            return UserError(f"Postgres at {place} cannot be reached: {words_of(error)}")
        case asyncpg.InterfaceError() | ValueError():
            return UserError(f"the database URL cannot be used: {words_of(error)}")
        case _:
            return None
