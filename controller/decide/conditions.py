"""The list of conditions: one entry a type, true times, the current state last (RULES §4, "Rules of the list").

In: what holds now. Out: the new list and the transitions.
"""

from __future__ import annotations

import msgspec

from controller.decide.reasons import CREATED, FAILED, RESTARTING, RUNNING, STALLED, SUCCEEDED, SUSPENDED
from controller.fold.state import Condition, JobState
from controller.model.events import Event, Transition

_CURRENT = (SUCCEEDED, FAILED, SUSPENDED, RESTARTING, RUNNING)
"""Which True entry is the job's state, the first that is there; else Created."""


class Board:
    """The list while one event changes it. All entries that it changes carry the event's time."""

    def __init__(self, state: JobState, event: Event, by_gap: bool) -> None:
        self._state = state
        self._event = event
        self._by_gap = by_gap
        self._entries = {entry.type: entry for entry in state.conditions}
        self.transitions: list[Transition] = []

    def is_true(self, kind: str) -> bool:
        entry = self._entries.get(kind)
        return entry is not None and entry.is_true

    def has(self, kind: str) -> bool:
        return kind in self._entries

    def set_true(self, kind: str, reason: str, message: str) -> None:
        """The condition holds, for this reason."""
        self._put(kind, "True", reason, message)

    def set_false(self, kind: str, reason: str, message: str, *, renew: bool = False) -> None:
        """The condition does not hold; absent stays absent. Reason and message stay those of the moment at which it
        became False, unless they are to be renewed (at the end)."""
        entry = self._entries.get(kind)
        if entry is not None and (entry.is_true or renew):
            self._put(kind, "False", reason, message)

    def _put(self, kind: str, status: str, reason: str, message: str) -> None:
        before = self._entries.get(kind)
        if before and (before.status, before.reason, before.message) == (status, reason, message):
            return
        at = self._event.observed_at
        changed_at = before.last_transition_time if before and before.status == status else at
        self._entries[kind] = Condition(kind, status, reason, message, at, changed_at)
        if before is None or before.status != status or before.reason != reason:
            self.transitions.append(
                Transition(
                    position=self._event.position,
                    ordinal=len(self.transitions),
                    type=kind,
                    status=status,
                    reason=reason,
                    message=message,
                    at=at,
                    by_gap=self._by_gap,
                )
            )

    def close(self) -> None:
        """Writes the list back in its order: Stalled, if True, before the current state, and that last."""
        entries = list(self._entries.values())
        current = next((kind for kind in _CURRENT if self.is_true(kind)), CREATED)
        entries.sort(key=lambda entry: (entry.type == current, entry.type == STALLED and entry.is_true))
        if tuple(entries) != self._state.conditions:
            self._state.conditions = tuple(entries)
            self._state.change_status()
            self._state.is_status_urgent |= bool(self.transitions)


def plain_of(entry: Condition, text_of: object) -> dict[str, str]:
    """One entry in Kubernetes' JSON shape."""
    assert callable(text_of)
    plain = msgspec.to_builtins(entry)
    plain["lastUpdateTime"] = text_of(entry.last_update_time)
    plain["lastTransitionTime"] = text_of(entry.last_transition_time)
    return plain  # type: ignore[no-any-return]
