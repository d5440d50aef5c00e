"""kubectl, as the users of TFJobs use it, against the running controller on the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
import yaml

from tests.cluster.admission_cases import add, valid
from tests.cluster.harness import CORE, ROOT, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.controlplane.kubectl import kubectl_path
from tests.controlplane.server import ControlPlane

EXAMPLE = ROOT / "examples" / "master-is-chief.yaml"
Json = dict[str, Any]


class World(NamedTuple):
    """A running controller, kubectl, a played kubelet."""

    plane: ControlPlane
    api: Api
    kubelet: Kubelet
    namespace: str

    async def kubectl(self, *arguments: str, stdin: Json | None = None) -> str:
        """What kubectl says; it must succeed."""
        process = await asyncio.create_subprocess_exec(
            kubectl_path(), "--kubeconfig", str(self.plane.kubeconfig), "-n", self.namespace, *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate(b"" if stdin is None else yaml.safe_dump(stdin).encode())
        assert process.returncode == 0, out.decode()
        return out.decode()

    async def apply(self, manifest: Json) -> str:
        return await self.kubectl("apply", "-f", "-", stdin=manifest)

    async def row(self, name: str, *options: str) -> dict[str, str]:
        """A row of `kubectl get tfjobs`, by title. Columns without a value are `<none>` or empty."""
        title, row = (await self.kubectl("get", "tfjobs", name, *options)).splitlines()
        starts = [at for at, letter in enumerate(title) if letter != " " and (at == 0 or title[at - 1] == " ")]
        ends = [*starts[1:], None]
        return {title[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}

    async def is_in(self, name: str, state: str) -> bool:
        job = await self.api.call("GET", f"{TFJOBS}/namespaces/{self.namespace}/tfjobs/{name}")
        conditions = (job.get("status") or {}).get("conditions") or [{}]
        return bool(conditions[-1].get("type") == state)

    async def runs(self, name: str, *slots: str) -> None:
        """Brings the job's pods to Running."""
        pods = [f"{name}-{slot}" for slot in slots]
        await until(lambda: set(pods) <= set(self.kubelet.pods), f"{pods} are there")
        for pod in pods:
            await self.kubelet.report(pod, "Running")
        await until(lambda: self.is_in(name, "Running"), "the job is Running")


