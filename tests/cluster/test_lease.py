"""Two controllers and one Lease on the real API server: the second stands by, and leads when the first is gone."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from controller.kube.lease_rules import EPOCH_ANNOTATION
from controller.log.connection import dsn_of
from tests.cluster.admission_cases import valid
from tests.cluster.harness import TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.recording_proxy import recording
from tests.cluster.test_spine import SLOTS, Seed
from tests.controlplane.server import ControlPlane
from tests.web.scrapes import ask, scrape

LEASE_SECONDS, RETRY_SECONDS = 6.0, 1.0
SLACK_SECONDS = 4.0
"""A start's own work, and two busy cores."""


class Pair:
    """Two controllers that differ only in their log files; `first` leads when the block begins."""

    def __init__(self, plane: ControlPlane, api: Api, database_url: str, namespace: str, folder: Path) -> None:
        self._plane, self._api, self._database_url = plane, api, database_url
        self._namespace, self._folder = namespace, folder
        self.lease_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/tfjob-controller"

    def controller(self, name: str, *further: str) -> ControllerProcess:
        return ControllerProcess(
            self._plane, self._database_url, self._namespace, self._folder / f"{name}.log",
            "--leader-elect", "--lease-namespace", self._namespace, "--lease-seconds", str(LEASE_SECONDS),
            "--lease-retry-seconds", str(RETRY_SECONDS), "--http-address", "127.0.0.1:0", *further,
        )  # fmt: skip

    async def lease(self) -> dict[str, Any]:
        return await self._api.call("GET", self.lease_path)

    async def epoch(self) -> int:
        connection = await asyncpg.connect(dsn_of(self._database_url))
        try:
            return int(await connection.fetchval("SELECT epoch FROM log_head"))
        finally:
            await connection.close()


@pytest.fixture
def pair(control_plane: ControlPlane, api: Api, database_url: str, real_namespace: str, tmp_path: Path) -> Pair:
    return Pair(control_plane, api, database_url, real_namespace, tmp_path)


@asynccontextmanager
async def both(first: ControllerProcess, second: ControllerProcess) -> AsyncIterator[None]:
    """Both run; the first leads, the second stands by."""
    async with running(first):
        await until(lambda: leads(first), "the first one leads")
        async with running(second):
            await until(lambda: "standing by" in second.said(), "the second one stands by")
            yield


def leads(controller: ControllerProcess) -> bool:
    return '"leading"' in controller.said()


def port_of(controller: ControllerProcess) -> int:
    """Where it answers probes."""
    lines = [json.loads(line) for line in controller.said().splitlines() if '"answering probes"' in line]
    return int(lines[-1]["port"])


async def is_ready(controller: ControllerProcess) -> bool:
    return await ask(port_of(controller), "/readyz") == (200, "ok\n")


def pid_of(controller: ControllerProcess) -> int:
    assert controller.process is not None
    return controller.process.pid


def created_once(kubelet: Kubelet, seed: Seed) -> bool:
    return {name: len(uids) for name, uids in kubelet.created.items()} == {f"{seed.name}-{s}": 1 for s in SLOTS}


LOOKS_AT_THE_START = 2
"""For another operator's pods, and for its webhooks."""


async def test_kill_9_of_the_leader_is_over_within_the_lease(
    pair: Pair, api: Api, kubelet: Kubelet, real_namespace: str
) -> None:
    first, second = pair.controller("first"), pair.controller("second")
    seed = Seed(api, real_namespace)
    async with both(first, second):
        await seed.submit()
        await until(lambda: len(kubelet.pods) == len(SLOTS), "all seven pods are there")
        assert not leads(second)
        for each, is_leader in ((first, 1), (second, 0)):
            await until(lambda each=each: is_ready(each), "both are ready")  # type: ignore[misc]
            assert await ask(port_of(each), "/livez") == (200, "ok\n")
            samples = await scrape(port_of(each))
            assert samples["tfjob_is_leader"] == is_leader
            # Who stands by holds no watches: it looks once for another operator, and then asks for the Lease only.
            assert (samples["tfjob_api_requests_total"] > LOOKS_AT_THE_START) == bool(is_leader)
        await first.kill()
        killed_at = time.monotonic()
        await until(lambda: leads(second), "the second one leads")
        took = time.monotonic() - killed_at
        # Not before the lease was over on its own clock, and not much later than that.
        renewed_before = RETRY_SECONDS * 1.25
        assert LEASE_SECONDS - renewed_before - 1 < took < LEASE_SECONDS + renewed_before + SLACK_SECONDS
        await seed.play(kubelet)
        lease = await pair.lease()
        assert lease["metadata"]["annotations"][EPOCH_ANNOTATION] == str(await pair.epoch())
        assert lease["spec"]["leaseTransitions"] == 1
        assert await second.terminate() == 0
    assert created_once(kubelet, seed)


