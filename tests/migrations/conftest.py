"""The servers of these tests; says at the end when a release of Postgres was not here to be tested."""

from __future__ import annotations

import pytest

from tests.migrations.servers import DEBIANS_15, RELEASES, each_server

__all__ = ["each_server"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if "15" not in RELEASES:
        terminalreporter.write_line(
            f"The log was tested on Postgres 18 alone: {DEBIANS_15} has no Postgres 15 (Debian 12: postgresql-15)."
        )
