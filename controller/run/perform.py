"""The performer: requests whose decision is committed → the API server → outcomes back into the inbox.

In: requests of DECIDED events; at a start, what has no outcome yet. Out: one ACTION event for each sending.
Never: a request that is no longer wanted (asked of the projector right before sending), or a rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from controller.act import Actor, Onlooker, Request, Turns
from controller.kube import KubeClient
from controller.kube.live import Live
from controller.log import NewEvent, SessionMark
from controller.model.actions import Outcome, Result
from controller.model.events import ActionSettled, Op
from controller.run.clock import Clock
from controller.run.inbox import Inbox
from controller.run.project import Projector
from controller.run.said import without_secrets
from controller.run.tally import Tally
from controller.settings import Settings


class Performer:
    """Takes requests at any time and carries them out, jobs in turn."""

    def __init__(
        self,
        client: KubeClient,
        projector: Projector,
        inbox: Inbox[NewEvent | SessionMark],
        clock: Clock,
        settings: Settings,
        live: Live,
        tally: Tally,
        epoch: int,
    ) -> None:
        """`epoch` is that of this life: what an earlier one sent in vain is sent again, and its outcome is another."""
        self._tally = tally
        self._epoch = epoch
        self._live = live
        self._inbox = inbox
        self._clock = clock
        self._turns = Turns(
            Onlooker() if settings.observe else Actor(client, settings.policy, live),
            is_wanted=projector.is_wanted,
            status_now=projector.status_now,
            on_outcome=self._record,
            now=clock.now,
            workers=settings.api_workers,
        )

    def submit(self, requests: Sequence[Request]) -> None:
        """Requests whose DECIDED event is committed."""
        self._turns.submit(requests)

    def hurry(self, job_uids: Sequence[str]) -> None:
        """Their statuses wait for no company any more."""
        for job_uid in job_uids:
            self._turns.hurry(job_uid)

    async def run(self) -> None:
        """Carries requests out until cancelled."""
        await self._turns.run()

    async def drain(self, at_most_seconds: float) -> None:
        """Begins nothing more and waits for what was sent."""
        try:
            async with asyncio.timeout(at_most_seconds):
                await self._turns.drain()
        except TimeoutError:
            pass

    def _record(self, request: Request, attempt: int, outcome: Outcome) -> None:
        self._tally.settled(request.action, outcome)
        if outcome.result is Result.NOT_SENT:
            return  # it stays without an outcome: whoever leads next sends it
        if outcome.message:
            said = without_secrets(outcome.message, self._live.job(request.job_uid, 0))
            outcome = msgspec.structs.replace(outcome, message=said)
        fact = ActionSettled(request.decided_position, request.ordinal, attempt, request.action, outcome)
        self._inbox.put_now(
            NewEvent(
                op=Op.ACTION,
                fact=fact,
                observed_at=self._clock.now(),
                namespace=request.namespace,
                name=request.name,
                uid=request.job_uid,
                job_uid=request.job_uid,
                key=f"action/{request.decided_position}/{request.ordinal}/{self._epoch}/{attempt}",
            )
        )