@pytest_asyncio.fixture
async def world(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> AsyncIterator[World]:
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        yield World(control_plane, api, kubelet, real_namespace)


async def test_apply_get_and_wait(world: World) -> None:
    manifest = valid("mnist")
    add(manifest, "Chief")
    manifest["spec"]["tfReplicaSpecs"]["Worker"] |= {"replicas": 2, "restartPolicy": "ExitCode"}
    assert "tfjob.kubeflow.org/mnist created" in await world.apply(manifest)
    assert "tfjob.kubeflow.org/mnist unchanged" in await world.apply(manifest)
    waiting = asyncio.create_task(world.kubectl("wait", "--for=condition=Succeeded", "tfjob/mnist", "--timeout=60s"))
    await world.runs("mnist", "chief-0", "worker-0", "worker-1")
    assert "tfjob.kubeflow.org/mnist unchanged" in await world.apply(manifest), "the status is none of apply's fields"
    assert list(await world.row("mnist")) == ["NAME", "STATE", "AGE"]
    assert (await world.row("mnist"))["STATE"] == "Running"
    await world.kubelet.report("mnist-worker-1", "Failed", 137)
    await until(lambda: world.is_in("mnist", "Restarting"), "the job is Restarting")
    wide = await world.row("mnist", "-o", "wide")
    assert list(wide) == ["NAME", "STATE", "AGE", "DECIDER", "RESTARTS", "REASON", "RULES"]
    assert (wide["STATE"], wide["DECIDER"], wide["RESTARTS"], wide["REASON"]) == (
        "Restarting", "chief-0", '{"Worker":1}', "TFJobRestarting",
    )  # fmt: skip
    await world.kubelet.report("mnist-chief-0", "Succeeded", 0)
    assert "tfjob.kubeflow.org/mnist condition met" in await waiting
    assert (await world.row("mnist"))["STATE"] == "Succeeded"
    for words in (("tfj",), ("all",), ("tfjobs.kubeflow.org",), ("tfjobs.v1alpha2.kubeflow.org",)):
        assert "mnist" in await world.kubectl("get", *words), words


async def test_a_file_is_applied_as_it_is_and_again_when_it_is_edited(world: World, tmp_path: Path) -> None:
    name = "master-is-chief-v1alpha2"
    slots = ("chief-0", "ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")
    said = await world.kubectl("apply", "-f", str(EXAMPLE))
    assert said.splitlines() == [f"configmap/{name} created", f"tfjob.kubeflow.org/{name} created"]
    await world.runs(name, *slots)
    wide = await world.row(name, "-o", "wide")
    assert (wide["STATE"], wide["DECIDER"], wide["RULES"]) == ("Running", "chief-0", "v1alpha2")
    edited = tmp_path / "edited.yaml"
    edited.write_text(EXAMPLE.read_text().replace("replicas: 4", "replicas: 5"))
    assert f"tfjob.kubeflow.org/{name} configured" in await world.kubectl("apply", "-f", str(edited))
    await world.runs(name, *slots, "worker-4")
    assert f"tfjob.kubeflow.org/{name} configured" in await world.kubectl("apply", "-f", str(EXAMPLE))
    await until(lambda: f"{name}-worker-4" not in world.kubelet.pods, "the fifth worker is gone")
    assert {len(uids) for uids in world.kubelet.created.values()} == {1}, "nobody was made again for it"
    await world.kubectl("delete", "-f", str(EXAMPLE), "--timeout=60s")

    async def is_clean() -> bool:
        return not await _left(world)

    await until(is_clean, "pods and services are gone")


async def test_describe_shows_the_job_s_events(world: World) -> None:
    await world.apply(valid("told"))
    await world.runs("told", "worker-0")
    await world.kubelet.report("told-worker-0", "Failed", 1)
    await until(lambda: world.is_in("told", "Failed"), "the job is Failed")

    async def described() -> str:
        text = await world.kubectl("describe", "tfjob", "told")
        return text if "TFJobFailed" in text.rpartition("Events:")[2] else ""

    text = await until(described, "describe shows the failure among the Events")
    before, _, events = text.rpartition("Events:")
    assert "exited with code 1" in before and "exited with code 1" in events
    assert "Warning" in events and "told-worker-0" in events


async def test_a_failure_ends_a_wait_for_it(world: World) -> None:
    await world.apply(valid("lost"))
    waiting = asyncio.create_task(world.kubectl("wait", "--for=condition=Failed", "tfjob/lost", "--timeout=60s"))
    await world.runs("lost", "worker-0")
    await world.kubelet.report("lost-worker-0", "Failed", 1)
    assert "condition met" in await waiting


@pytest.mark.parametrize("cascade", ["foreground", "background"])
async def test_delete_takes_pods_and_services_along(world: World, cascade: str) -> None:
    manifest = valid("gone")
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 2
    await world.apply(manifest)
    await world.runs("gone", "worker-0", "worker-1")
    said = await world.kubectl("delete", "tfjob", "gone", f"--cascade={cascade}", "--timeout=60s")
    assert 'tfjob.kubeflow.org "gone" deleted' in said
    if cascade == "foreground":
        assert await _left(world) == [], "kubectl came back when all was gone"

    async def is_clean() -> bool:
        return not await _left(world)

    await until(is_clean, "pods and services are gone")
    assert {name: len(uids) for name, uids in world.kubelet.created.items()} == {"gone-worker-0": 1, "gone-worker-1": 1}


async def test_delete_with_orphans_leaves_the_pods(world: World) -> None:
    await world.apply(valid("left"))
    await world.runs("left", "worker-0")
    await world.kubectl("delete", "tfjob", "left", "--cascade=orphan", "--timeout=60s")
    (pod,) = [each for each in await _left(world) if each["kind"] == "Pod"]
    assert not pod["metadata"].get("ownerReferences") and not pod["metadata"].get("deletionTimestamp")


async def _left(world: World) -> list[Json]:
    found = []
    for plural, kind in (("pods", "Pod"), ("services", "Service")):
        items = (await world.api.call("GET", f"{CORE}/namespaces/{world.namespace}/{plural}"))["items"]
        found += [{**each, "kind": kind} for each in items]
    return found
