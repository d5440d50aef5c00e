"""The spine under faults, on the real API server: the same end, nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import asyncpg

from tests.cluster.harness import Api, ControllerProcess, Kubelet, SecondWatch, running, until
from tests.cluster.test_spine import SLOTS, Seed, logged_versions
from tests.controlplane.server import ControlPlane


async def cut_sessions(database_url: str) -> int:
    """Ends every session on the database but ours; how many there were."""
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        rows = await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(rows)
    finally:
        await connection.close()


def created_once(kubelet: Kubelet, seed: Seed) -> bool:
    return {name: len(uids) for name, uids in kubelet.created.items()} == {f"{seed.name}-{s}": 1 for s in SLOTS}


async def test_sessions_that_postgres_ends_again_and_again(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, second_watch: SecondWatch, real_namespace: str,
    database_url: str, tmp_path: Path,
) -> None:  # fmt: skip
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        playing = asyncio.create_task(seed.play(kubelet))
        cut = 0
        while not playing.done():
            cut += await cut_sessions(database_url)
            await asyncio.wait([playing], timeout=0.5)
        await playing
        assert cut > 0

        async def all_logged() -> bool:
            return set(second_watch.seen) <= set(await logged_versions(database_url))

        await until(all_logged, "every version that the watch saw is in the log")
        assert await controller.terminate() == 0
    logged = await logged_versions(database_url)
    assert len(logged) == len(set(logged))
    assert created_once(kubelet, seed)


async def test_a_restart_of_the_api_server_in_mid_run(
    control_plane: ControlPlane, api: Api, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        await until(lambda: seed.is_in("Created"), "the job is Created")
        await control_plane.kill("kube-apiserver", signal.SIGKILL)
        await control_plane.start_apiserver()
        kubelet = Kubelet(api, real_namespace)
        await kubelet.start()
        await seed.play(kubelet)
        await kubelet.stop()
        assert await controller.terminate() == 0
    created = [each for each in await logged_versions(database_url) if each[0] == "Pod"]
    assert len({uid for _, uid, _ in created}) == len(SLOTS)


async def test_what_happens_while_the_controller_is_down_and_the_server_forgets(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        await until(lambda: len(kubelet.pods) == len(SLOTS), "all seven pods are there")
        for slot in SLOTS:
            await kubelet.report(f"{seed.name}-{slot}", "Running")
        await until(lambda: seed.is_in("Running"), "the job is Running")
        await controller.kill()
        await kubelet.report(f"{seed.name}-chief-0", "Succeeded", 0)
        await kubelet.stop()
        await control_plane.compact()
        await kubelet.start()
        await controller.start()
        await until(lambda: seed.is_in("Succeeded"), "the job is Succeeded")
        await until(seed.is_clean, "its pods and services are gone")
        assert await controller.terminate() == 0
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    gaps = await connection.fetch("SELECT body->>'reason' AS reason FROM events WHERE op = 'GAP' ORDER BY position")
    await connection.close()
    assert [row["reason"] for row in gaps][-1] == "Expired"
    assert created_once(kubelet, seed)


async def test_a_job_that_is_deleted_in_the_middle_leaves_nothing(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        for _ in range(2):
            await seed.submit()
            await until(lambda: len(kubelet.pods) == len(SLOTS), "all seven pods are there")
            await kubelet.report(f"{seed.name}-chief-0", "Running")
            await api.call("DELETE", seed.path)
            await until(seed.is_clean, "its pods and services are gone")
            await until(lambda: not kubelet.pods, "the kubelet has seen them go")
        assert await controller.terminate() == 0
    assert {len(uids) for uids in kubelet.created.values()} == {2}
