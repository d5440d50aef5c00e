"""Fixtures of the history's tests: a log that the test leads."""

from tests.log.conftest import log

__all__ = ["log"]
