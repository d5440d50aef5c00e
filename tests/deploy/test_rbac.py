"""deploy/ on a real API server: applied whole, and the controller under its own account's rights, no more, no less."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cluster.harness import CORE, TFJOBS, Api, Kubelet, running, until
from tests.cluster.test_spine import Seed
from tests.controlplane.server import ControlPlane
from tests.deploy.guarded import (
    MERGE,
    NAME,
    NAMESPACE,
    RBAC,
    Asked,
    Everywhere,
    Guarded,
    asked_of,
    granted,
    guarded_plane,
)
from tests.deploy.layouts import KUSTOMIZE, kustomized

STANDALONE = KUSTOMIZE / "overlays" / "standalone"
UNSEEN: dict[Asked, str] = {
    Asked("get", "kubeflow.org/tfjobs"): "a start that makes pods of a job before its watch has shown the job",
    Asked("get", "pods"): "a name that is taken when a pod is made; a pod that a relist does not show",
    Asked("get", "services"): "a name that is taken when a service is made; one that a relist does not show",
    Asked("update", "kubeflow.org/tfjobs/finalizers"): "asked by an admission plugin, not by a request: see REMOVALS",
}
"""Granted and not asked for in this test: what only a repair or another's deed brings."""
REMOVALS = [
    ("create", "pods", Asked("create", "pods")),
    ("patch", "tfjobs/status", Asked("patch", "kubeflow.org/tfjobs/status")),
    # Owner references that block the job's deletion need it.
    ("update", "tfjobs/finalizers", Asked("create", "pods")),
]
"""What is taken away, and which request is refused then."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    """A control plane of this file's own, with the overlay `standalone`. `control_plane` is asked for so that these
    tests are left out with the others where there is no Go."""
    async with guarded_plane(tmp_path_factory.mktemp("guarded"), ["alice", "bob"]) as found:
        await found.apply(kustomized(STANDALONE))
        await found.write_kubeconfig()
        yield found


async def test_the_account_asks_for_what_it_is_granted_and_for_nothing_else(
    guarded: Guarded, database_url: str, tmp_path: Path
) -> None:
    namespace = await guarded.namespace()
    kubelet = Kubelet(guarded.api, namespace)
    await kubelet.start()
    seed = Seed(guarded.api, namespace)
    controller = Everywhere(guarded, database_url, tmp_path / "controller.log")
    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await seed.submit()
        await until(lambda: seed.is_in("Created"), "the job is Created")
        await seed.play(kubelet)
        await restart_scale_and_expire(guarded.api, kubelet, namespace)
        assert await controller.terminate() == 0
    await kubelet.stop()
    said = controller.said()
    assert "orbidden" not in said, said[-4000:]
    refused = [each for each in guarded.audited() if (each.get("responseStatus") or {}).get("code") == 403]
    assert refused == []
    asked = guarded.asked()
    assert asked | set(UNSEEN) == granted(kustomized(STANDALONE))
    assert not asked & set(UNSEEN), "these are asked for: take them off the list"


async def restart_scale_and_expire(api: Api, kubelet: Kubelet, namespace: str) -> None:
    """A job whose worker is lost and made again, which then shrinks, succeeds, and is deleted by its time to live."""
    container = {"name": "tensorflow", "image": "example/train:1"}
    worker = {"replicas": 2, "restartPolicy": "ExitCode", "template": {"spec": {"containers": [container]}}}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "b"},
        "spec": {
            "enableDynamicWorker": True,
            "runPolicy": {"ttlSecondsAfterFinished": 0},
            "tfReplicaSpecs": {"Worker": worker},
        },
    }
    place = f"{TFJOBS}/namespaces/{namespace}/tfjobs"
    await api.call("POST", place, manifest)
    for name in ("b-worker-0", "b-worker-1"):
        await kubelet.report(name, "Running")
    await kubelet.report("b-worker-1", "Failed", 137)
    await until(lambda: len(kubelet.created["b-worker-1"]) == 2, "the lost worker is made again")
    fewer = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
    await api.call("PATCH", f"{place}/b", fewer, MERGE)
    await until(lambda: "b-worker-1" not in kubelet.pods, "the worker that is too many is gone")
    await kubelet.report("b-worker-0", "Succeeded", 0)

    async def is_gone() -> bool:
        return await api.status_of("GET", f"{place}/b") == 404

    await until(is_gone, "the job's time to live is over")


@pytest.mark.parametrize(("verb", "resource", "refused"), REMOVALS)
async def test_without_one_of_its_rights_it_is_refused(
    verb: str, resource: str, refused: Asked, guarded: Guarded, database_url: str, tmp_path: Path
) -> None:
    """What is taken away is missed: the rules hold nothing that is not enforced."""
    place = f"{RBAC}/clusterroles/{NAME}"
    rules = (await guarded.api.call("GET", place))["rules"]
    await guarded.api.call("PATCH", place, {"rules": [without(rule, verb, resource) for rule in rules]}, MERGE)
    namespace = await guarded.namespace()
    seed = Seed(guarded.api, namespace)
    controller = Everywhere(guarded, database_url, tmp_path / "controller.log")
    try:
        async with running(controller):
            await until(lambda: "leading" in controller.said(), "the controller leads")
            before = len(guarded.audited())
            await seed.submit()
            await until(lambda: refused in refused_since(guarded, before), f"{refused} is refused")
            assert await controller.terminate() == 0
    finally:
        await guarded.api.call("PATCH", place, {"rules": rules}, MERGE)
        await guarded.api.call("DELETE", seed.path)


def without(rule: dict[str, Any], verb: str, resource: str) -> dict[str, Any]:
    if resource not in rule["resources"]:
        return rule
    return {**rule, "verbs": [each for each in rule["verbs"] if each != verb] or ["get"]}


def refused_since(guarded: Guarded, before: int) -> set[Asked]:
    late = guarded.audited()[before:]
    return {asked_of(each) for each in late if (each.get("responseStatus") or {}).get("code") == 403}


async def test_pod_security_restricted_takes_the_pods(guarded: Guarded) -> None:
    """The Deployment's and the Job's controllers are real; the namespace enforces `restricted`."""
    place = f"{CORE}/namespaces/{NAMESPACE}"
    enforced = (await guarded.api.call("GET", place))["metadata"]["labels"]
    assert enforced["pod-security.kubernetes.io/enforce"] == "restricted"

    async def components() -> list[str]:
        pods = (await guarded.api.call("GET", f"{place}/pods"))["items"]
        return sorted(pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods)

    async def are_three() -> bool:
        return await components() == ["controller", "controller", "migration"]

    await until(are_three, "two controllers and a migration are there")


@pytest.mark.parametrize("role", ["edit", "kubeflow-edit"])
async def test_who_may_edit_a_namespace_may_create_tfjobs_there_and_only_there(guarded: Guarded, role: str) -> None:
    """A profile's owner keeps this right when training-operator, which brought it, is uninstalled."""
    user = "alice" if role == "edit" else "bob"
    if role == "kubeflow-edit":
        label = "rbac.authorization.kubeflow.org/aggregate-to-kubeflow-edit"
        selectors = [{"matchLabels": {label: "true"}}]
        rule = {"metadata": {"name": role}, "aggregationRule": {"clusterRoleSelectors": selectors}}
        await guarded.api.call("POST", f"{RBAC}/clusterroles", rule)
    own, other = await guarded.namespace(), await guarded.namespace()
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    await guarded.api.call("POST", f"{RBAC}/namespaces/{own}/rolebindings", binding)
    manifest = Seed(guarded.api, own).manifest
    headers = {"Authorization": f"Bearer {guarded.plane.tokens[user]}"}

    async def code(namespace: str) -> int:
        path = f"/apis/kubeflow.org/v1alpha2/namespaces/{namespace}/tfjobs"
        async with guarded.api.session.post(path, json=manifest, headers=headers) as answer:
            return answer.status

    async def may_create() -> bool:
        return await code(own) == 201

    await until(may_create, f"{user} may create a TFJob")
    assert await code(other) == 403
    await guarded.api.call("DELETE", Seed(guarded.api, own).path)
