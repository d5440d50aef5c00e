"""One simulated world: the controller's real loops over the local API server and a log in memory, in virtual time.

In: a seed. Out: what happened: every object version, the log, faults by kind. The same seed is the same world.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.errors import TfjobError
from controller.local.apiserver.collector import Collector
from controller.local.apiserver.http import Handlers
from controller.local.apiserver.revisions import Change
from controller.local.apiserver.store import Store
from controller.local.manifests import crd_manifest
from controller.model.settings import PolicySettings
from controller.run.supervise import Supervisor
from controller.scenario.site import LINGER_FINALIZER, Site
from controller.scenario.world import Held
from controller.scenario.world import World as SeenWorld
from controller.settings import Settings
from controller.watch import Pace
from tests.sim.faults import Faults
from tests.sim.loop import run
from tests.sim.memory_client import MemoryClient
from tests.sim.memory_log import Disk, MemoryLog
from tests.sim.people import NAMESPACE, People

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LIVELY_SECONDS = 150.0
"""How long people are busy and things go wrong."""
REST_SECONDS = 3600.0
"""How long the world may then take to come to rest: waits of up to 300 s are among it."""
STILL_SECONDS = 400.0
"""So long without a write of the controller is rest: longer than the longest wait between tries."""


@dataclass(frozen=True)
class Plan:
    """How lively a world is. `crash_at` is (number of a write, before or after it): the controller dies there once."""

    seed: int
    jobs: int = 3
    fault_rate: float = 1.0
    crash_mean_seconds: float | None = 40.0
    second_leaders: bool = True
    crash_at: tuple[int, str] | None = None


@dataclass
class Record:
    """What was seen from outside."""

    plan: Plan
    disk: Disk
    faults: Faults
    changes: list[Change] = field(default_factory=list)
    changed_at: list[float] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    writes: list[tuple[float, str]] = field(default_factory=list)
    deaths: list[BaseException] = field(default_factory=list)
    is_at_rest: bool = False


class VirtualClock:
    """The controller's clock, in the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> int:
        return int(BEGIN.timestamp() * 1_000_000) + int(self._loop.time() * 1_000_000)

    def monotonic(self) -> float:
        return self._loop.time()


class MemorySite(Site):
    """Looks into the store itself: the simulated people look often."""

    def __init__(self, store: Store, client: MemoryClient, clock: Callable[[], int]) -> None:
        super().__init__(client, [NAMESPACE], "", clock)
        self._store = store

    async def look(self) -> SeenWorld:
        world = SeenWorld(PolicySettings(), self._now(), jobs=self.jobs)
        for kind, plural in (("TFJob", "tfjobs.kubeflow.org"), ("Pod", "pods"), ("Service", "services")):
            for body in self._store.list(plural, NAMESPACE):
                held = Held(kind, body, int(body["metadata"]["resourceVersion"]))
                held.lingers = LINGER_FINALIZER in (body["metadata"].get("finalizers") or ())
                world.objects[kind, NAMESPACE, body["metadata"]["name"]] = held
        return world


