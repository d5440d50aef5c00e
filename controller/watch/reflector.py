"""API server → observations: one resource, listed once and then watched for as long as we live.

In: a position to resume from, or none. Out: observations, marks, gaps, through the outlet.
Never: a hot loop, a wait without end, an event from garbage, a DELETED without proof (DESIGN §3, §4).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import structlog

from controller.errors import Temporary
from controller.kube.backoff import delay_seconds
from controller.kube.client import KubeClient
from controller.kube.errors import ApiError, Gone
from controller.model.events import GapReason, Op
from controller.model.instants import Instant
from controller.watch.absence import present
from controller.watch.audit import differences
from controller.watch.gaps import Gaps
from controller.watch.heads import Head, Heads
from controller.watch.lines import Lines, bookmark_of, line_of
from controller.watch.look import LOOK_SECONDS, Lags, seen_of_job, untold
from controller.watch.normalise import Normaliser
from controller.watch.notices import may_concern_us
from controller.watch.observation import Mark, Observation
from controller.watch.outlet import Outlet
from controller.watch.relist import Relist
from controller.watch.resources import Resource

log = structlog.get_logger("watch")

HEALTHY_SECONDS = 10.0
"""A stream that lived this long was no failure, however it ended."""

DOUBTS_AT_ONCE = 64
"""So many doubtful deletions are settled together at most; what came after them waits."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient the watches are, and their luck. Seconds."""

    idle_seconds: float = 120.0
    """No byte for so long although a bookmark is due every minute: the connection is half open."""
    watch_seconds: tuple[int, int] = (270, 330)
    """A watch is asked to end after about five minutes, so that it is begun again with a fresh token."""
    doubt_seconds: float = 0.05
    """How long doubtful deletions are collected: a job's services go within this, and one list settles them all."""
    audit_seconds: tuple[int, int] = (600, 1800)
    """How long between two proofs that a stream told the truth: a list of names and versions is not free."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    audit_pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    luck: Callable[[], float] = field(default=random.random)
    monotonic: Callable[[], float] = time.monotonic


class Reflector:
    """Reads one resource."""

    def __init__(
        self,
        resource: Resource,
        client: KubeClient,
        namespace: str | None,
        normaliser: Normaliser,
        outlet: Outlet,
        heads: Heads,
        gaps: Gaps,
        pace: Pace,
        resume_at: int | None,
        read_at: Instant | None = None,
        *,
        is_deleted: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        """`resume_at` is the resourceVersion of the last committed mark, `read_at` its time; None lists first.
        `is_deleted` knows uids whose deletion the API server has answered: they need no look."""
        self.resource = resource
        self.is_connected = False
        self.problem: str | None = None
        """Why it is not connected, in words; None when it is."""
        self.reconnect_count = 0
        self._client = client
        self._namespace = namespace
        self._normaliser = normaliser
        self._outlet = outlet
        self._heads = heads
        self._gaps = gaps
        self._pace = pace
        self._resource_version = resume_at
        self._start_kind = "resume"
        self._marked: int | None = resume_at
        self._read_at = read_at
        self._is_deleted = is_deleted
        self._held: list[Observation] = []
        """What came since the first doubtful deletion, in order; empty when there is no doubt."""
        self._doubts = 0
        self._relisted_since_healthy = False
        self._is_distrusted = False
        self._answer: aiohttp.ClientResponse | None = None
        self._moved = asyncio.Event()
        self._audited_at: Instant | None = None
        self.relist = Relist(resource, client, namespace, normaliser, outlet, heads, gaps)

    async def run(self) -> None:
        """Reads until it is cancelled."""
        failures = 0
        while True:
            opened_at: float | None = None
            asked = 0.0
            try:
                if self._is_distrusted:
                    self._is_distrusted, self._resource_version = False, None
                if self._resource_version is None:
                    await self._begin_anew()
                async with self._client.stream(
                    self.resource.path(self._namespace), query=self._query(), idle_seconds=self._pace.idle_seconds
                ) as answer:
                    opened_at = self._pace.monotonic()
                    self.is_connected, self.problem = True, None
                    self._answer = answer
                    await self._read(answer.content)
            except Gone as error:
                log.info("watch expired", resource=self.resource.name, at=self._resource_version, said=str(error))
                await self._expire()
                failures -= not self._relisted_since_healthy  # the first relist after a good stretch comes at once
            except (ApiError, Temporary) as error:
                self._note_problem(error)
                asked = error.retry_after_seconds if isinstance(error, Temporary) else 0.0
            finally:
                self.is_connected, self._answer = False, None
                self._stir()
                self._held.clear()
                self._doubts = 0
            self.reconnect_count += 1
            if opened_at is not None and self._pace.monotonic() - opened_at >= HEALTHY_SECONDS:
                failures, self._relisted_since_healthy = 0, False
            else:
                failures += 1
            await self._pace.pause(delay_seconds(failures, self._pace.luck(), asked))

    async def look(self, namespace: str, job_name: str) -> None:
        """Returns when the stream has told everything that a list of one job's objects shows.

        Raises Lags when it has not within LOOK_SECONDS, and begins it again where it stopped; ApiError, Temporary.
        """
        session = self._answer
        found = await seen_of_job(self._client, self.resource, self._heads, namespace, job_name)
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                while session is not None and session is self._answer:
                    if not untold(found, self._heads, namespace, job_name):
                        return
                    await self._moved.wait()
        except TimeoutError:
            if session is not None:
                session.close()
        raise Lags(f"the watch of {self.resource.name} has not told yet what a list of {namespace}/{job_name} shows")

    async def run_audits(self) -> None:
        """Every 10 to 30 minutes compares what the stream told with a list, until it is cancelled."""
        shortest, longest = self._pace.audit_seconds
        while True:
            await self._pace.audit_pause(shortest + self._pace.luck() * (longest - shortest))
            if self.is_connected and not self._gaps.concerns(self.resource.name):
                try:
                    await self._audit()
                except (ApiError, Temporary) as error:
                    log.info("no audit this time", resource=self.resource.name, said=str(error))

    async def _audit(self) -> None:
        session = self._answer
        begun_at = self._outlet.stamp.now()
        found = await differences(self._client, self.resource, self._namespace, self._heads, self._reached)
        if session is None or session is not self._answer:
            return  # the stream began anew meanwhile: what was compared is not one story
        if found:
            log.error("the stream left something out", resource=self.resource.name, count=len(found), some=found[:10])
            await self._gaps.open([self.resource.name], GapReason.AUDIT_DIFFERED, self._audited_at)
            self._is_distrusted = True
            if self._answer is not None:
                self._answer.close()
        self._audited_at = begun_at

    async def _reached(self, resource_version: int) -> None:
        session = self._answer
        while session is self._answer and (self._resource_version or 0) < resource_version:
            await self._moved.wait()

    def _stir(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _query(self) -> dict[str, str | int | bool | None]:
        shortest, longest = self._pace.watch_seconds
        return {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": str(self._resource_version),
            "timeoutSeconds": shortest + int(self._pace.luck() * (longest - shortest + 1)),
            "labelSelector": self.resource.label_selector,
            "fieldSelector": self.resource.field_selector,
        }

    def _note_problem(self, error: Exception) -> None:
        text = " ".join(str(error).split())[:300]
        if text != self.problem:
            log.warning("watch interrupted", resource=self.resource.name, said=text, kind=type(error).__name__)
        self.problem = text

    async def _expire(self) -> None:
        """The server no longer has what comes after our position: something was missed."""
        self._resource_version = None
        if not self.resource.is_evidence and not self._gaps.concerns(self.resource.name):
            await self._gaps.open([self.resource.name], GapReason.EXPIRED, self._read_at)

    async def _begin_anew(self) -> None:
        self._relisted_since_healthy = True
        listed_at = await self.relist.run()
        # Synced goes before the mark: a crash between the two lists again, instead of leaving the gap open for ever.
        await self._gaps.close(self.resource.name)
        self._resource_version = listed_at
        self._start_kind = "list"
        await self._mark()

    async def _read(self, content: aiohttp.StreamReader) -> None:
        lines = Lines()
        settle_at: float | None = None
        while True:
            try:
                async with asyncio.timeout(self._until(settle_at)):
                    chunk = await content.readany()
            except TimeoutError as error:
                if isinstance(error, aiohttp.ClientError):
                    raise
                chunk = None
            at = self._outlet.stamp.now()
            if chunk:
                self._read_at = at
                for text in lines.feed(chunk):
                    await self._take(text, at)
            if self._doubts and settle_at is None:
                settle_at = self._pace.monotonic() + self._pace.doubt_seconds
            due = settle_at is not None and self._pace.monotonic() >= settle_at
            if self._doubts and (due or self._doubts >= DOUBTS_AT_ONCE or chunk == b""):
                await self._settle()
                settle_at = None
            if not self._held:
                await self._mark()
            if chunk == b"":
                return

    def _until(self, settle_at: float | None) -> float | None:
        return None if settle_at is None else max(0.0, settle_at - self._pace.monotonic())

    async def _take(self, text: bytes, at: Instant) -> None:
        if self.resource.is_evidence and not may_concern_us(text):
            return
        line = line_of(text)
        if line.op is None:
            if not self._held:
                self._resource_version = bookmark_of(line)
            return
        seen = self._normaliser.observation(self.resource, line.op, line.object, at)
        if self.resource.is_evidence:
            if line.op is not Op.DELETED:
                await self._outlet.notice(seen)
            self._resource_version = seen.resource_version
            return
        is_doubtful = line.op is Op.DELETED and self._is_doubtful(seen)
        if is_doubtful or self._held:
            self._doubts += is_doubtful
            self._held.append(seen)
            return
        await self._outlet.observe(seen)
        self._resource_version = seen.resource_version

    def _is_doubtful(self, seen: Observation) -> bool:
        """A selector watch says DELETED also when a label was edited; a deletion that began, or that the API server
        has answered, is beyond doubt."""
        has_begun = b'"deletionTimestamp"' in seen.body or self._is_deleted(seen.uid)
        return self.resource.says_deleted_for_edits and not has_begun

    async def _settle(self) -> None:
        """Looks the doubtful deletions up, and puts them with what came after them."""
        doubtful = {
            seen.uid: Head(seen.namespace, seen.name, seen.uid, seen.resource_version, seen.job_uid, seen.job_name)
            for seen in self._held
            if seen.op is Op.DELETED and self._is_doubtful(seen)
        }
        newest = max(self._heads.highest, self._held[-1].resource_version)
        there = await present(self._client, self.resource, doubtful.values(), newest)
        held, self._held, self._doubts = self._held, [], 0
        for seen in held:
            raw = there.get(seen.uid)
            if raw is None or seen.op is not Op.DELETED:
                await self._outlet.observe(seen)
            else:
                edited = self._normaliser.observation(self.resource, Op.MODIFIED, raw, seen.observed_at)
                await self._outlet.observe(edited)
            self._resource_version = seen.resource_version

    async def _mark(self) -> None:
        if self._resource_version is not None and self._resource_version != self._marked:
            self._marked = self._resource_version
            self._stir()
            await self._outlet.put(
                Mark(self.resource.name, self._resource_version, self._start_kind, self._outlet.stamp.now())
            )
