"""What tests need to see processes end: who still runs, and a wait with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_SECONDS = 20.0


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie that nobody reaps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def becomes_true(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> bool:
    """Whether the condition holds before the time is over; it is looked at every 20 ms."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True