async def test_a_leader_that_was_stopped_past_its_lease_sends_nothing_more_and_stands_by(
    control_plane: ControlPlane, pair: Pair, api: Api, kubelet: Kubelet, real_namespace: str, tmp_path: Path
) -> None:
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    workers = 25
    job = valid("wide")
    job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = workers
    async with recording(control_plane, tmp_path) as sent:
        # So slow that most of what it was asked for is still to be sent when it is stopped.
        slow = ("--api-qps", "4", "--api-burst", "8", "--kubeconfig", str(sent.kubeconfig))
        first, second = pair.controller("first", *slow), pair.controller("second")
        async with both(first, second):
            assert first.process is not None
            await api.call("POST", path, job)
            await until(lambda: len(kubelet.pods) >= 3, "the first few pods are there")
            first.process.send_signal(signal.SIGSTOP)
            writes, renewals = len(sent.writes), sent.lease_writes
            await until(lambda: leads(second), "the second one leads")
            await until(lambda: len(kubelet.pods) == workers, "the second one creates the rest")
            first.process.send_signal(signal.SIGCONT)
            await until(lambda: first.said().count('"standing by"') == 2, "the first one stands by again")
            await kubelet.report("wide-worker-0", "Succeeded", 0)

            async def has_succeeded() -> bool:
                conditions = ((await api.call("GET", f"{path}/wide")).get("status") or {}).get("conditions") or [{}]
                return bool(conditions[-1].get("type") == "Succeeded")

            await until(has_succeeded, "the job is Succeeded")
            # What had left the process before it was stopped may arrive; nothing was begun after it woke up.
            assert sent.writes[writes + 1 :] == []
            assert sent.lease_writes <= renewals + 1
            assert "Traceback" not in first.said()
            assert first.process.returncode is None
            # It is as good as new: the next to lead when the other goes.
            assert await second.terminate() == 0
            await until(lambda: first.said().count('"leading"') == 2, "the first one leads again")
            assert await first.terminate() == 0
    assert {len(uids) for uids in kubelet.created.values()} == {1}


async def test_sigterm_hands_over_at_once(pair: Pair, api: Api, kubelet: Kubelet, real_namespace: str) -> None:
    first, second = pair.controller("first"), pair.controller("second")
    seed = Seed(api, real_namespace)
    async with both(first, second):
        await seed.submit()
        await until(lambda: len(kubelet.pods) == len(SLOTS), "all seven pods are there")
        assert await first.terminate() == 0
        ended_at = time.monotonic()
        assert "gave the lease back" in first.said()
        await until(lambda: leads(second), "the second one leads", RETRY_SECONDS * 1.25 + 2)
        assert time.monotonic() - ended_at < LEASE_SECONDS - RETRY_SECONDS
        await seed.play(kubelet)
        assert await second.terminate() == 0
        assert not (await pair.lease())["spec"].get("holderIdentity")
    assert created_once(kubelet, seed)


async def test_one_that_stands_by_ends_at_once_and_leaves_the_lease_alone(pair: Pair) -> None:
    first, second = pair.controller("first"), pair.controller("second")
    async with both(first, second):
        holder = (await pair.lease())["spec"]["holderIdentity"]
        assert await second.terminate() == 0
        assert (await pair.lease())["spec"]["holderIdentity"] == holder
        assert f"/{pid_of(first)} " in holder
        assert await first.terminate() == 0


async def test_a_lease_that_is_taken_away_ends_the_leading_and_an_older_log_gets_a_higher_epoch(
    pair: Pair, api: Api, database_url: str
) -> None:
    controller = pair.controller("only")
    async with running(controller):
        await until(lambda: leads(controller), "it leads")
        stolen = {
            "metadata": {"annotations": {EPOCH_ANNOTATION: "41"}},
            "spec": {"holderIdentity": "somebody", "renewTime": "2026-01-01T00:00:00.000000Z"},
        }
        await api.call("PATCH", pair.lease_path, stolen, "application/merge-patch+json")
        await until(lambda: "no longer leading" in controller.said(), "it stops leading")
        assert controller.process is not None and controller.process.returncode is None
        # Nobody renews what was stolen: after its whole length on our clock it is free.
        await until(lambda: controller.said().count('"leading"') == 2, "it leads again")
        assert await pair.epoch() == 42
        assert (await pair.lease())["metadata"]["annotations"][EPOCH_ANNOTATION] == "42"
        epochs = [json.loads(line)["epoch"] for line in controller.said().splitlines() if '"leading"' in line]
        assert epochs == [1, 42]
        assert await controller.terminate() == 0


async def test_an_api_server_that_is_away_for_longer_than_the_lease_ends_no_process(
    control_plane: ControlPlane, pair: Pair, api: Api, kubelet: Kubelet, real_namespace: str
) -> None:
    controller = pair.controller("only")
    seed = Seed(api, real_namespace)
    async with running(controller):
        await until(lambda: leads(controller), "it leads")
        await control_plane.kill("kube-apiserver", signal.SIGSTOP)
        try:
            await until(lambda: "no longer leading" in controller.said(), "it steps down before the lease is over")

            async def says_so() -> bool:
                code, text = await ask(port_of(controller), "/readyz")
                words = f"stands by, but the lease {real_namespace}/tfjob-controller cannot be used: "
                return code == 503 and text.startswith(words)

            await until(says_so, "it is not ready, and says why")
            assert await ask(port_of(controller), "/livez") == (200, "ok\n")
        finally:
            await control_plane.kill("kube-apiserver", signal.SIGCONT)
        await until(lambda: controller.said().count('"leading"') == 2, "it leads again")
        await seed.submit()
        await seed.play(kubelet)
        assert await controller.terminate() == 0
    assert created_once(kubelet, seed)
