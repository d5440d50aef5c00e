"""Who leads: stand by until the Lease is ours, work while it is, stop at once when it is not, stand by again.

In: a hand on the Lease, the work of a leader. Out: returns when told to stop. Never: work without a term that lasts; a
write after it (the client asks the term right before each one is sent).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from controller.errors import TfjobError
from controller.kube import KubeClient
from controller.kube.lease import LeaseHolder, Term

log = structlog.get_logger("lead")


class Epochs(Protocol):
    """Where the log's epoch is kept beside the log (DESIGN §3)."""

    def noted(self) -> int:
        """The highest epoch that is known there; a new one lies above it."""

    async def note(self, epoch: int) -> None:
        """Keeps a new epoch; returns when it is kept."""


class NoEpochs:
    """Without a Lease only the log knows."""

    def noted(self) -> int:
        return 0

    async def note(self, epoch: int) -> None:
        pass


class LeaseEpochs:
    """The epoch in an annotation of the Lease."""

    def __init__(self, holder: LeaseHolder, term: Term) -> None:
        self._holder, self._term = holder, term

    def noted(self) -> int:
        return self._term.epoch

    async def note(self, epoch: int) -> None:
        await self._holder.note_epoch(self._term, epoch)


async def lead(
    holder: LeaseHolder, client: KubeClient, work: Callable[[Epochs], Awaitable[None]], stop: asyncio.Event
) -> None:
    """Takes turns at leading until `stop`. `work` returns when told to stop, and is cancelled when the term is lost.

    Raises what `work` raises, unless it is of the end of its term: another leads then, and this process stands by.
    """
    while (term := await holder.acquire(stop)) is not None:
        client.guard_writes(term.write_seconds)
        await _one_term(holder, term, work)
        if term.lost.is_set() and not stop.is_set():
            log.warning("no longer leading", lease=holder.place, said=holder.problem or "the lease is another's")


async def _one_term(holder: LeaseHolder, term: Term, work: Callable[[Epochs], Awaitable[None]]) -> None:
    working = asyncio.ensure_future(work(LeaseEpochs(holder, term)))
    keeping = asyncio.create_task(holder.keep(term), name="lease")
    try:
        await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        was_in_time = term.write_seconds() > 0
    finally:
        # A leader that is out of its time stops here; one that has drained gives the Lease back for the next.
        for task in (working, keeping):
            task.cancel()
        await asyncio.wait({working, keeping})
        await holder.release(term)
    if not keeping.cancelled():
        keeping.result()
    if not working.cancelled():
        _raise_unless_late(working.exception(), was_in_time)


def _raise_unless_late(error: BaseException | None, was_in_time: bool) -> None:
    """What a leader died of at the end of its term is the successor's taking over; a bug is one at any time."""
    if error is None:
        return
    is_expected = isinstance(error, TfjobError)
    if isinstance(error, BaseExceptionGroup):
        is_expected = error.split(TfjobError)[1] is None
    if was_in_time or not is_expected:
        raise error
    log.info("stopped", said=str(error))
