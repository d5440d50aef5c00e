"""Others change our pods: a mutating policy of the API server on their way in, patches while they run.

Nothing is made again or patched for it: what is wanted is a slot, not a pod that looks as it was sent.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.admission_cases import add, valid
from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.recording_proxy import Recorded, recording
from tests.cluster.test_spine import logged_versions
from tests.controlplane.server import ControlPlane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_STRATEGIC = "application/strategic-merge-patch+json"
FINALIZER = "mesh.example.com/held"
INJECT = "sidecar.istio.io/inject"
Json = dict[str, Any]

PATCHES = """[
    JSONPatch{op: "add", path: "/spec/containers/0",
        value: Object.spec.containers{name: "mesh-proxy", image: "example/proxy:1"}},
    JSONPatch{op: "move", from: "/spec/containers/1", path: "/spec/containers/-"},
    JSONPatch{op: "add", path: "/spec/initContainers", value: []},
    JSONPatch{op: "add", path: "/spec/initContainers/-",
        value: Object.spec.initContainers{name: "mesh-init", image: "example/proxy:1"}},
    JSONPatch{op: "add", path: "/spec/tolerations/-",
        value: Object.spec.tolerations{key: "mesh.example.com/only", operator: "Exists"}},
    JSONPatch{op: "add", path: "/metadata/finalizers", value: ["mesh.example.com/held"]},
    JSONPatch{op: "add", path: "/metadata/labels/mesh.example.com~1rev", value: "one"}
]"""
"""A list of objects as a value makes the API server panic: lists are begun empty."""
ORDERS = {
    "met-chief-0": ["mesh-proxy", "tensorflow"],
    "met-worker-0": ["mesh-proxy", "uploader", "tensorflow"],
}
"""What the policy makes of [tensorflow] and of [tensorflow, uploader]."""
ANNOTATIONS = 'Object{metadata: Object.metadata{annotations: {"mesh.example.com/status": "injected"}}}'


@asynccontextmanager
async def meddling(api: Api, namespace: str) -> AsyncIterator[None]:
    """A policy that changes every pod of the namespace when it is created."""
    policy = {
        "metadata": {"name": namespace},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
                ]
            },
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": ANNOTATIONS}},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": PATCHES}},
            ],
        },
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"metadata": {"name": namespace}, "spec": {"policyName": namespace, "matchResources": here}}
    await api.call("POST", f"{ADMISSION}/mutatingadmissionpolicies", policy)
    await api.call("POST", f"{ADMISSION}/mutatingadmissionpolicybindings", binding)
    probe = {
        "metadata": {"name": "probe", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "image": "example/a:1"}]},
    }

    async def is_in_force() -> bool:
        made = await api.call("POST", f"{CORE}/namespaces/{namespace}/pods?dryRun=All", probe)
        return len(made["spec"]["containers"]) == 2

    try:
        await until(is_in_force, "the policy changes pods")
        yield
    finally:
        await api.call("DELETE", f"{ADMISSION}/mutatingadmissionpolicybindings/{namespace}")
        await api.call("DELETE", f"{ADMISSION}/mutatingadmissionpolicies/{namespace}")


class Mesh:
    """The kubelet's reports of pods that have a sidecar in front, and whoever holds them by a finalizer."""

    def __init__(self, api: Api, kubelet: Kubelet, namespace: str) -> None:
        self._api, self._kubelet = api, kubelet
        self._base = f"{CORE}/namespaces/{namespace}/pods"

    async def report(self, name: str, phase: str, exit_code: int | None = None) -> None:
        """The main container runs, or ended with a code; the sidecar runs on."""
        kubelet = self._kubelet
        await until(lambda: name in kubelet.pods and kubelet.pods[name]["spec"].get("nodeName"), f"{name} is bound")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended = {"exitCode": exit_code, "reason": "Error", "startedAt": now, "finishedAt": now}
        state: Json = {"running": {"startedAt": now}} if exit_code is None else {"terminated": ended}
        done: Json = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        about: Json = {"imageID": "", "ready": True, "restartCount": 0}
        proxy = {**about, "name": "mesh-proxy", "image": "example/proxy:1", "state": {"running": {"startedAt": now}}}
        main = {**about, "name": "tensorflow", "image": "example/train:1", "state": state}
        init = {**about, "name": "mesh-init", "image": "example/proxy:1", "state": done}
        status = {"phase": phase, "initContainerStatuses": [init], "containerStatuses": [proxy, main]}
        await self._api.call("PATCH", f"{self._base}/{name}/status", {"status": status}, "application/merge-patch+json")

    async def let_go(self, name: str) -> None:
        """Waits until the pod is being deleted, and takes the finalizer away."""
        await until(
            lambda: self._kubelet.pods.get(name, {}).get("metadata", {}).get("deletionTimestamp"), f"{name} is to go"
        )
        patch = {"metadata": {"finalizers": None}}
        await self._api.call("PATCH", f"{self._base}/{name}", patch, "application/merge-patch+json")

    def pod(self, name: str) -> Json:
        return self._kubelet.pods[name]


