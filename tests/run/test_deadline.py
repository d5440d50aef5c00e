"""A deadline falls due while the pods' watch lags: the look in front of it brings an end that came before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from controller.kube import KubeClient, Unreachable
from controller.kube.credentials import credentials_of
from controller.model.events import Timer, TimerKind
from controller.run.fire import Firing
from controller.run.timers import Timers
from tests.cluster.harness import until
from tests.run.test_requests import job_of, report
from tests.run.world import TFJOBS, world_of


class LaggingAnswer:
    """A watch's answer as far as a reflector reads it; it says nothing more once it `lags`, until it is closed."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.content = self
        self.lags = asyncio.Event()
        self._answer = answer
        self._is_closed = asyncio.Event()

    def close(self) -> None:
        self._answer.close()
        self._is_closed.set()

    async def readany(self) -> bytes:
        chunk = await self._answer.content.readany()
        if self.lags.is_set():
            await self._is_closed.wait()
            raise Unreachable("closed", was_sent=True)
        return chunk


class LaggingClient(KubeClient):
    """Its watches of pods can fall silent, and nobody can tell: the connection stays."""

    pod_watches: list[LaggingAnswer]

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[Any]:
        async with super().stream(path, **options) as answer:
            if not path.endswith("/pods"):
                yield answer
                return
            self.pod_watches.append(LaggingAnswer(answer))
            yield self.pod_watches[-1]


async def test_an_end_before_the_deadline_wins_although_the_watch_did_not_show_it(
    database_url: str, tmp_path: Path
) -> None:
    async with world_of(database_url, tmp_path) as world:
        credentials = await credentials_of(tmp_path / "kubeconfig", None, None)
        async with LaggingClient(credentials, (await credentials.access()).base_url) as client:
            client.pod_watches = []
            world.controller_client = client
            world.start()
            job = job_of("a", Worker=1)
            job["spec"]["runPolicy"]["activeDeadlineSeconds"] = 4
            await world.send("POST", TFJOBS, job)
            await until(lambda: world.has_pods("a-worker-0"), "the pod")
            await report(world, "a-worker-0", "Running")
            await until(lambda: world.is_in("a", "Running"), "the job runs")
            client.pod_watches[-1].lags.set()
            await report(world, "a-worker-0", "Succeeded", 0)
            await until(lambda: world.is_in("a", "Succeeded"), "the end that the look brought")
            timers = await world.fetch("SELECT position FROM events WHERE op = 'TIMER' AND body::text LIKE '%eadline%'")
            ends = await world.fetch(
                "SELECT position FROM events WHERE op = 'MODIFIED' AND kind = 'Pod' AND body::text LIKE '%Succeeded%'"
            )
            assert len(client.pod_watches) == 2 and ends[0] < min([*timers, ends[0] + 1])
            assert await world.fetch("SELECT count(*) FROM events WHERE op = 'GAP'") == [1], "nothing was lost"
            await world.stop()


class Played:
    """A firing whose looks wait until they are let go."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, TimerKind]] = []
        self.looks: list[tuple[str, str]] = []
        self.may_look = asyncio.Event()
        self.fails = 0
        self.connected = True
        self.timers = Timers(may_fire=lambda: self.connected)
        self.firing = Firing(
            self.timers,
            is_connected=lambda: self.connected,
            look=self.look,
            place_of=lambda uid: ("n", uid),
            note=lambda uid, timer: self.noted.append((uid, timer.timer)),
        )

    async def look(self, namespace: str, name: str) -> None:
        self.looks.append((namespace, name))
        await self.may_look.wait()


async def test_a_list_that_takes_its_time_holds_up_its_own_job_only() -> None:
    played = Played()
    played.timers.set("a", (Timer(1, TimerKind.DEADLINE), Timer(3, TimerKind.ACTION_RETRY)))
    played.timers.set("b", (Timer(2, TimerKind.TTL),))
    played.firing.run_once(2)
    await until(lambda: played.looks == [("n", "a")], "the look at a")
    played.firing.run_once(3)
    assert played.noted == [("b", TimerKind.TTL)]
    played.may_look.set()
    await until(lambda: len(played.noted) == 3, "the timers of a")
    assert played.noted[1:] == [("a", TimerKind.DEADLINE), ("a", TimerKind.ACTION_RETRY)]


async def test_a_list_while_the_watch_is_cut_is_made_again() -> None:
    played = Played()
    played.timers.set("a", (Timer(1, TimerKind.DEADLINE),))
    played.firing.run_once(1)
    await until(lambda: len(played.looks) == 1, "the look at a")
    played.connected = False
    played.may_look.set()
    await until(lambda: len(played.looks) >= 2, "another look")
    assert played.noted == []
    played.connected = True
    await until(lambda: played.noted == [("a", TimerKind.DEADLINE)], "the deadline")
