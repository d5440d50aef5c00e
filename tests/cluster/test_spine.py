"""The whole way on the real API server, from apply to cleaned up, with every object version in the log once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, SecondWatch, running, until
from tests.controlplane.server import ControlPlane

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "master-is-chief.yaml"
SLOTS = ("chief-0", "ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")
KILLS, KILLS_IN_EVERY_RUN = 20, 4


def seed_manifest() -> dict[str, Any]:
    """The TFJob of the seed case: v1alpha2, CHIEF 1, PS 2, WORKER 4."""
    documents = yaml.safe_load_all(EXAMPLE.read_text())
    found: dict[str, Any] = next(each for each in documents if each["kind"] == "TFJob")
    found["metadata"].pop("namespace", None)
    return found


class Seed:
    """The seed job on the API server."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.manifest = seed_manifest()
        self.name = self.manifest["metadata"]["name"]
        self.path = f"{TFJOBS}/namespaces/{namespace}/tfjobs/{self.name}"

    async def submit(self) -> None:
        await self.api.call("POST", f"/apis/kubeflow.org/v1alpha2/namespaces/{self.namespace}/tfjobs", self.manifest)

    async def conditions(self) -> list[dict[str, Any]]:
        job = await self.api.call("GET", self.path)
        found: list[dict[str, Any]] = (job.get("status") or {}).get("conditions") or []
        return found

    async def is_in(self, state: str) -> bool:
        found = await self.conditions()
        return bool(found) and found[-1]["type"] == state and found[-1]["status"] == "True"

    async def is_settled(self) -> bool:
        counts = (await self.api.call("GET", self.path))["status"]["replicaStatuses"]
        return not any("active" in each for each in counts.values())

    async def is_clean(self) -> bool:
        for plural in ("pods", "services"):
            if (await self.api.call("GET", f"{CORE}/namespaces/{self.namespace}/{plural}"))["items"]:
                return False
        return True

    async def is_counted(self) -> bool:
        """What comes after this changes no status: every version that there will be is on its way to the watches."""
        counts = (await self.api.call("GET", self.path))["status"]["replicaStatuses"].values()
        return not any(each.get("active") for each in counts)

    async def play(self, kubelet: Kubelet) -> None:
        """The pods' states, from pending to the chief's success."""
        await until(lambda: set(kubelet.pods) == {f"{self.name}-{slot}" for slot in SLOTS}, "all seven pods are there")
        for slot in SLOTS:
            await kubelet.report(f"{self.name}-{slot}", "Running")
        await until(lambda: self.is_in("Running"), "the job is Running")
        await kubelet.report(f"{self.name}-chief-0", "Succeeded", 0)
        await until(lambda: self.is_in("Succeeded"), "the job is Succeeded")
        await until(self.is_clean, "its pods and services are gone")
        await until(self.is_counted, "its last status is written: nothing is active any more")
        await until(self.is_settled, "its counts say so: the last that is written")


async def logged_versions(database_url: str) -> list[tuple[str, str, int]]:
    """(kind, uid, resourceVersion) of every object row in the log, in its order."""
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        rows = await connection.fetch(
            "SELECT kind, uid, resource_version FROM events WHERE op IN"
            " ('ADDED', 'MODIFIED', 'DELETED', 'SYNC_ADDED', 'SYNC_MODIFIED', 'SYNC_DELETED')"
            " AND kind IN ('TFJob', 'Pod', 'Service') ORDER BY position"
        )
        return [(row["kind"], row["uid"], int(row["resource_version"])) for row in rows]
    finally:
        await connection.close()


async def test_the_seed_case_from_apply_to_cleaned_up(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, second_watch: SecondWatch, real_namespace: str,
    database_url: str, tmp_path: Path,
) -> None:  # fmt: skip
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        await until(lambda: seed.is_in("Created"), "the job is Created")
        await seed.play(kubelet)
        conditions = {entry["type"]: entry["status"] for entry in await seed.conditions()}
        assert conditions == {"Created": "True", "Running": "False", "Succeeded": "True"}
        await until(lambda: _all_logged(database_url, second_watch), "every version that the watch saw is in the log")
        assert await controller.terminate() == 0
    logged = await logged_versions(database_url)
    assert len(logged) == len(set(logged)), "a version is in the log twice"
    assert set(logged) == set(second_watch.seen)
    assert {name: len(uids) for name, uids in kubelet.created.items()} == {f"{seed.name}-{s}": 1 for s in SLOTS}


async def _all_logged(database_url: str, second_watch: SecondWatch) -> bool:
    return set(second_watch.seen) <= set(await logged_versions(database_url))


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=() if n < KILLS_IN_EVERY_RUN else pytest.mark.soak) for n in range(KILLS)],
)
async def test_kill_9_at_a_random_moment_changes_nothing(
    number: int, control_plane: ControlPlane, api: Api, kubelet: Kubelet, second_watch: SecondWatch,
    real_namespace: str, database_url: str, tmp_path: Path,
) -> None:  # fmt: skip
    luck = random.Random(number)
    seed = Seed(api, real_namespace)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        playing = asyncio.create_task(seed.play(kubelet))
        # From the submission to the cleanup takes about two seconds; the moment is drawn from all of it.
        await asyncio.wait([playing], timeout=luck.uniform(0.0, 2.0))
        await controller.kill()
        await controller.start()
        await playing
        await until(lambda: _all_logged(database_url, second_watch), "every version that the watch saw is in the log")
        conditions = {entry["type"]: entry["status"] for entry in await seed.conditions()}
        assert conditions == {"Created": "True", "Running": "False", "Succeeded": "True"}
    logged = await logged_versions(database_url)
    assert len(logged) == len(set(logged)), "an event is in the log twice"
    assert set(second_watch.seen) <= set(logged)
    assert {name: len(uids) for name, uids in kubelet.created.items()} == {f"{seed.name}-{s}": 1 for s in SLOTS}