class World:
    """The parts together."""

    def __init__(self, plan: Plan) -> None:
        self.luck = random.Random(plan.seed)
        self.record = Record(plan, Disk(), Faults(random.Random(self.luck.random()), plan.fault_rate))
        self._loop = asyncio.get_running_loop()
        self._clock = VirtualClock(self._loop)
        numbers = itertools.count(1)
        self.store = Store(
            clock=lambda: BEGIN + timedelta(seconds=self._loop.time()),
            uid_source=lambda: f"uid-{next(numbers):05d}",
            window=400,
        )
        self.store.create("customresourcedefinitions.apiextensions.k8s.io", crd_manifest())
        self.store.subscribe(self._note)
        self._handlers = Handlers(self.store, bookmark_interval_seconds=20.0, token=None)
        site = MemorySite(self.store, MemoryClient(self._handlers), self._clock.now)
        self.site = site
        self.people = People(site, random.Random(self.luck.random()), plan.jobs)
        self._lives: list[asyncio.Task[None]] = []
        self._crash_now = asyncio.Event()

    def _note(self, change: Change) -> None:
        self.record.changes.append(change)
        self.record.changed_at.append(self._loop.time())

    async def play(self) -> Record:
        """Lives through the lively time, lets it come to rest, and gives what was seen."""
        plan, record = self.record.plan, self.record
        await self.site.begin()
        collecting = asyncio.create_task(Collector(self.store).run())
        nodes = asyncio.create_task(self.people.keep_nodes())
        user = asyncio.create_task(self.people.use())
        self._begin()
        crashing = asyncio.create_task(self._crash_again_and_again())
        await asyncio.sleep(LIVELY_SECONDS)
        record.faults.stop()
        self.people.come_to_rest()
        crashing.cancel()
        user.cancel()
        await asyncio.gather(crashing, user, return_exceptions=True)
        if plan.crash_at is None:
            await self._crash()
            self._begin()
        await self.people.resume_all()
        end = self._loop.time() + REST_SECONDS
        while self._loop.time() < end and not record.is_at_rest:
            await asyncio.sleep(20.0)
            self._bury()
            last = max([at for at, _ in record.writes] + [LIVELY_SECONDS])
            record.is_at_rest = self._loop.time() - last > STILL_SECONDS
        nodes.cancel()
        collecting.cancel()
        await self._crash()
        await asyncio.gather(nodes, collecting, return_exceptions=True)
        record.objects = [
            held.body for kind in ("TFJob", "Pod", "Service") for held in (await self.site.look()).of_kind(kind)
        ]
        return record

    def _begin(self) -> None:
        client = MemoryClient(self._handlers, self.record.faults, self._on_write)
        log: Any = MemoryLog(self.record.disk, self.record.faults.before_commit, self.record.faults.after_commit)
        pace = Pace(luck=random.Random(self.luck.random()).random, monotonic=self._loop.time)
        settings = Settings(database_url="postgresql://memory", namespace=NAMESPACE)
        supervisor = Supervisor(settings, client, log, self._clock, f"life-{len(self._lives)}", pace=pace)
        life = asyncio.create_task(supervisor.run(asyncio.Event()))
        life.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._lives.append(life)

    def _on_write(self, when: str, request: str) -> None:
        record = self.record
        if when == "before":
            record.writes.append((self._loop.time(), request))
        if record.plan.crash_at == (len(record.writes), when):
            self._crash_now.set()
            # It dies here: whatever it was about to do next is not done.
            raise asyncio.CancelledError

    async def _crash_again_and_again(self) -> None:
        plan, luck = self.record.plan, self.luck
        while True:
            if plan.crash_at is not None:
                await self._crash_now.wait()
                self._crash_now.clear()
            elif plan.crash_mean_seconds is None:
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(luck.expovariate(1 / plan.crash_mean_seconds))
            if plan.second_leaders and plan.crash_at is None and luck.random() < 0.3:
                self.record.faults.note("second leader")
                self._begin()
                await asyncio.sleep(luck.uniform(0.0, 10.0))
                continue
            self.record.faults.note("crash")
            await self._crash()
            await asyncio.sleep(luck.choice([0.0, 0.0, 1.0, 30.0]))
            self._begin()

    async def _crash(self) -> None:
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        lives, self._lives = self._lives, []
        self._bury_all(lives)

    def _bury(self) -> None:
        """A life that another has fenced ends by itself; one that died of anything else is a bug."""
        self._bury_all(self._lives)
        if self._lives and all(life.done() for life in self._lives):
            self._lives.clear()
            self._begin()

    def _bury_all(self, lives: list[asyncio.Task[None]]) -> None:
        for life in lives:
            if life.done() and not life.cancelled() and (error := life.exception()) is not None:
                self.record.deaths += [each for each in _leaves(error) if not isinstance(each, TfjobError)]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def played(plan: Plan) -> Record:
    """One world from its beginning to its end."""
    before = random.getstate()
    random.seed(plan.seed)

    async def main() -> Record:
        return await World(plan).play()

    try:
        return run(main())
    finally:
        random.setstate(before)
