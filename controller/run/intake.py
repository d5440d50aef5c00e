"""From the watches into the inbox: what was seen, as events that are not committed yet.

In: observations, gaps and marks, in order. Out: the same in the log's words. `put` waits while the inbox is full.
"""

from __future__ import annotations

from typing import assert_never

from controller.log import NewEvent, SessionMark
from controller.model.events import GapOpened
from controller.run.inbox import Inbox
from controller.watch import Mark, Observation, StreamFact, Watched


class Intake:
    """The watches' sink. `scope` is the namespace that is watched; empty: all."""

    def __init__(self, inbox: Inbox[NewEvent | SessionMark], scope: str) -> None:
        self._inbox = inbox
        self._scope = scope

    async def put(self, item: Watched) -> None:
        """Hands one item over."""
        await self._inbox.put(self._worded(item))

    def _worded(self, item: Watched) -> NewEvent | SessionMark:
        match item:
            case Observation():
                return NewEvent(
                    op=item.op,
                    fact=item.fact,
                    observed_at=item.observed_at,
                    namespace=item.namespace,
                    name=item.name,
                    uid=item.uid,
                    resource_version=item.resource_version,
                    job_uid=item.job_uid,
                    job_name=item.job_name,
                    spec_hash=item.spec_hash,
                    body=item.body,
                    spec=item.spec,
                )
            case StreamFact(op=op, fact=fact, observed_at=at):
                kind = fact.reason.value if isinstance(fact, GapOpened) else "synced"
                key = f"{op.value}/{kind}/{'+'.join(fact.resources)}/{at}"
                return NewEvent(op=op, fact=fact, observed_at=at, key=key)
            case Mark():
                return SessionMark(item.resource, item.resource_version, item.start_kind, item.at, self._scope)
            case _ as never:
                assert_never(never)