async def test_what_others_put_into_our_pods_is_left_there(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    mesh = Mesh(api, kubelet, real_namespace)
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    manifest = valid("met")
    add(manifest, "Chief")
    manifest["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
    worker = manifest["spec"]["tfReplicaSpecs"]["Worker"]
    worker["restartPolicy"] = "ExitCode"
    worker["template"]["metadata"] = {"annotations": {INJECT: "true"}}
    worker["template"]["spec"]["containers"].append({"name": "uploader", "image": "example/uploader:1"})

    async def is_in(wanted: str) -> bool:
        return await _state(api, f"{path}/met") == wanted

    async with meddling(api, real_namespace), recording(control_plane, tmp_path) as sent:
        flags = ("--kubeconfig", str(sent.kubeconfig))
        controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "log", *flags)
        async with running(controller):
            await until(lambda: "leading" in controller.said(), "the controller leads")
            await api.call("POST", path, manifest)
            for name in ("met-chief-0", "met-worker-0"):
                await mesh.report(name, "Running")
            await until(lambda: is_in("Running"), "the job is Running")
            for name, order in ORDERS.items():
                metadata, spec = mesh.pod(name)["metadata"], mesh.pod(name)["spec"]
                assert [each["name"] for each in spec["containers"]] == order
                assert [each["name"] for each in spec["initContainers"]] == ["mesh-init"]
                assert "mesh.example.com/only" in [each.get("key") for each in spec["tolerations"]]
                assert metadata["finalizers"] == [FINALIZER] and "mesh.example.com/status" in metadata["annotations"]
                assert not any(each["name"] == "TF_CONFIG" for each in spec["containers"][0].get("env", ()))
            assert INJECT not in mesh.pod("met-chief-0")["metadata"]["annotations"], "not ours to set"
            assert mesh.pod("met-worker-0")["metadata"]["annotations"][INJECT] == "true", "the user's is kept"

            # The sidecar runs on, so the phase does too: the main container alone says how it ended.
            await mesh.report("met-worker-0", "Running", 137)
            await until(lambda: is_in("Restarting"), "the worker is being retried")
            await mesh.let_go("met-worker-0")
            await until(lambda: len(kubelet.created["met-worker-0"]) == 2, "the second attempt is there")
            await mesh.report("met-worker-0", "Running")
            await until(lambda: is_in("Running"), "the job is Running again")

            await mesh.report("met-chief-0", "Running", 0)
            await until(lambda: is_in("Succeeded"), "the job is Succeeded")
            for name in ("met-chief-0", "met-worker-0"):
                await mesh.let_go(name)
            await until(lambda: not kubelet.pods, "the pods are gone when they were let go")
            assert await controller.terminate() == 0
    assert _writes(sent, "pods") == {"POST": 3, "DELETE": 2}, (
        "3 attempts; one deleted alone, two at the end by one request"
    )
    assert {name: len(uids) for name, uids in kubelet.created.items()} == {"met-chief-0": 1, "met-worker-0": 2}


def _writes(sent: Recorded, plural: str) -> dict[str, int]:
    """method → how many requests about objects of that kind."""
    found: dict[str, int] = {}
    for method, path in sent.writes:
        if f"/{plural}" in path:
            found[method] = found.get(method, 0) + 1
    return found


async def test_what_others_change_in_running_pods_is_left_as_well(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"
    pod = f"{CORE}/namespaces/{real_namespace}/pods/changed-worker-0"
    manifest = valid("changed")
    manifest["spec"]["runPolicy"] = {"cleanPodPolicy": "None"}
    merge = "application/merge-patch+json"
    changes: list[tuple[str, Json, str]] = [
        ("", {"metadata": {"annotations": {"example.com/seen": "1"}, "labels": {"example.com/team": "a"}}}, merge),
        ("", {"metadata": {"finalizers": [FINALIZER]}}, merge),
        ("", {"spec": {"tolerations": [{"key": "example.com/late", "operator": "Exists"}]}}, _STRATEGIC),
        ("", {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:2"}]}}, _STRATEGIC),
        ("", {"spec": {"activeDeadlineSeconds": 86400}}, merge),
        ("/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "debug", "image": "a:1"}]}}, _STRATEGIC),
        ("/status", {"status": {"conditions": [{"type": "example.com/ready", "status": "False"}]}}, _STRATEGIC),
    ]

    async def is_in(wanted: str) -> bool:
        return await _state(api, f"{path}/changed") == wanted

    async with recording(control_plane, tmp_path) as sent:
        flags = ("--kubeconfig", str(sent.kubeconfig))
        controller = ControllerProcess(control_plane, database_url, real_namespace, tmp_path / "log", *flags)
        async with running(controller):
            await until(lambda: "leading" in controller.said(), "the controller leads")
            await api.call("POST", path, manifest)
            await kubelet.report("changed-worker-0", "Running")
            await until(lambda: is_in("Running"), "the job is Running")
            before = (_writes(sent, "pods"), _writes(sent, "services"))
            for subresource, patch, content_type in changes:
                found = await api.call("PATCH", pod + subresource, patch, content_type)
                await until(partial(_is_logged, database_url, found["metadata"]), f"{patch} is in the log")
            # An end that comes after them all was decided after them all.
            await kubelet.report("changed-worker-0", "Running", 0)
            await until(lambda: is_in("Succeeded"), "the job is Succeeded")
            assert (_writes(sent, "pods"), _writes(sent, "services")) == before == ({"POST": 1}, {"POST": 1})
            assert await controller.terminate() == 0
    assert len(kubelet.created["changed-worker-0"]) == 1
    left = kubelet.pods["changed-worker-0"]
    assert left["spec"]["containers"][0]["image"] == "example/train:2" and left["metadata"]["finalizers"] == [FINALIZER]
    await api.call("PATCH", pod, {"metadata": {"finalizers": None}}, merge)


async def _is_logged(database_url: str, metadata: Json) -> bool:
    return ("Pod", metadata["uid"], int(metadata["resourceVersion"])) in await logged_versions(database_url)


async def _state(api: Api, path: str) -> str:
    """The type of the job's last condition; empty before the first."""
    conditions = ((await api.call("GET", path)).get("status") or {}).get("conditions") or [{}]
    return str(conditions[-1].get("type", ""))
