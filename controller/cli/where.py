"""Where the log is that a reading command reads: a URL that was given, or the database of `tfjob local` here.

In: flags. Out: a URL while the `async with` lasts. Never: a database that nobody made.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from controller.errors import UserError

if TYPE_CHECKING:
    from controller.log import EventLog

DATABASE_HELP = "Postgres URL; also $TFJOB_DATABASE_URL. Unset: what `tfjob local` kept on this machine."
CLUSTER_HELP = "The cluster's name in the database; also $TFJOB_CLUSTER. Unset: default."
STATE_HELP = "The folder that `tfjob local` keeps its database in."


def cluster_named(cluster: str | None) -> str:
    """The name under which a controller wrote its log (its setting `cluster`)."""
    return cluster or os.environ.get("TFJOB_CLUSTER") or "default"


@asynccontextmanager
async def database(database_url: str | None, state_dir: Path | None) -> AsyncIterator[str]:
    """The URL to read from; starts the local database for as long as it is needed, unless it runs already."""
    url = database_url or os.environ.get("TFJOB_DATABASE_URL")
    if url:
        yield url
        return
    from controller.local.cluster import running_database_url
    from controller.local.postgres import EmbeddedPostgres, default_state_dir

    folder = state_dir or default_state_dir()
    running = running_database_url(folder)
    if running:
        yield running
        return
    if not folder.is_dir():
        raise UserError(
            f"no log to read: give --database-url, or run `tfjob local` first (it keeps its log in {folder})"
        )
    async with EmbeddedPostgres(folder) as postgres:
        yield postgres.url


@asynccontextmanager
async def opened_log(database_url: str | None, cluster: str | None, state_dir: Path | None) -> AsyncIterator[EventLog]:
    """The log to read from, open while the `async with` lasts."""
    from controller.log import EventLog

    async with database(database_url, state_dir) as url:
        log = await EventLog.open(url, cluster=cluster_named(cluster))
        try:
            yield log
        finally:
            await log.close()
