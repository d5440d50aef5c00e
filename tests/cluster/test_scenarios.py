"""Given scenarios on the real API server: a spread of them in every run, all that need no long wait in `make soak`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from controller.cli.playing import ClusterPlaces
from controller.scenario import FileResult, LiveRun
from tests.cluster.harness import ROOT, Api, until
from tests.controlplane.server import ControlPlane
from tests.scenarios.live import FILES, MAX_WAIT_SECONDS, play, problems_of

EVERY = 3
"""One of so many, in the order of their names: all origins have several files."""
AT_LEAST = 60


async def differences(control_plane: ControlPlane, database_url: str, files: list[Path], at_least: int) -> list[str]:
    """What did not hold; at least so many must have been played."""
    places = ClusterPlaces(control_plane.kubeconfig, None)
    results = await play(LiveRun("cluster", places.place, database_url, MAX_WAIT_SECONDS), files)
    played: dict[str, FileResult] = {name: each for name, each in results.items() if each.left_out is None}
    assert len(played) >= at_least
    return [f"{name}: {problem}" for name, each in played.items() for problem in problems_of(each)]


@pytest.mark.timeout(600)
async def test_a_spread_holds_on_the_real_api_server(control_plane: ControlPlane, api: Api, database_url: str) -> None:
    assert await differences(control_plane, database_url, FILES[::EVERY], AT_LEAST) == []


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_all_hold_on_the_real_api_server(control_plane: ControlPlane, api: Api, database_url: str) -> None:
    assert await differences(control_plane, database_url, FILES, 240) == []


async def test_the_command_plays_on_the_cluster_of_the_kubeconfig(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    """Whatever it made is gone afterwards."""
    before = await namespaces(api)
    command = [sys.executable, "-m", "controller", "simulate", "--cluster", "--kubeconfig", control_plane.kubeconfig]
    process = await asyncio.create_subprocess_exec(
        *map(str, [*command, FILES[0]]), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert said.decode().splitlines()[-1] == "1 held, 0 differed, 0 malformed"

    async def is_as_before() -> bool:
        return await namespaces(api) <= before

    await until(is_as_before, "the scenario's namespace is gone")


async def namespaces(api: Api) -> set[str]:
    """Their names, those of other tests left out."""
    found = await api.call("GET", "/api/v1/namespaces")
    return {each["metadata"]["name"] for each in found["items"] if each["metadata"]["name"].startswith("team-")}
