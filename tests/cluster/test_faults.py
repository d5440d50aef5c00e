"""The spine under faults, on the real API server: the same end, nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import asyncpg

from tests.cluster.harness import (
    CORE,
    TFJOBS,
    Api,
    ControllerProcess,
    Kubelet,
    SecondWatch,
    install_crd,
    running,
    until,
)
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


async def test_sigterm_and_a_pause_in_mid_run_change_nothing(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, second_watch: SecondWatch, real_namespace: str,
    database_url: str, tmp_path: Path,
) -> None:  # fmt: skip
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        playing = asyncio.create_task(seed.play(kubelet))
        for lives in (2, 3):
            assert await controller.terminate() == 0
            assert "Traceback" not in controller.said()
            await controller.start()
            await until(lambda n=lives: controller.said().count("leading") == n, "it leads again")  # type: ignore[misc]
        assert controller.process is not None
        controller.process.send_signal(signal.SIGSTOP)
        await asyncio.wait([playing], timeout=2.0)
        controller.process.send_signal(signal.SIGCONT)
        await playing

        async def all_logged() -> bool:
            return set(second_watch.seen) <= set(await logged_versions(database_url))

        await until(all_logged, "every version that the watch saw is in the log")
        assert await controller.terminate() == 0
    logged = await logged_versions(database_url)
    assert len(logged) == len(set(logged))
    assert created_once(kubelet, seed)


async def test_a_crd_that_comes_after_the_controller(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    await api.call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org")

    async def is_gone() -> bool:
        return await api.status_of("GET", f"{TFJOBS}/tfjobs") == 404

    await until(is_gone, "the CRD is gone")
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    try:
        async with running(controller):
            await until(lambda: "404" in controller.said() or "not found" in controller.said(), "it says what lacks")
            await install_crd(api)
            await seed.submit()
            await seed.play(kubelet)
            assert await controller.terminate() == 0
    finally:
        await install_crd(api)
    assert created_once(kubelet, seed)


async def test_pods_that_a_quota_refuses_come_when_there_is_room(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    quotas = f"{CORE}/namespaces/{real_namespace}/resourcequotas"
    hard = {"hard": {"pods": "3"}}
    await api.call("POST", quotas, {"metadata": {"name": "few"}, "spec": hard})
    # The controller that counts is not running here; admission counts on from what it would have written.
    counted = {"status": {**hard, "used": {"pods": "0"}}}
    await api.call("PATCH", f"{quotas}/few/status", counted, "application/merge-patch+json")

    async def is_in_force() -> bool:
        pod = {"metadata": {"generateName": "probe-"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        path = f"{CORE}/namespaces/{real_namespace}/pods?dryRun=All"
        return await api.status_of("POST", path, pod) == 201

    await until(is_in_force, "the quota lets the first pods in")
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await seed.submit()
        await until(lambda: len(kubelet.pods) == 3, "three pods")
        await until(lambda: seed.is_in("Created"), "the job waits")
        await api.call("DELETE", f"{quotas}/few")
        await seed.play(kubelet)
        assert await controller.terminate() == 0
    assert created_once(kubelet, seed)


async def test_a_namespace_that_is_deleted_in_the_middle_leaves_the_controller_running(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await seed.submit()
        await until(lambda: len(kubelet.pods) == len(SLOTS), "all seven pods are there")
        await api.call("DELETE", f"{CORE}/namespaces/{real_namespace}")

        async def is_gone() -> bool:
            return await api.status_of("GET", f"{CORE}/namespaces/{real_namespace}") == 404

        await until(is_gone, "the namespace is gone")
        connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))

        async def is_over() -> bool:
            return not await connection.fetchval("SELECT count(*) FROM heads WHERE NOT is_deleted AND kind <> 'Event'")

        await until(is_over, "the log knows that all is gone")
        await connection.close()
        assert await controller.terminate() == 0
    assert "Traceback" not in controller.said()
    assert created_once(kubelet, seed)
