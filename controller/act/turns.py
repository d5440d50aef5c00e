"""Whose request is sent next: jobs take turns, so that one of 5 000 replicas starves no other (DESIGN §2).

In: requests at any time. Out: outcomes through a callback. Never: a request that is not wanted when its turn comes, or
any before the time that the server named when it had too many (429, Retry-After).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.act.actor import Actor
from controller.act.onlooker import Onlooker
from controller.act.request import Request
from controller.kube.backoff import delay_seconds
from controller.model.actions import Outcome, PatchStatus, Result
from controller.model.instants import Instant

TOO_MANY = 429
TICK_SECONDS = 0.001
"""A timer of the event loop may fire a clock's tick early."""
COMPANY_SECONDS = 0.2
"""How long a status in which only counts changed waits for more to change."""
NOT_WANTED = Outcome(Result.REFUSED, reason="NotWanted")


@dataclass(slots=True)
class _Task:
    request: Request
    attempt: int = 1


class Turns:
    """Sends at most `workers` requests at a time. Used from one event loop."""

    def __init__(
        self,
        actor: Actor | Onlooker,
        *,
        is_wanted: Callable[[Request], bool],
        status_now: Callable[[str], tuple[dict[str, Any], str] | None],
        on_outcome: Callable[[Request, int, Outcome], None],
        now: Callable[[], Instant],
        workers: int,
    ) -> None:
        self._actor = actor
        self._is_wanted = is_wanted
        self._status_now = status_now
        self._on_outcome = on_outcome
        self._now = now
        self._free = workers
        self._queues: dict[str, deque[_Task]] = {}
        self._turn: deque[str] = deque()
        self._waiting: dict[str, tuple[asyncio.TimerHandle, _Task]] = {}
        self._sent: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._held_until = 0.0
        """The loop's time before which the server wants nothing of us."""
        self._failure: asyncio.Future[None] | None = None

    def submit(self, requests: Sequence[Request]) -> None:
        """Takes requests; each has its turn as soon as there is one."""
        for request in requests:
            task = _Task(request)
            if isinstance(request.action, PatchStatus) and not request.action.urgent:
                self._later(request.job_uid, task, COMPANY_SECONDS)
            else:
                self._enqueue(task)
        self._pump()

    def hurry(self, job_uid: str) -> None:
        """The job's status has become urgent: what waits for company is sent now."""
        held = self._waiting.pop(job_uid, None)
        if held:
            held[0].cancel()
            self._enqueue(held[1])
            self._pump()

    async def run(self) -> None:
        """Sends until cancelled; raises what a sending died of (a bug: the API server's answers are outcomes)."""
        self._failure = asyncio.get_running_loop().create_future()
        self._pump()
        try:
            await self._failure
        finally:
            self._failure = None
            for task in self._sent:
                task.cancel()

    async def drain(self) -> None:
        """Begins nothing more, and returns when everything that was sent has its outcome."""
        self._is_stopping = True
        for handle, _ in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        self._queues.clear()
        self._turn.clear()
        while self._sent:
            await asyncio.wait(self._sent)

    def _later(self, job_uid: str, task: _Task, seconds: float) -> None:
        def come() -> None:
            self._waiting.pop(job_uid, None)
            self._enqueue(task)
            self._pump()

        self._waiting[job_uid] = (asyncio.get_running_loop().call_later(seconds, come), task)

    def _enqueue(self, task: _Task) -> None:
        if self._is_stopping:
            return
        job_uid = task.request.job_uid
        queue = self._queues.get(job_uid)
        if queue is None:
            queue = self._queues[job_uid] = deque()
            self._turn.append(job_uid)
        queue.append(task)

    def _hold(self, outcome: Outcome) -> None:
        """The server's wish concerns this client, not this one request: all wait."""
        if outcome.code != TOO_MANY or not outcome.retry_after_seconds:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + outcome.retry_after_seconds
        if until > self._held_until:
            self._held_until = until
            loop.call_at(until + TICK_SECONDS, self._pump)

    def _pump(self) -> None:
        if asyncio.get_running_loop().time() < self._held_until:
            return
        while self._free and self._turn and self._failure is not None:
            job_uid = self._turn.popleft()
            queue = self._queues[job_uid]
            task = queue.popleft()
            if queue:
                self._turn.append(job_uid)
            else:
                del self._queues[job_uid]
            if not self._is_wanted(task.request):
                self._on_outcome(task.request, task.attempt, NOT_WANTED)
                continue
            self._free -= 1
            sending = asyncio.create_task(self._send(task))
            self._sent.add(sending)
            sending.add_done_callback(self._finished)

    async def _send(self, task: _Task) -> None:
        request = task.request
        if isinstance(request.action, PatchStatus):
            now = self._status_now(request.job_uid)
            if now is None:
                self._on_outcome(request, task.attempt, NOT_WANTED)
                return
            request = msgspec.structs.replace(request, status=now[0], resource_version=now[1])
        outcome = await self._actor.carry_out(request, self._now())
        self._hold(outcome)
        self._on_outcome(task.request, task.attempt, outcome)
        if outcome.result is Result.UNKNOWN and not self._is_stopping:
            # It may have taken effect. Sending it again is safe, and its answer settles the question.
            again = _Task(task.request, task.attempt + 1)
            delay = delay_seconds(task.attempt, retry_after_seconds=outcome.retry_after_seconds or 0.0)
            asyncio.get_running_loop().call_later(delay, self._again, again)

    def _again(self, task: _Task) -> None:
        self._enqueue(task)
        self._pump()

    def _finished(self, sending: asyncio.Task[None]) -> None:
        self._sent.discard(sending)
        self._free += 1
        if not sending.cancelled() and (error := sending.exception()) and self._failure and not self._failure.done():
            self._failure.set_exception(error)
        self._pump()
