"""API server → observations: all watches of one cluster, from what the log knows to what is seen now.

In: heads and marks of the log, a sink. Out: `Watched` items in the sink, for as long as `run` runs.
Never: a decision, a write to the API server, an item dropped (a full sink stops the reading).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping

from controller.kube.client import KubeClient
from controller.kube.live import Live
from controller.model.events import GapReason
from controller.model.instants import Instant
from controller.model.settings import GangScheduler
from controller.watch.gaps import Gaps
from controller.watch.heads import Heads
from controller.watch.normalise import Normaliser
from controller.watch.observation import HeadsReader, MarkLike, Sink
from controller.watch.outlet import Outlet, Stamp
from controller.watch.redact import Redaction
from controller.watch.reflector import Pace, Reflector
from controller.watch.resources import PODS, resources_of


class Watches:
    """Reads everything that the controller looks at. One instance runs once: a new leader makes a new one."""

    def __init__(
        self,
        client: KubeClient,
        heads: HeadsReader,
        sink: Sink,
        marks: Mapping[str, MarkLike],
        namespace: str | None,
        clock: Callable[[], Instant],
        *,
        gang_scheduler: GangScheduler = GangScheduler.NONE,
        redaction_key: bytes | None = None,
        live: Live | None = None,
        relist: Mapping[str, GapReason] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """`marks`: resource (`pods`, …) → where the log says it was read up to; one without a mark is listed.

        `relist` names resources that are listed although they have a mark, and why: a gap that the log has open, or
        that something else than the API server made. `clock` gives microseconds since the epoch. Without
        `redaction_key` env hashes are comparable only while this instance lives. `live` is shared with act/.
        """
        self._client = client
        self._reader = heads
        self._sink = sink
        self._marks = {name: int(mark.resource_version) for name, mark in marks.items()}
        self._marked_at = {name: mark.at for name, mark in marks.items() if mark.at}
        self._reasons = dict(relist or {})
        self._namespace = namespace
        self._stamp = Stamp(clock)
        self._resources = resources_of(gang_scheduler)
        self._live = live or Live()
        self._normaliser = Normaliser(Redaction(redaction_key or secrets.token_bytes(32)), self._live)
        self._pace = pace or Pace()
        self._reflectors: dict[str, Reflector] = {}
        self._gaps: Gaps | None = None

    async def run(self) -> None:
        """Reads until it is cancelled. Raises only for a bug: whatever the API server does is waited out."""
        heads = {each.name: await self._heads(each.name, each.is_evidence) for each in self._resources}
        outlet = Outlet(self._sink, heads, self._stamp)
        gaps = self._gaps = Gaps(outlet.put, self._stamp.now)
        anew: dict[GapReason, list[str]] = defaultdict(list)
        for resource in self._resources:
            reason = self._reasons.get(resource.name)
            if reason is None and resource.name not in self._marks:
                reason = GapReason.FIRST_SYNC
            if reason is not None and not resource.is_evidence:
                anew[reason].append(resource.name)
            self._reflectors[resource.name] = Reflector(
                resource,
                self._client,
                self._namespace,
                self._normaliser,
                outlet,
                heads[resource.name],
                gaps,
                self._pace,
                self._marks.get(resource.name) if reason is None else None,
                self._marked_at.get(resource.name),
                is_deleted=self._live.is_deleted,
            )
        for reason, names in anew.items():
            times = [self._marked_at[name] for name in names if name in self._marked_at]
            await gaps.open(names, reason, min(times, default=None))
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run(), name=f"watch {reflector.resource.name}")
                if not reflector.resource.is_evidence:
                    group.create_task(reflector.run_audits(), name=f"watch audit {reflector.resource.name}")

    def is_connected(self) -> bool:
        """True while every resource that decisions rest on is being read, and no gap is open (RULES §11)."""
        needed = [each for each in self._reflectors.values() if not each.resource.is_evidence]
        return bool(needed) and all(each.is_connected for each in needed) and not (self._gaps and self._gaps.is_open)

    def problems(self) -> dict[str, str]:
        """resource → why it is not being read, in the server's words; empty when all is well."""
        return {name: each.problem for name, each in self._reflectors.items() if each.problem and not each.is_connected}

    def reconnect_counts(self) -> dict[str, int]:
        """resource → how often its stream has ended, for whatever reason."""
        return {name: each.reconnect_count for name, each in self._reflectors.items()}

    async def look_at_pods(self, namespace: str, job_name: str) -> None:
        """Lists one job's pods once, consistently; all that it shows is in the sink when this returns (RULES §11).

        Raises ApiError, or another Temporary, when the list could not be had or the stream has not told all of it yet.
        """
        await self._reflectors[PODS.name].look(namespace, job_name)

    async def _heads(self, name: str, is_evidence: bool) -> Heads:
        found = {} if is_evidence else await self._reader.heads(name)
        if self._namespace is not None:
            # Of a log that was written for all namespaces: what this watch cannot see it must not find missing.
            found = {uid: head for uid, head in found.items() if head.namespace == self._namespace}
        return Heads(found, self._marks.get(name))
