"""The controller with a service account's own token and rights in one namespace only: no cluster role, no Secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness import CORE, ROOT, Api, ControllerProcess, Kubelet, running, until
from tests.cluster.test_spine import Seed
from tests.controlplane.server import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "tfjob-controller"
SHIPPED = ("base", "components/one-namespace")
"""Where the roles of an install in one namespace stand in deploy/kustomize."""


def shipped_rules() -> list[dict[str, Any]]:
    """The rules of those roles."""
    files = [ROOT / "deploy" / "kustomize" / place / "objects.yaml" for place in SHIPPED]
    objects = [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]
    return [rule for each in objects if each["kind"] == "Role" for rule in each["rules"]]


async def kubeconfig_of_account(api: Api, plane: ControlPlane, namespace: str, folder: Path) -> Path:
    """A kubeconfig with the token of a service account that has the shipped roles' rights, and nothing else."""
    place = f"{CORE}/namespaces/{namespace}/serviceaccounts"
    await api.call("POST", place, {"metadata": {"name": ACCOUNT}})
    await api.call(
        "POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": ACCOUNT}, "rules": shipped_rules()}
    )
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
    assert not any("secrets" in rule["resources"] for rule in shipped_rules())
