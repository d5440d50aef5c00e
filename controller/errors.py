"""Errors that cross a package's border: whose fault it is, and whether trying again can help.

Never: a client library's exception (those stop at the edge that called it) or an expected ending (those are values).
"""

from __future__ import annotations

__all__ = ["Permanent", "Temporary", "TfjobError", "UserError"]


class TfjobError(Exception):
    """Every error that this project raises on purpose. Anything else is a bug and parks the one job that met it."""


class Temporary(TfjobError):
    """It may work next time: retried, not before `retry_after_seconds` (what the server asked for, else 0)."""

    def __init__(self, message: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Permanent(TfjobError):
    """It will not work next time: becomes a condition. `reason` is its word in CamelCase, as Kubernetes writes them."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class UserError(TfjobError):
    """What only a person can put right. The message is one clear line for the terminal; `exit_code` ends the command.

    Exit code 2 means that nothing was started; a command that had begun its work passes another one.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
