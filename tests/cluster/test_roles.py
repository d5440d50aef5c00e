"""The controller with a service account's own token and rights in one namespace only: no cluster role, no Secrets."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.harness import CORE, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.test_spine import Seed
from tests.controlplane.server import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "tfjob-controller"
RULES = [
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["get", "list", "watch", "delete"]},
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/status"], "verbs": ["patch"]},
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/finalizers"], "verbs": ["update"]},
    {
        "apiGroups": [""],
        "resources": ["pods", "services"],
        "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch", "create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
]


async def kubeconfig_of_account(api: Api, plane: ControlPlane, namespace: str, folder: Path) -> Path:
    """A kubeconfig with the token of a service account that has RULES in its namespace, and nothing else."""
    place = f"{CORE}/namespaces/{namespace}/serviceaccounts"
    await api.call("POST", place, {"metadata": {"name": ACCOUNT}})
    await api.call("POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": ACCOUNT}, "rules": RULES})
    binding = {
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    await api.call("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    token = await api.call("POST", f"{place}/{ACCOUNT}/token", {"spec": {"expirationSeconds": 3600}})
    found = folder / "account-kubeconfig"
    found.write_text(json.dumps(plane.kubeconfig_of(token["status"]["token"])))
    return found


async def test_weakness_30_and_weakness_32_a_role_in_one_namespace_will_do(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    """It elects with two processes, runs a job to its end and is never refused anything; Secrets are not among its
    rights (weaknesses 30: its own RBAC forbids the Lease; 32: cluster-wide rights on Secrets, a ClusterRole always)."""
    kubeconfig = await kubeconfig_of_account(api, control_plane, real_namespace, tmp_path)
    flags = ["--kubeconfig", str(kubeconfig), "--leader-elect", "--lease-namespace", real_namespace]
    seed = Seed(api, real_namespace)
    first, second = (
        ControllerProcess(control_plane, database_url, real_namespace, tmp_path / f"{name}.log", *flags)
        for name in ("first", "second")
    )
    async with running(first), running(second):
        await until(lambda: "leading" in first.said() + second.said(), "one of them leads")
        await seed.submit()
        await until(lambda: seed.is_in("Created"), "the job is Created")
        await seed.play(kubelet)
        assert (await first.terminate(), await second.terminate()) == (0, 0)
    said = first.said() + second.said()
    assert "orbidden" not in said and "403" not in said
    assert not any("secrets" in rule["resources"] for rule in RULES)
