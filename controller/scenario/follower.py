"""The runner's own reading of the log: every event folded anew, beside the controller that wrote it.

In: an event log. Out: the same `History` that a pure run has, and whether the controller has anything left to do.
Never: a write.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.decide import asked_of
from controller.log import EventLog
from controller.model.events import DELETIONS, Event, JobObserved, LeaderElected, PodObserved, ServiceObserved, Synced
from controller.model.instants import Instant
from controller.scenario.history import History


class Follower:
    """Reads one cluster's log in order."""

    def __init__(self, log: EventLog) -> None:
        self.history = History()
        self._log = log
        self.leader_count = 0
        """How many lives of the controller have led."""
        self.synced_count = 0
        """How many gaps are closed."""
        self._position = 0
        self._heads: dict[str, int] = {}

    async def catch_up(self) -> None:
        """Folds what was committed since the last call."""
        while events := await self._log.read(self._position, limit=500):
            for event in events:
                self.history.take(event)
                self._note(event)
            self._position = events[-1].position

    def unrest(self, now: Instant) -> str:
        """What some job still waits for, or asks for; empty when there is nothing until the next timer."""
        if self.history.context.gap:
            return f"a gap is open: {', '.join(sorted(self.history.context.gap))}"
        for live in self.history.live.values():
            name = live.state.name
            if live.wanted:
                return f"{name} asks for {live.wanted[0]}"
            if asked := list(asked_of(live.state).values()):
                return f"{name} has no answer to {asked[0]}"
        due = self.history.due(now)
        return f"{due[1]} is due" if due else ""

    def lag(self, versions: Mapping[str, int]) -> str:
        """What of the objects on the API server (uid → resourceVersion) is not in the log; empty when all is."""
        if self._heads == versions:
            return ""
        late = sorted(uid for uid in self._heads.keys() | versions.keys() if self._heads.get(uid) != versions.get(uid))
        return f"the log has not seen {late[0]} as it is now ({len(late)} such)"

    def _note(self, event: Event) -> None:
        self.leader_count += isinstance(event.fact, LeaderElected)
        self.synced_count += isinstance(event.fact, Synced)
        if isinstance(event.fact, JobObserved | PodObserved | ServiceObserved):
            if event.op in DELETIONS:
                self._heads.pop(event.uid, None)
            else:
                self._heads[event.uid] = event.resource_version
