"""Which jobs an event concerns: its owner, and the live job whose name it carries (RULES §9).

In: events in order. Out: uids. The same for the live projector and for a history that is read back. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.model.events import DELETIONS, ClusterFact, Event, JobObserved, OwnedFact


class Routes:
    """Remembers which job holds which name; an event reaches its owner and the holder of the name on its label."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str], str] = {}
        self._early: dict[str, list[Event]] = {}

    def restore(self, names: Mapping[tuple[str, str], str]) -> None:
        """Takes up the names that live jobs hold: (namespace, name) → uid."""
        self._holders.update(names)

    def begin(self, event: Event) -> list[Event]:
        """Of a job's first event: what was observed of its objects before, in order, to be folded right after it."""
        self._holders[event.namespace, event.name] = event.uid
        return self._early.pop(event.uid, [])

    def end(self, namespace: str, name: str, uid: str) -> None:
        """The job is over; its name is free."""
        if self._holders.get((namespace, name)) == uid:
            del self._holders[namespace, name]

    def targets(self, event: Event, alive: Iterable[str] | Mapping[str, object]) -> list[str]:
        """The uids of the live jobs that the event concerns; an owner that is not known yet gets it when it begins."""
        if isinstance(event.fact, ClusterFact):
            return list(alive)
        if isinstance(event.fact, JobObserved):
            return [event.uid]
        found = []
        if event.job_uid:
            if event.job_uid in alive:
                found.append(event.job_uid)
            elif event.op not in DELETIONS and isinstance(event.fact, OwnedFact):
                self._early.setdefault(event.job_uid, []).append(event)
            else:
                self._early.pop(event.job_uid, None)
        if event.job_name and isinstance(event.fact, OwnedFact):
            holder = self._holders.get((event.namespace, event.job_name))
            if holder and holder != event.job_uid and holder in alive:
                found.append(holder)
        return found
