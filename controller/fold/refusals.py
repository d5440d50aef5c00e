"""Creations that the API server refused: why, who holds the name, when the next try is due (RULES §3, §4.6).

In: an outcome. Out: a `Refusal` for whoever waits for the object.
"""

from __future__ import annotations

from controller.fold.draft import Draft
from controller.fold.judge import series_seconds
from controller.fold.state import Refusal
from controller.model.actions import Outcome
from controller.model.instants import SECOND, Instant

NOT_WANTED = "NotWanted"
"""An outcome's reason: dropped right before it was sent, since the job no longer wanted it."""
FAILED_CREATE = "FailedCreate"
NAME_TAKEN = "NameTaken"
ALREADY_EXISTS = "AlreadyExists"
_MAY_PASS = (0, 408, 429)
"""Codes (0: no answer) that say nothing about the object, as those from 500 up: too busy, too slow."""


def own_uid(draft: Draft, outcome: Outcome) -> str | None:
    """AlreadyExists by an object of this very job: it is as good as created."""
    holder = outcome.holder
    return holder.uid if holder and holder.owner_uid == draft.state.uid else None


def refusal_of(draft: Draft, before: Refusal | None, outcome: Outcome, name: str, at: Instant) -> Refusal | None:
    """What keeps `name` from being created, one try after `before`."""
    if outcome.reason == NOT_WANTED:
        return before
    tries = (before.tries if before else 0) + 1
    wait = max(series_seconds(tries), outcome.retry_after_seconds or 0)
    is_taken = outcome.reason == ALREADY_EXISTS
    return Refusal(
        reason=NAME_TAKEN if is_taken else FAILED_CREATE,
        message=f"{name} belongs to something else" if is_taken else outcome.message,
        tries=tries,
        due_at=at + int(wait * SECOND),
        holder=outcome.holder,
        is_held=bool(outcome.holder and outcome.holder in draft.state.holders.values()),
        may_pass=outcome.code in _MAY_PASS or outcome.code >= 500,
    )
