"""How the controller's own log lines look: for people or as JSON, one line per decision.

In: settings. Out: structlog, configured once. Never: a value of a user's Secret or environment.
"""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(log_format: str, log_level: str) -> None:
    """Sets up structlog for this process; lines go to stderr."""
    last: structlog.typing.Processor
    if log_format == "json":
        last = structlog.processors.JSONRenderer()
    else:
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[log_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
