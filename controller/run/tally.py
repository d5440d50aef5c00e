"""What happened, counted: commits and what was in them, outcomes, jobs → numbers for /metrics.

In: each commit that succeeded, each outcome. Out: counts of this process's life. Never: what is not committed yet, or
what a start only reads back: nothing counts twice over restarts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from controller.model.actions import Action, Outcome
from controller.model.events import Event, GapOpened
from controller.model.instants import SECOND, Instant

LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Around the figure to reach, 100 ms at the 99th percentile (DESIGN §5), and up to an outage of Postgres."""
BATCH_EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class JobCount(StrEnum):
    """What training-operator's dashboards count of jobs; the words are those of its metrics' names."""

    CREATED = "created"
    DELETED = "deleted"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    RESTARTED = "restarted"


TRANSITIONS = {
    "Succeeded": JobCount.SUCCESSFUL,
    "Failed": JobCount.FAILED,
    "Restarting": JobCount.RESTARTED,
}
"""Condition that becomes True → what is counted."""


class Histogram:
    """Counts by upper bounds, the last one open."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Tally:
    """The counts of one process, over all its terms of leading."""

    def __init__(self) -> None:
        self.commits = 0
        self.failed_commits = 0
        self.events: Counter[str] = Counter()
        """By op."""
        self.gaps: Counter[str] = Counter()
        """By reason."""
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """By action and result."""
        self.jobs: Counter[tuple[JobCount, str]] = Counter()
        """By what happened and namespace."""
        self.batch = Histogram(BATCH_EVENTS)
        self.lag = Histogram(LAG_SECONDS)

    def committed(self, events: Sequence[Event], now: Instant) -> None:
        """One commit's new events, right after it."""
        self.commits += 1
        self.batch.add(len(events))
        for event in events:
            self.events[event.op.value] += 1
            if event.resource_version:  # an object's version: only those wait between being read and being committed
                self.lag.add(max(0, now - event.observed_at) / SECOND)
            if isinstance(event.fact, GapOpened):
                self.gaps[event.fact.reason.value] += 1

    def settled(self, action: Action, outcome: Outcome) -> None:
        """One answer of the API server, or none."""
        self.outcomes[type(action).__name__, outcome.result.value] += 1

    def count_jobs(self, happened: Iterable[tuple[JobCount, str]]) -> None:
        """What happened to jobs, each with its namespace; its events are committed."""
        self.jobs.update(happened)
