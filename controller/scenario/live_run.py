"""Scenario files on an API server: each with a controller and a log of its own, several at a time.

In: files, where to play them, a database. Out: one `FileResult` a file. Never: two scenarios that see each other.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

from controller.kube import connect
from controller.log import EventLog
from controller.model.instants import SECOND
from controller.model.settings import CleanPodPolicy, GangScheduler
from controller.scenario.between import ScriptedClient
from controller.scenario.follower import Follower
from controller.scenario.life import Life
from controller.scenario.live import LivePlayer
from controller.scenario.model import Scenario
from controller.scenario.parse import DEFAULT_NAMESPACE, Malformed, microseconds_of, parse_file
from controller.scenario.report import FileResult, Recorder, left_out
from controller.scenario.site import Site
from controller.settings import Settings

Json = dict[str, Any]


class Place(NamedTuple):
    """An API server to play on. A shared one has users beside the scenario: its namespaces are made and removed."""

    kubeconfig: Path | None
    context: str | None
    is_shared: bool


class LiveRun(NamedTuple):
    """How files are played. `way` is `local` or `cluster`; `place` gives the API server of one file."""

    way: str
    place: Callable[[], AbstractAsyncContextManager[Place]]
    database_url: str
    max_wait_seconds: float
    is_verbose: bool = False

    async def play_all(self, files: Sequence[Path], at_once: int) -> AsyncIterator[FileResult | Malformed]:
        """Plays the files, so many at once; their results in the files' order."""
        room = asyncio.Semaphore(at_once)

        async def played(file: Path) -> FileResult | Malformed:
            async with room:
                try:
                    return await self.play(file)
                except Malformed as error:
                    return error

        playing = [asyncio.create_task(played(file)) for file in files]
        try:
            for each in playing:
                yield await each
        finally:
            for each in playing:
                each.cancel()
            await asyncio.gather(*playing, return_exceptions=True)

    async def play(self, file: Path) -> FileResult:
        """Plays one file. Raises Malformed for what is no scenario, or a step that cannot be."""
        scenario = parse_file(file)
        why = self._why_left_out(scenario)
        if why:
            return left_out(file, scenario, why)
        async with self.place() as place:
            return await self._play_at(place, file, scenario)

    async def _play_at(self, place: Place, file: Path, scenario: Scenario) -> FileResult:
        token = secrets.token_hex(4)
        cluster, suffix = f"scenario-{token}", f"-{token}" if place.is_shared else ""
        namespaces = sorted(namespaces_of(scenario))
        log = await EventLog.open(self.database_url, cluster=cluster)
        user = await connect(place.kubeconfig, place.context)
        client = await ScriptedClient.to(place.kubeconfig, place.context)
        site = Site(user, namespaces, suffix)
        settings = Settings(
            database_url=self.database_url,
            cluster=cluster,
            namespace=site.real(namespaces[0]) if place.is_shared else None,
            **_converted(scenario.settings),
        )
        life = Life(settings, client)
        player = LivePlayer(scenario, site, life, Follower(log))
        recorder = Recorder(file, scenario, player, is_verbose=self.is_verbose)
        fault = None
        try:
            await site.begin()
            await player.run(recorder.on_expect, recorder.on_step)
        except Exception as error:
            fault = error
        finally:
            await life.crash()
            if place.is_shared:
                await site.end()
            await client.close()
            await user.close()
            await log.close()
        return recorder.result(fault)

    def _why_left_out(self, scenario: Scenario) -> str:
        if not scenario.is_for(self.way):
            return f"only for {', '.join(scenario.only)}"
        waits = [step.value for step in scenario.all_steps() if step.verb == "after"]
        longest = max(waits, key=microseconds_of, default="0s")
        if microseconds_of(longest) > self.max_wait_seconds * SECOND:
            return f"waits {longest}; --max-wait is {self.max_wait_seconds:g} s"
        if self.way == "cluster" and len(namespaces_of(scenario)) > 1:
            return "its objects are in several namespaces, and a controller for all would take up everybody's jobs"
        return ""


def namespaces_of(scenario: Scenario) -> set[str]:
    """The namespaces that a scenario's objects are in."""
    found = {_namespace_of(scenario.job)}
    for step in scenario.all_steps():
        if step.verb == "create_job" and step.value != "same":
            found.add(_namespace_of(step.value))
        elif step.verb == "submit":
            found.add(_namespace_of(step.value["job"]))
        elif step.verb == "foreign" and "namespace" in step.value:
            found.add(step.value["namespace"])
    return found


def _namespace_of(manifest: Json) -> str:
    return str((manifest.get("metadata") or {}).get("namespace", DEFAULT_NAMESPACE))


def _converted(settings: Json) -> Json:
    """A scenario's settings as `Settings` takes them."""
    kinds = {"default_clean_pod_policy": CleanPodPolicy, "gang_scheduler": GangScheduler}
    return {key: kinds[key](value) if key in kinds else value for key, value in settings.items()}
