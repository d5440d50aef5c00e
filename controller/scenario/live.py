"""The live player: a scenario's steps against an API server and a whole controller, in real time.

In: a scenario, its part of an API server, a controller of the runner's own, its log. Out: what each `expect` gave.
Never: a rule; between two steps it waits until the API server and the log tell the same and nothing is asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from controller.model.instants import SECOND
from controller.model.names import object_name
from controller.model.settings import PolicySettings
from controller.scenario.choose import foreign_body, job_needed, manifest_needed, pods_needed, reports_of
from controller.scenario.follower import Follower
from controller.scenario.life import Life
from controller.scenario.model import Scenario, Step, WrongStep
from controller.scenario.parse import microseconds_of, report_of, with_defaults
from controller.scenario.seen import Seen
from controller.scenario.site import Site, now
from controller.scenario.which import slots_of, slots_wanted
from controller.scenario.world import World

POLL_SECONDS = 0.02
REST_SECONDS = 60.0
"""A controller that has not come to rest by then does not; a loaded machine needs some of it."""
OTHER_NAME = "another-job"

OnStep = Callable[[Step], None]


class LivePlayer(Seen):
    """Plays one scenario: `run` plays its steps; between them it answers what `compare` asks."""

    def __init__(self, scenario: Scenario, site: Site, life: Life, follower: Follower) -> None:
        super().__init__(scenario)
        self._site = site
        self._life = life
        self._follower = follower
        self._is_cut = False
        self._leaders_due = 0
        self._synced_due = 0
        self._linger_next: set[str] = set()
        self._said: list[str] = []
        self.history = follower.history
        self.world = World(PolicySettings(), now())

    def admission(self, manifest: Any) -> list[str]:
        """What the API server said to the manifest that was sent last."""
        return self._said

    async def run(self, on_expect: OnStep, on_step: OnStep) -> None:
        """Plays all steps; `on_expect` is called at each `expect` and `submit`, `on_step` after every other one.

        Raises WrongStep (a mistake of the file, with its place), AssertionError (the controller does not come to rest)
        and ApiError (the API server refused what the step does).
        """
        self._begin(synced=1)
        await self._settle()
        if self.begins_with_job:
            await self._create(self.manifest)
            await self._settle()
        for step in self.scenario.steps:
            await self._play(step, on_expect, on_step)

    async def _play(self, step: Step, on_expect: OnStep, on_step: OnStep) -> None:
        if step.verb in ("expect", "submit"):
            await self._prepare(step)
            on_expect(step)
            return
        try:
            if step.verb == "gap":
                await self._play_gap(step, on_expect, on_step)
            else:
                await self._do(step.verb, step.value)
            await self._settle()
        except WrongStep as wrong:
            if not wrong.path:
                wrong.path = f"{step.path}.{step.verb}"
            raise
        on_step(step)

    async def _prepare(self, step: Step) -> None:
        """Asks the API server for what only this step wants to know."""
        if step.verb == "submit":
            self._said = await self._site.submit(step.value["job"])
        elif "events" in step.value:
            self.world.notices = await self._site.notices(self.namespace, self.name)

    async def _play_gap(self, step: Step, on_expect: OnStep, on_step: OnStep) -> None:
        """The watch is cut while the inner steps happen; within an outage or another gap it is cut already."""
        is_cut_here = not self._is_cut
        if is_cut_here:
            await self._life.client.cut()
            self._is_cut = True
        for inner in step.value:
            await self._play(inner, on_expect, on_step)
        if is_cut_here:
            self._mend()

    def _begin(self, synced: int = 0) -> None:
        self._life.begin()
        self._leaders_due += 1
        self._synced_due += synced

    def _mend(self) -> None:
        self._synced_due = self._follower.synced_count + 1
        self._life.client.mend()
        self._is_cut = False

    async def _do(self, verb: str, value: Any) -> None:
        match verb:
            case "pods":
                await self._pods(value)
            case "delete":
                for held in pods_needed(self, value):
                    await self._site.delete_pod(held)
            case "gone":
                for held in pods_needed(self, value):
                    await self._site.vanish(held)
            case "linger":
                await self._linger(value)
            case "after":
                await asyncio.sleep(microseconds_of(value) / SECOND)
            case "edit":
                await self._site.edit_job(job_needed(self), value)
            case "delete_job":
                self.world.last_status = job_needed(self).body.get("status")
                await self._site.delete_job(job_needed(self))
            case "create_job":
                await self._create(manifest_needed(self) if value == "same" else with_defaults(value))
            case "restart":
                await self._life.crash()
                self._begin()
            case "stop":
                await self._life.crash()
                self._is_cut = True
            case "start":
                await self._life.crash()
                self._mend()
                self._begin()
            case "refuse":
                self._life.client.refusals = dict(value)
            case "foreign":
                await self._foreign(value)
            case _:
                raise AssertionError(verb)

    async def _create(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        self.name, self.namespace = metadata["name"], metadata["namespace"]
        if self.job() is not None:
            raise WrongStep(f"there is a TFJob {self.name} already")
        self._said = await self._site.create_job(manifest)

    async def _pods(self, reports: dict[str, Any]) -> None:
        """Reports come one after another; the controller answers an end before the next report. Pods that it deletes
        are gone after the step: all have a node before the first report, so that none goes at once."""
        chosen = list(reports_of(self, reports))
        for held, report in chosen:
            if report.is_bound:
                await self._site.bind(held)
            if held.has_ended and report.phase != held.phase:
                raise WrongStep(f"pod {held.metadata['name']} has ended {held.phase} and cannot become {report.phase}")
        for held, report in chosen:
            current = self.world.find("Pod", held.metadata["namespace"], held.metadata["name"])
            await self._site.report(current or held, report)
            if report.phase in ("Succeeded", "Failed") or report.main is not None:
                await self._settle(holds_deleted=True)

    async def _linger(self, which: str) -> None:
        own = self.own()
        known = own.slots_with_pods() | slots_wanted(self.job_body() or self.manifest)
        for slot in slots_of(which, known):
            held = own.newest_pod(slot)
            if held is None:
                self._linger_next.add(object_name(self.name, slot))
            else:
                await self._site.linger(held)

    async def _foreign(self, what: dict[str, Any]) -> None:
        kind, namespace = what["kind"], what.get("namespace", self.namespace)
        if self.world.find(kind, namespace, what["name"]) is not None:
            raise WrongStep(f"there is a {kind} {what['name']} already")
        other = await self._site.another_job(namespace, OTHER_NAME) if what.get("owner") == "other" else ""
        await self._site.create_foreign(kind, foreign_body(self, what, other, OTHER_NAME))
        await self._settle()
        held = self.world.find(kind, namespace, what["name"])
        if "state" in what and kind == "Pod" and held is not None and what["state"] != "Pending":
            await self._site.report(held, report_of(what["state"]))

    async def _settle(self, *, holds_deleted: bool = False) -> None:
        """Waits until the API server's objects and the log's are the same and nothing is asked for; while nobody
        watches, until the API server is through with what it does itself."""
        end = time.monotonic() + REST_SECONDS
        while True:
            self._life.check()
            await self._follower.catch_up()
            unrest = "" if self._is_cut else self._unrest()
            world = await self._site.look()
            has_acted = await self._site.tend(world, self._linger_next, holds_deleted=holds_deleted)
            unrest = unrest or self._site.uncollected(world, holds_deleted=holds_deleted)
            if not self._is_cut:
                unrest = unrest or self._follower.lag(self._site.versions(world))
            if not unrest and not has_acted:
                break
            if time.monotonic() > end:
                raise AssertionError(f"not at rest after {REST_SECONDS:.0f} s: {unrest or 'pods go on being deleted'}")
            await asyncio.sleep(POLL_SECONDS)
        self._renew(world)

    def _unrest(self) -> str:
        if self._follower.leader_count < self._leaders_due or self._follower.synced_count < self._synced_due:
            return "the controller has not read everything yet"
        return self._follower.unrest(now())

    def _renew(self, world: World) -> None:
        before = self.job()
        world.last_status = (before.body.get("status") if before else None) or self.world.last_status
        world.notices = self.world.notices
        self.world = world
