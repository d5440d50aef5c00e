"""Edge to the API server: which of several processes leads, by a Lease of coordination.k8s.io (DESIGN §4, §6).

In: a client of its own, so that no burst of other requests holds a renewal back; a name. Out: a `Term` while this
process leads. Never: a comparison of two machines' clocks; a write that is allowed after the term's monotonic deadline.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from controller.kube.client import KubeClient
from controller.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from controller.kube.lease_rules import Decision, LeaseSeen, Memory, Pace, decision_of, lease_seen, renewed_body

log = structlog.get_logger("lease")


class Term:
    """One stretch of leading. It ends when the Lease could not be renewed in time, or is seen to be another's."""

    def __init__(self, pace: Pace, sent_at: float, epoch: int, monotonic: Callable[[], float]) -> None:
        """`sent_at` is the monotonic time right before the write that took the Lease; `epoch` what stood on it."""
        self._pace = pace
        self._sent_at = sent_at
        self._monotonic = monotonic
        self.epoch = epoch
        """The highest epoch of the log that the Lease knows of."""
        self.lost = asyncio.Event()

    def write_seconds(self) -> float:
        """How long a write that is sent now may take at most; 0: none may be sent, now or ever in this term.

        Asked right before sending. Nobody else can have the Lease before these seconds are over.
        """
        now = self._monotonic()
        if self.lost.is_set() or now >= self.renew_by:
            # Final: what was refused once is not sent by a renewal that came a moment too late.
            self.lost.set()
            return 0.0
        return self._sent_at + self._pace.lease_seconds - now

    @property
    def renew_by(self) -> float:
        """The monotonic time at which the term ends unless it was renewed."""
        return self._sent_at + self._pace.renew_within_seconds

    def renewed(self, sent_at: float) -> None:
        """Prolongs the term from the time right before the renewal was sent."""
        if self.write_seconds():
            self._sent_at = sent_at


class LeaseHolder:
    """This process's hand on one Lease."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        holder: str,
        pace: Pace,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        luck: Callable[[], float] = random.random,
    ) -> None:
        """`holder` is unique to this process. `clock` is only for the times that people read on the Lease."""
        self._client = client
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._holder = holder
        self._pace = pace
        self._clock = clock
        self._monotonic = monotonic
        self._luck = luck
        self._body: dict[str, Any] | None = None
        self._memory = Memory()
        self._epoch = 0
        self._hurry = asyncio.Event()
        self._is_noted = asyncio.Event()
        self.problem: str | None = "the Lease was not read yet"
        """Why the Lease could not be read or written the last time, in words; None when it could."""

    @property
    def place(self) -> str:
        """The Lease's name for people."""
        return f"{self._folder.split('/')[5]}/{self._name}"

    async def acquire(self, stop: asyncio.Event) -> Term | None:
        """Stands by until the Lease is this process's; None when told to stop before."""
        log.info("standing by", lease=self.place, holder=self._holder)
        while not stop.is_set():
            wait: float = 0.0
            try:
                term = await self._try_once()
                if term is not None:
                    log.info("took the lease", lease=self.place, epoch=term.epoch)
                    return term
            except ApiError as error:
                self._note_problem(error)
                wait = getattr(error, "retry_after_seconds", 0.0)
            await _wait(stop, max(wait, self._pace.pause_seconds(self._luck())))
        return None

    async def keep(self, term: Term) -> None:
        """Renews until the term is lost; returns then, before anybody else can have the Lease."""
        try:
            async with asyncio.timeout(None) as limit:
                while term.write_seconds():
                    self._limit(limit, term)
                    await _wait(self._hurry, self._pace.pause_seconds(self._luck()))
                    self._hurry.clear()
                    await self._renew(term)
        except TimeoutError:
            pass
        term.lost.set()

    async def note_epoch(self, term: Term, epoch: int) -> None:
        """Writes the log's epoch on the Lease; returns when it stands there (the term may be lost by then)."""
        self._epoch = max(epoch, self._epoch)
        self._is_noted.clear()
        self._hurry.set()
        noted = asyncio.create_task(self._is_noted.wait())
        lost = asyncio.create_task(term.lost.wait())
        try:
            await asyncio.wait({noted, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            noted.cancel()
            lost.cancel()
        term.epoch = max(term.epoch, epoch)

    async def release(self, term: Term) -> None:
        """Gives the Lease back, so that the next leads at once. Nothing may be sent under this term afterwards."""
        if not term.write_seconds():
            return
        term.lost.set()
        try:
            await self._write(holder="")
            log.info("gave the lease back", lease=self.place)
        except ApiError as error:
            # The next one waits for its end then.
            log.warning("the lease could not be given back", lease=self.place, said=str(error))

    def _limit(self, limit: asyncio.Timeout, term: Term) -> None:
        left = term.renew_by - self._monotonic()
        limit.reschedule(asyncio.get_running_loop().time() + left)

    async def _try_once(self) -> Term | None:
        seen = await self._read()
        decision = decision_of(seen, self._memory, self._monotonic(), self._holder, self._pace, is_held=False)
        if decision is not Decision.ACQUIRE:
            return None
        sent_at = self._monotonic()
        try:
            written = await self._write(holder=self._holder)
        except (AlreadyExists, Conflict):  # another was faster
            return None
        return Term(self._pace, sent_at, written.epoch, self._monotonic)

    async def _renew(self, term: Term) -> None:
        epoch, sent_at = self._epoch, self._monotonic()
        if not term.write_seconds():
            return
        try:
            await self._write(holder=self._holder)
        except (Conflict, NotFound):
            await self._look(term)
        except ApiError as error:
            self._note_problem(error)
        else:
            term.renewed(sent_at)
            if epoch == self._epoch:
                self._is_noted.set()

    async def _look(self, term: Term) -> None:
        """Somebody else wrote the Lease: a person a label, or another process its name."""
        try:
            seen = await self._read()
        except ApiError as error:
            self._note_problem(error)
            return
        if decision_of(seen, self._memory, self._monotonic(), self._holder, self._pace, is_held=True) is Decision.LOST:
            log.warning("the lease is another's", lease=self.place, holder=seen.holder if seen else None)
            term.lost.set()
        else:
            self._hurry.set()

    async def _read(self) -> LeaseSeen | None:
        """The Lease as it is now; None when there is none. Raises ApiError, as `_write` does."""
        try:
            answer = await self._request("GET", self._name)
        except NotFound:
            self._body = None
            self.problem = None
        else:
            self._take(answer)
        seen = lease_seen(self._body)
        self._memory = self._memory.after(seen, self._monotonic())
        return seen

    async def _write(self, holder: str) -> LeaseSeen:
        body = renewed_body(self._body, self._name, holder, self._clock(), self._pace, self._epoch)
        if self._body is None:
            self._take(await self._request("POST", "", body=body))
        else:
            self._take(await self._request("PUT", self._name, body=body))
        seen = lease_seen(self._body)
        assert seen is not None
        self._memory = self._memory.after(seen, self._monotonic())
        return seen

    async def _request(self, method: str, name: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        path = f"{self._folder}/{name}" if name else self._folder
        seconds = self._pace.request_seconds
        answer = await self._client.request(method, path, body=dict(body) if body else None, timeout_seconds=seconds)
        found: dict[str, Any] = answer.json()
        return found

    def _take(self, body: dict[str, Any]) -> None:
        self._body = body
        self.problem = None

    def _note_problem(self, error: ApiError) -> None:
        text = " ".join(str(error).split())[:300]
        if text != self.problem:
            log.warning("the lease cannot be used", lease=self.place, said=text)
        self.problem = text


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
