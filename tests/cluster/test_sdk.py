"""The `kubeflow-training` SDK, as its users call it, against the running controller on the real API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiohttp import web
from kubeflow.training import (
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    KubeflowOrgV1TFJob,
    KubeflowOrgV1TFJobSpec,
    TrainingClient,
)
from kubernetes.client import V1Container, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec

from tests.cluster.harness import CORE, Api, ControllerProcess, Kubelet, running, until
from tests.controlplane.server import ControlPlane
from tests.edges.certificates import OLD

POLLING = 0.2
STATES = ("created", "running", "restarting", "succeeded", "failed")


class World(NamedTuple):
    """A running controller, the SDK's client, a played kubelet."""

    client: TrainingClient
    api: Api
    kubelet: Kubelet
    namespace: str

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """One method of the SDK's client, which blocks."""
        return await asyncio.to_thread(getattr(self.client, method), *arguments, **options)

    async def waited(self, name: str, *expected: str, **options: Any) -> Any:
        return await self.call(
            "wait_for_job_conditions", name, expected_conditions=set(expected), polling_interval=POLLING, **options
        )

    async def states(self, name: str) -> set[str]:
        """What the SDK's is_job_… say."""
        return {state for state in STATES if await self.call(f"is_job_{state}", name)}

    async def have(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.kubelet.pods), f"the pods {names} are there")


@pytest_asyncio.fixture
async def world(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> AsyncIterator[World]:
    client = TrainingClient(str(control_plane.kubeconfig), namespace=real_namespace, job_kind="TFJob")
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        yield World(client, api, kubelet, real_namespace)


def replica(count: int, policy: str = "Never", **template: Any) -> KubeflowOrgV1ReplicaSpec:
    container = V1Container(name="tensorflow", image="example/train:1", command=["python", "/opt/train.py"])
    metadata = V1ObjectMeta(**template) if template else None
    pod = V1PodTemplateSpec(metadata=metadata, spec=V1PodSpec(containers=[container]))
    return KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy=policy, template=pod)


def job(name: str, replicas: dict[str, KubeflowOrgV1ReplicaSpec], **spec: Any) -> KubeflowOrgV1TFJob:
    return KubeflowOrgV1TFJob(
        api_version="kubeflow.org/v1",
        kind="TFJob",
        metadata=V1ObjectMeta(name=name),
        spec=KubeflowOrgV1TFJobSpec(run_policy=KubeflowOrgV1RunPolicy(**spec), tf_replica_specs=replicas),
    )


async def test_from_create_to_delete(world: World) -> None:
    pods = ["mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1"]
    replicas = {"Chief": replica(1), "PS": replica(1), "Worker": replica(2)}
    await world.call("create_job", job("mnist", replicas, clean_pod_policy="None"))
    assert (await world.waited("mnist", "Created")).metadata.name == "mnist"
    await world.have(*pods)
    assert await world.states("mnist") == {"created"}
    for pod in pods:
        await world.kubelet.report(pod, "Running")
    found = await world.waited("mnist", "Running")
    assert isinstance(found, KubeflowOrgV1TFJob)
    assert await world.states("mnist") == {"created", "running"}
    assert found.status.start_time is not None and found.status.completion_time is None
    for options, expected in (
        ({}, pods),
        ({"is_master": True}, ["mnist-chief-0"]),
        ({"replica_type": "worker"}, ["mnist-worker-0", "mnist-worker-1"]),
        ({"replica_type": "ps"}, ["mnist-ps-0"]),
        ({"replica_type": "chief"}, ["mnist-chief-0"]),
        ({"replica_type": "worker", "replica_index": 1}, ["mnist-worker-1"]),
    ):
        assert sorted(await world.call("get_job_pod_names", "mnist", **options)) == expected
        assert sorted(pod.metadata.name for pod in await world.call("get_job_pods", "mnist", **options)) == expected
    await world.kubelet.report("mnist-chief-0", "Succeeded", 0)
    seen: list[str] = []
    found = await world.waited("mnist", "Succeeded", callback=lambda job: seen.append(job.metadata.name))
    assert await world.states("mnist") == {"created", "succeeded"}
    assert found.status.completion_time is not None and set(seen) == {"mnist"}
    assert [condition.type for condition in await world.call("get_job_conditions", "mnist")][-1] == "Succeeded"
    assert [each.metadata.name for each in await world.call("list_jobs")] == ["mnist"]
    await world.call("delete_job", "mnist")
    await until(lambda: not world.kubelet.pods, "its pods go with it")
    assert await world.call("list_jobs") == []
    with pytest.raises(RuntimeError, match="Failed to get TFJob"):
        await world.call("get_job", "mnist")


