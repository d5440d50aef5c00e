"""A control plane with the admission plugins that sites switch on, and an audit log of what our account asks for.

In: a folder. Out: the running control plane with deploy/ applied, the account's kubeconfig, its audited requests.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Json, until
from tests.controlplane.kubectl import kubectl_path
from tests.controlplane.server import CONTROLLERS, ControlPlane
from tests.deploy.layouts import Objects

NAME, NAMESPACE = "tfjob-controller", "tfjob-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
PLUGINS = "OwnerReferencesPermissionEnforcement,PodSecurity,LimitRanger,ResourceQuota"
FURTHER_CONTROLLERS = (
    "clusterrole-aggregation-controller,deployment-controller,replicaset-controller,job-controller,"
    "resourcequota-controller"
)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"


class Asked(NamedTuple):
    """One kind of request: `resource` with its API group before and its subresource behind, as in a rule."""

    verb: str
    resource: str


class Guarded:
    """The control plane, and what the account has asked of it."""

    def __init__(self, plane: ControlPlane, api: Api, folder: Path) -> None:
        self.plane, self.api, self.folder = plane, api, folder
        self.kubeconfig = folder / "account-kubeconfig"

    async def apply(self, objects: Objects) -> None:
        """As a person does: `kubectl apply --server-side`, what a kind needs first."""
        first = ("Namespace", "CustomResourceDefinition")
        ordered = sorted(objects.values(), key=lambda each: each["kind"] not in first)
        process = await asyncio.create_subprocess_exec(
            kubectl_path(), "--kubeconfig", str(self.plane.kubeconfig), "apply", "--server-side", "--validate=strict",
            "--force-conflicts", "-f", "-", stdin=-1, stdout=-1, stderr=-1,
        )  # fmt: skip
        out, err = await process.communicate(yaml.safe_dump_all(ordered).encode())
        assert process.returncode == 0, err.decode()
        assert len(out.decode().splitlines()) == len(objects), out.decode()

        async def is_served() -> bool:
            return await self.api.status_of("GET", f"{TFJOBS}/tfjobs") == 200

        await until(is_served, "the CRD is served")

    async def write_kubeconfig(self) -> None:
        """The account's own token, as its pod would have it."""
        path = f"{CORE}/namespaces/{NAMESPACE}/serviceaccounts/{NAME}/token"
        token = await self.api.call("POST", path, {"spec": {"expirationSeconds": 3600}})
        self.kubeconfig.write_text(json.dumps(self.plane.kubeconfig_of(token["status"]["token"])))

    async def namespace(self) -> str:
        """A namespace for jobs, with a quota that is counted and limits for whoever names none."""
        name = f"jobs-{secrets.token_hex(4)}"
        place = f"{CORE}/namespaces/{name}"
        await self.api.call("POST", f"{CORE}/namespaces", {"metadata": {"name": name}})
        limits = [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "10m"}}]
        quota = {"hard": {"pods": "20", "requests.cpu": "4"}}
        await self.api.call(
            "POST", f"{place}/limitranges", {"metadata": {"name": "limits"}, "spec": {"limits": limits}}
        )
        await self.api.call("POST", f"{place}/resourcequotas", {"metadata": {"name": "quota"}, "spec": quota})

        async def is_counted() -> bool:
            found = await self.api.call("GET", f"{place}/resourcequotas/quota")
            return "hard" in (found.get("status") or {})

        await until(is_counted, "the quota is counted")
        return name

    def audited(self) -> list[Json]:
        """What the account has asked for, oldest first."""
        lines = (self.folder / "audit.log").read_text().splitlines()
        return [each for each in map(json.loads, lines) if each["user"]["username"] == ACCOUNT and "objectRef" in each]

    def asked(self) -> set[Asked]:
        return {asked_of(each) for each in self.audited()}


class Everywhere(ControllerProcess):
    """The controller for all namespaces, as in its pod, with the account's rights."""

    def __init__(self, guarded: Guarded, database_url: str, log_file: Path, *further: str) -> None:
        flags = ["--kubeconfig", str(guarded.kubeconfig), "--leader-elect", "--lease-namespace", NAMESPACE, *further]
        super().__init__(guarded.plane, database_url, "", log_file, *flags)
        at = self._arguments.index("--namespace")
        del self._arguments[at : at + 2]


def granted(objects: Objects) -> set[Asked]:
    """The (verb, resource) pairs of the rules that are bound to the account."""
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in objects.values()
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
    }
    return {
        Asked(verb, f"{group}/{resource}" if group else resource)
        for role in bound
        for rule in objects[role]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked_of(audited: Json) -> Asked:
    """The kind of one audited request."""
    reference = audited["objectRef"]
    parts = [reference.get("apiGroup"), reference["resource"], reference.get("subresource")]
    return Asked(audited["verb"], "/".join(part for part in parts if part))


@asynccontextmanager
async def guarded_plane(folder: Path, users: list[str]) -> AsyncIterator[Guarded]:
    """Runs it while the block lasts."""
    rules = [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    flags = [
        f"--enable-admission-plugins={PLUGINS}",
        f"--audit-policy-file={folder}/policy.yaml",
        f"--audit-log-path={folder}/audit.log",
        "--audit-log-mode=blocking",
    ]
    plane = ControlPlane(apiserver_flags=flags, users=users, controllers=f"{CONTROLLERS},{FURTHER_CONTROLLERS}")
    await plane.start()
    try:
        async with Api(plane) as api:
            yield Guarded(plane, api, folder)
    finally:
        await plane.stop()
