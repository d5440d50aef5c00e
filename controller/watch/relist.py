"""API server → observations: a whole list, told as what differs from what is known (DESIGN §3, RULES §11).

In: the pages of a consistent list. Out: SYNC_ADDED, SYNC_MODIFIED, and SYNC_DELETED with proof.
Never: a list that is older than what was seen; an absence that rests on one list alone when many would vanish.
"""

from __future__ import annotations

import structlog

from controller.kube.client import KubeClient
from controller.kube.errors import Gone
from controller.model.events import GapReason, Op
from controller.watch.absence import METADATA_ONLY, PAGE_LIMIT, NoProof, identity_of, pages, present
from controller.watch.gaps import Gaps
from controller.watch.heads import Head, Heads
from controller.watch.lines import RawObject
from controller.watch.normalise import Normaliser, Owner, lost
from controller.watch.outlet import Outlet
from controller.watch.resources import Resource

log = structlog.get_logger("watch")

LIST_TRIES = 3
"""How often a list that expires between its pages is begun again before that counts as a failure."""


class Relist:
    """Lists one resource."""

    def __init__(
        self,
        resource: Resource,
        client: KubeClient,
        namespace: str | None,
        normaliser: Normaliser,
        outlet: Outlet,
        heads: Heads,
        gaps: Gaps,
    ) -> None:
        self._resource = resource
        self._client = client
        self._namespace = namespace
        self._normaliser = normaliser
        self._outlet = outlet
        self._heads = heads
        self._gaps = gaps
        self._below: int | None = None
        """The resourceVersion of a list that lay below what was seen: a second one that agrees means a restore."""
        self.page_limit = PAGE_LIMIT

    async def run(self) -> int:
        """Puts what differs; returns the list's resourceVersion. Raises ApiError, BadLine, NoProof: try anew."""
        for left in reversed(range(LIST_TRIES)):
            try:
                return await self._run()
            except Gone:
                if not left:
                    raise
        raise AssertionError("unreachable")

    async def _run(self) -> int:
        seen: set[str] = set()
        resource_version = 0
        was_restored = False
        async for page in pages(
            self._client,
            self._resource,
            self._namespace,
            label_selector=self._resource.label_selector,
            page_limit=self.page_limit,
        ):
            if not resource_version:
                resource_version = int(page.metadata.resource_version)
                was_restored = await self._check_age(resource_version)
            for raw in page.items or ():
                uid = await self._observe(raw, was_restored)
                seen.add(uid)
        if not self._resource.is_evidence:
            await self._settle_absent(self._heads.missing(seen), resource_version, self._resource.label_selector)
        self._heads.note(resource_version)
        return resource_version

    async def _observe(self, raw: RawObject, was_restored: bool) -> str:
        seen = self._normaliser.observation(
            self._resource,
            Op.SYNC_ADDED if identity_of(raw) not in self._heads else Op.SYNC_MODIFIED,
            raw,
            self._outlet.stamp.now(),
        )
        if self._resource.is_evidence:
            await self._outlet.notice(seen)
        else:
            await self._outlet.observe(seen, after_restore=was_restored)
        return seen.uid

    async def _check_age(self, resource_version: int) -> bool:
        """True when the cluster was set back: two consistent lists lie below what was seen. At the first: NoProof."""
        highest = self._heads.highest
        if self._resource.is_evidence or resource_version >= highest:
            self._below = None
            return False
        if self._below is None:
            self._below = resource_version
            raise NoProof(f"a list of {self._resource.name} at {resource_version}, below {highest}: once more")
        self._below = None
        log.warning("cluster was set back", resource=self._resource.name, seen=highest, now=resource_version)
        await self._gaps.open([self._resource.name], GapReason.CLUSTER_RESTORED, None)
        self._heads.clear_highest(resource_version)
        return True

    async def _settle_absent(self, missing: list[Head], resource_version: int, selector: str | None) -> None:
        if len(missing) * 10 > len(self._heads):
            missing = await self._confirmed(missing, selector)
        if not missing:
            return
        there = await present(self._client, self._resource, missing, self._heads.highest)
        for head in missing:
            raw = there.get(head.uid)
            if raw is not None:
                now = self._outlet.stamp.now()
                await self._outlet.observe(self._normaliser.observation(self._resource, Op.SYNC_MODIFIED, raw, now))
                continue
            await self._outlet.observe(
                lost(
                    self._resource,
                    (head.namespace, head.name, head.uid),
                    Owner(head.job_uid, head.job_name),
                    max(resource_version, head.resource_version + 1),
                    self._outlet.stamp.now(),
                )
            )

    async def _confirmed(self, missing: list[Head], selector: str | None) -> list[Head]:
        """Those that a second list lacks as well (over a tenth of what is known would vanish)."""
        seen: set[str] = set()
        async for page in pages(
            self._client, self._resource, self._namespace, label_selector=selector, accept=METADATA_ONLY
        ):
            if int(page.metadata.resource_version) < self._heads.highest:
                raise NoProof(f"the second list of {self._resource.name} is older than what was seen")
            seen.update(identity_of(raw) for raw in page.items or ())
        back = [head for head in missing if head.uid in seen]
        if back:
            raise NoProof(f"two lists of {self._resource.name} disagree about {len(back)} objects")
        return missing
