"""How the loops are doing, for whoever asks from outside: is one dead, is something not ready, how much of what.

In: the running loops. Out: words and numbers. Never: a change of anything.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.errors import TfjobError
from controller.log import EventLog
from controller.run.inbox import Inbox
from controller.run.ingest import Ingest
from controller.run.project import Projector
from controller.run.tally import Tally
from controller.watch import Watches

LOG_SECONDS = 2.0
"""A log that does not say its position within this is not ready; a probe waits no longer either."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The parts of a leader that runs."""

    inbox: Inbox[Any]
    projector: Projector
    ingest: Ingest
    watches: Watches
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Vitals:
    """The numbers of one moment. Those of a leader are 0 in a process that stands by."""

    tally: Tally
    is_leading: bool = False
    api_requests: int = 0
    inbox_bytes: int = 0
    behind_seconds: float = 0.0
    """Age of the oldest observation that is not committed yet."""
    parked: int = 0
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By namespace and state: the type of the last condition, empty before the first."""
    reconnects: Mapping[str, int] = field(default_factory=dict)
    """By resource."""


def vitals_of(loops: Loops | None, tally: Tally, api_requests: int) -> Vitals:
    """The numbers now; without loops this process stands by."""
    if loops is None:
        return Vitals(tally, api_requests=api_requests)
    jobs: Counter[tuple[str, str]] = Counter()
    for state in loops.projector.states():
        jobs[state.namespace, state.conditions[-1].type if state.conditions else ""] += 1
    return Vitals(
        tally,
        is_leading=True,
        api_requests=api_requests,
        inbox_bytes=loops.inbox.held_bytes,
        behind_seconds=loops.ingest.behind_seconds(),
        parked=len(loops.projector.parked),
        jobs=jobs,
        reconnects=loops.watches.reconnect_counts(),
    )


def dead_of(loops: Loops | None) -> list[str]:
    """The loops that have ended although the others run, in words."""
    return [f"the {task.get_name()} loop has ended" for task in loops.tasks if task.done()] if loops else []


async def not_ready_of(loops: Loops, event_log: EventLog) -> list[str]:
    """What a leader still lacks to do its work, in words; empty when all is well."""
    watches = loops.watches
    found = [f"the watch of {name} is not connected: {why}" for name, why in watches.problems().items()]
    if not found and not watches.is_connected():
        found.append("the watches are not through their first lists")
    if loops.ingest.problem:
        found.append(f"the log cannot be written: {loops.ingest.problem}")
    else:
        try:
            async with asyncio.timeout(LOG_SECONDS):
                await event_log.position()
        except TfjobError as error:
            found.append(f"the log cannot be read: {error}")
        except TimeoutError:
            found.append(f"the log does not answer within {LOG_SECONDS:g} s")
    return found
