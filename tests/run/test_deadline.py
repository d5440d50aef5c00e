"""A deadline falls due while the pods' watch lags: the list in front of it shows an end that came before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from controller.kube import KubeClient
from controller.kube.credentials import credentials_of
from controller.model.events import Timer, TimerKind
from controller.run.fire import Firing
from controller.run.timers import Timers
from tests.cluster.harness import until
from tests.run.test_requests import job_of, report
from tests.run.world import TFJOBS, world_of


class LaggingAnswer:
    """A watch's answer as far as a reflector reads it; it says nothing more once its client `lags`."""

    def __init__(self, answer: aiohttp.ClientResponse, client: LaggingClient) -> None:
        self.content = self
        self.close = answer.close
        self._read = answer.content.readany
        self._client = client

    async def readany(self) -> bytes:
        chunk = await self._read()
        if self._client.lags:
            await asyncio.Event().wait()
        return chunk


class LaggingClient(KubeClient):
    """The watch of pods falls silent when told, and nobody can tell: its connection stays."""

    lags = False

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[Any]:
        async with super().stream(path, **options) as answer:
            yield LaggingAnswer(answer, self) if path.endswith("/pods") else answer


async def test_an_end_before_the_deadline_wins_although_the_watch_did_not_show_it(
    database_url: str, tmp_path: Path
) -> None:
    async with world_of(database_url, tmp_path) as world:
        credentials = await credentials_of(tmp_path / "kubeconfig", None, None)
        async with LaggingClient(credentials, (await credentials.access()).base_url) as client:
            world.controller_client = client
            world.start()
            job = job_of("a", Worker=1)
            job["spec"]["runPolicy"]["activeDeadlineSeconds"] = 4
            await world.send("POST", TFJOBS, job)
            await until(lambda: world.has_pods("a-worker-0"), "the pod")
            await report(world, "a-worker-0", "Running")
            await until(lambda: world.is_in("a", "Running"), "the job runs")
            client.lags = True
            await report(world, "a-worker-0", "Succeeded", 0)
            await until(lambda: world.is_in("a", "Succeeded"), "the end that the list showed")
            timers = await world.fetch("SELECT position FROM events WHERE op = 'TIMER' AND body::text LIKE '%eadline%'")
            listed = await world.fetch("SELECT position FROM events WHERE op = 'SYNC_MODIFIED' AND kind = 'Pod'")
            assert len(timers) == 1 and min(listed) < timers[0]
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
