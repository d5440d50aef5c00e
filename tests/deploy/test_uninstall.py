"""An installation that goes leaves nothing behind: the cluster is listed before and after."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.cluster.harness import CORE, Kubelet, running, until
from tests.cluster.test_spine import SLOTS, Seed
from tests.controlplane.kubectl import kubectl_path
from tests.controlplane.server import ControlPlane
from tests.deploy.guarded import NAME, NAMESPACE, Asked, Everywhere, Guarded, guarded_plane
from tests.deploy.layouts import ROOT, with_components

KEPT_BY_KUBERNETES = {"events", "events.events.k8s.io"}
"""What happened; it goes by itself after an hour."""


async def said(*command: str, code: int = 0) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=-1, stderr=-1, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    out, err = await process.communicate()
    assert process.returncode == code, err.decode()
    return (out if code == 0 else err).decode()


async def kubectl(guarded: Guarded, *words: str) -> str:
    return await said(kubectl_path(), "--kubeconfig", str(guarded.plane.kubeconfig), *words)


async def tfjob(guarded: Guarded, *words: str, code: int = 0) -> str:
    kubeconfig = ["--kubeconfig", str(guarded.plane.kubeconfig)]
    return await said(sys.executable, "-m", "controller", "uninstall", *words, *kubeconfig, code=code)


async def everything(guarded: Guarded) -> set[str]:
    """Every object of the cluster: resource, namespace, name."""
    kinds = set((await kubectl(guarded, "api-resources", "--verbs=list", "-o", "name", "--cached=false")).split())
    columns = "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name"
    wanted = ",".join(sorted(kinds - KEPT_BY_KUBERNETES))
    listed = await kubectl(guarded, "get", wanted, "-A", "--no-headers", "-o", columns)
    return {" ".join(line.split()) for line in listed.splitlines()}


async def test_what_is_uninstalled_is_gone(control_plane: ControlPlane, database_url: str, tmp_path: Path) -> None:
    assert control_plane, "asked for so that this test is left out with the others where there is no Go"
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    async with guarded_plane(tmp_path, []) as guarded:
        before = await everything(guarded)
        await guarded.apply(with_components("standalone", "pod-finalizer", folder=overlay))
        await guarded.write_kubeconfig()
        jobs = await guarded.namespace()
        kubelet = Kubelet(guarded.api, jobs)
        await kubelet.start()
        await run_and_stop(guarded, database_url, jobs, kubelet, tmp_path)
        await kubectl(guarded, "-n", NAMESPACE, "delete", "deployment", NAME)

        full = await everything(guarded)
        told = await tfjob(guarded, "--dry-run", "--crd")
        assert told.count("would remove the finalizer") == len(SLOTS) - 1, "one has ended"
        assert f"would remove the Lease {NAMESPACE}/{NAME}\n" in told
        assert "would remove the CRD tfjobs.kubeflow.org with 1 TFJobs\n" in told
        assert await everything(guarded) == full, "a dry run changes something"

        assert (await tfjob(guarded, "--crd")).count("\nremove") + 1 == told.count("would remove")
        await kubectl(guarded, "delete", "-k", str(overlay), "--ignore-not-found", "--wait=false")
        await guarded.api.call("DELETE", f"{CORE}/namespaces/{jobs}")

        async def is_as_before() -> bool:
            return await everything(guarded) <= before

        await until(is_as_before, "nothing of it is left")
        assert "nothing is left" in await tfjob(guarded, "--crd")
        await kubelet.stop()


async def run_and_stop(guarded: Guarded, database_url: str, jobs: str, kubelet: Kubelet, folder: Path) -> None:
    """A controller that is told to go while its job has pods, with the finalizer on all but the one that has ended."""
    seed = Seed(guarded.api, jobs)
    controller = Everywhere(guarded, database_url, folder / "controller.log", "--pod-finalizer")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        await until(lambda: len(kubelet.pods) == len(SLOTS), "all seven pods are there")
        await kubelet.report(f"{seed.name}-worker-0", "Running")
        await kubelet.report(f"{seed.name}-worker-0", "Succeeded", 0)
        await until(lambda: Asked("patch", "pods") in guarded.asked(), "the pod that has ended is released")
        assert "is held by" in await tfjob(guarded, code=2), "a controller that leads is not in the way"
        assert await controller.terminate() == 0
    refused = [each for each in guarded.audited() if (each.get("responseStatus") or {}).get("code") == 403]
    assert refused == [], "the component brings too few rights"
