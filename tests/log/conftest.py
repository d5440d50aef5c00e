"""Fixtures of the log's tests: a log that the test leads."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from controller.log import EventLog
from tests.migrations.servers import each_server

__all__ = ["each_server", "log"]


@pytest_asyncio.fixture(loop_scope="session")
async def log(database_url: str) -> AsyncIterator[EventLog]:
    """A log that this test leads."""
    opened = await EventLog.open(database_url)
    await opened.lead("test", "0")
    yield opened
    await opened.close()
