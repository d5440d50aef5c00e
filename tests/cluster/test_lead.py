"""Two controllers on one log: the newer one writes, the older one is fenced and says so."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.cluster.admission_cases import CASES, valid
from tests.cluster.harness import CRD_FILE, TFJOBS, Api, ControllerProcess, Kubelet, install_crd, running, until
from tests.controlplane.server import ControlPlane


async def test_the_older_one_ends_with_one_line_and_the_newer_one_goes_on(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    older = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "older.log")
    newer = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "newer.log")
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    async with running(older):
        await until(lambda: "leading" in older.said(), "the older one leads")
        async with running(newer):
            await until(lambda: "leading" in newer.said(), "the newer one leads")
            await api.call("POST", path, valid("job"))
            await until(lambda: "job-worker-0" in kubelet.pods, "its pod is there")
            assert older.process is not None
            await until(lambda: older.process and older.process.returncode is not None, "the older one has ended")
            assert older.process.returncode == 1
            last = older.said().strip().splitlines()[-1]
            assert last.startswith("tfjob: ") and "epoch" in last and "Traceback" not in older.said()
            await kubelet.report("job-worker-0", "Succeeded", 0)

            async def has_succeeded() -> bool:
                status = (await api.call("GET", f"{path}/job")).get("status") or {}
                return bool(status) and status["conditions"][-1]["type"] == "Succeeded"

            await until(has_succeeded, "the job is Succeeded")
            assert kubelet.created == {"job-worker-0": kubelet.created["job-worker-0"][:1]}


async def test_an_older_invalid_job_fails_in_words_and_stops_no_other(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    lax = yaml.safe_load(CRD_FILE.read_text())
    for version in lax["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org?fieldManager=tests&force=true"
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    invalid = [case for case in CASES if case.words is not None and isinstance(case.manifest.get("spec"), dict)]
    await api.call("PATCH", crd, lax, "application/apply-patch+yaml")

    async def takes_anything() -> bool:
        return await api.status_of("POST", f"{path}?dryRun=All", invalid[0].manifest) == 201

    await until(takes_anything, "the lax CRD is in force")
    for case in invalid:
        await api.call("POST", path, case.manifest)
    await install_crd(api)
    controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "controller.log")
    async with running(controller):
        await api.call("POST", path, valid("good"))
        await until(lambda: "good-worker-0" in kubelet.pods, "the good job has its pod")
        expected = {case.manifest["metadata"]["name"] for case in invalid} - UNWRITABLE

        async def failed() -> set[str]:
            items = (await api.call("GET", path))["items"]
            return {
                item["metadata"]["name"]
                for item in items
                if ((item.get("status") or {}).get("conditions") or [{}])[-1].get("reason") == "InvalidTFJobSpec"
            }

        async def all_failed() -> bool:
            return expected <= await failed()

        await until(all_failed, "every invalid job is Failed, InvalidTFJobSpec")
        assert "good" not in await failed()
        assert set(kubelet.created) == {"good-worker-0"}
        assert await controller.terminate() == 0


UNWRITABLE = {
    case.manifest["metadata"]["name"]
    for case in CASES
    if not isinstance(case.manifest.get("spec", {}).get("tfReplicaSpecs", {}), dict)
    or case.manifest.get("spec", {}).get("runPolicy", {}).get("managedBy")
}
"""No released CRD let a list of replicas through, and the server takes no status for one; what somebody else manages is
left alone, valid or not."""