async def test_a_restart_and_a_failure_are_told(world: World) -> None:
    await world.call("create_job", job("again", {"Worker": replica(1, "ExitCode")}))
    await world.have("again-worker-0")
    await world.kubelet.report("again-worker-0", "Running")
    await world.waited("again", "Running")
    await world.kubelet.report("again-worker-0", "Failed", 137)
    await world.waited("again", "Restarting")
    assert await world.states("again") == {"created", "restarting"}
    await until(lambda: len(world.kubelet.created["again-worker-0"]) == 2, "the second attempt is there")
    await world.kubelet.report("again-worker-0", "Running")
    await world.waited("again", "Running")
    assert await world.states("again") == {"created", "running"}
    waiting = asyncio.create_task(world.waited("again", "Succeeded"))
    await world.kubelet.report("again-worker-0", "Failed", 1)
    with pytest.raises(RuntimeError, match="again is Failed"):
        await waiting
    assert await world.states("again") == {"created", "failed"}
    await world.waited("again", "Failed")


async def test_an_update_changes_the_replicas(world: World) -> None:
    await world.call("create_job", job("sized", {"Worker": replica(1)}))
    await world.have("sized-worker-0")
    found = await world.call("get_job", "sized")
    assert found.spec.tf_replica_specs["Worker"].replicas == 1
    found.spec.tf_replica_specs["Worker"].replicas = 3
    await world.call("update_job", found, "sized")
    await world.have("sized-worker-0", "sized-worker-1", "sized-worker-2")
    assert (await world.call("get_job", "sized")).spec.tf_replica_specs["Worker"].replicas == 3
    assert len(world.kubelet.created["sized-worker-0"]) == 1


async def test_a_job_whose_template_the_sdk_makes(world: World) -> None:
    """Its templates say `sidecar.istio.io/inject: "false"`, which is kept; a function comes as a command."""

    await world.call(
        "create_job",
        name="made",
        base_image="example/train:1",
        num_chief_replicas=1,
        num_ps_replicas=1,
        num_workers=2,
        env_vars={"EPOCHS": "3"},
        resources_per_worker={"cpu": "1", "memory": "1Gi"},
    )
    await world.have("made-chief-0", "made-ps-0", "made-worker-0", "made-worker-1")
    for pod in await world.call("get_job_pods", "made"):
        assert pod.metadata.annotations["sidecar.istio.io/inject"] == "false"
        main = next(each for each in pod.spec.containers if each.name == "tensorflow")
        assert [each.name for each in main.env] == ["EPOCHS", "TF_CONFIG"]
        assert main.resources.limits["memory"] == "1Gi"
    assert await world.call("get_job_pod_names", "made", is_master=True) == ["made-chief-0"]


async def test_the_logs_of_a_job(world: World, tmp_path: Path) -> None:
    await world.call("create_job", job("told", {"PS": replica(1), "Worker": replica(2)}))
    await world.have("told-ps-0", "told-worker-0", "told-worker-1")
    logs, _ = await world.call("get_job_logs", "told")
    assert logs == {}, "nothing is asked of a pod that is pending"
    for pod in ("told-ps-0", "told-worker-0", "told-worker-1"):
        await world.kubelet.report(pod, "Running")
    async with node_with_logs(world.api, tmp_path):
        logs, _ = await world.call("get_job_logs", "told")
        assert logs == {"told-worker-0": "told-worker-0 tensorflow\n"}, (
            "the master's: worker 0, where there is no chief"
        )
        logs, _ = await world.call("get_job_logs", "told", is_master=False, replica_type="ps")
        assert logs == {"told-ps-0": "told-ps-0 tensorflow\n"}
        logs, _ = await world.call("get_job_logs", "told", follow=True)
        assert logs == {"told-worker-0": "told-worker-0 tensorflow"}

        async def events() -> Any:
            return (await world.call("get_job_logs", "told", is_master=False, verbose=True))[1]

        await until(events, "the job's Events are there")
        assert any("told-worker-0" in line for line in (await events())["tfjob/told"])


@asynccontextmanager
async def node_with_logs(api: Api, folder: Path) -> AsyncIterator[None]:
    """The node of the played kubelet, with an endpoint that the API server reads pods' logs from."""

    async def logs(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.match_info['pod']} {request.match_info['container']}\n")

    (folder / "node.pem").write_text(OLD)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(folder / "node.pem")
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", logs)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust)
    await site.start()
    port = runner.addresses[0][1]
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await api.call("POST", f"{CORE}/nodes", {"metadata": {"name": "node-1"}, "status": status})
    try:
        yield
    finally:
        await api.call("DELETE", f"{CORE}/nodes/node-1")
        await runner.cleanup()
