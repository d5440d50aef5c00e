"""The actor that does nothing: for a controller that only observes beside another one (docs/MIGRATING.md).

In: a request. Out: the outcome that says that it was not sent. Never: a client.
"""

from __future__ import annotations

from controller.act.request import Request
from controller.decide import digest_of
from controller.model.actions import OBSERVING, Outcome, Result
from controller.model.instants import Instant


class Onlooker:
    """In an Actor's place."""

    async def carry_out(self, request: Request, now: Instant) -> Outcome:
        """Sends nothing. A status is named, so that equal content is not decided on twice."""
        digest = digest_of(request.status) if request.status is not None else None
        return Outcome(Result.REFUSED, reason=OBSERVING, status_digest=digest)
