"""The real Kueue as a process beside the test's control plane: its CRDs and webhooks come from its own Go module.

In: a running control plane. Out: Kueue at work on TFJobs while the `async with` lasts.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.cluster.harness import Api, until
from tests.cluster.kueue.build import KUEUE
from tests.controlplane.server import ControlPlane, free_port

Json = dict[str, Any]
VERSION = "v1beta2"
API = f"/apis/kueue.x-k8s.io/{VERSION}"
HOOKS_OF = ("clusterqueue", "cohort", "localqueue", "resourceflavor", "tfjob", "workload")
READY_SECONDS = 90.0


class Kueue:
    """One Kueue manager."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self._plane = plane
        self._api = api
        self.folder = Path(tempfile.mkdtemp(prefix="tfjob-kueue-"))
        self._port, self._health = free_port(), free_port()
        self._process: asyncio.subprocess.Process | None = None
        self._hooks: list[str] = []

    async def __aenter__(self) -> Kueue:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def said(self) -> str:
        return (self.folder / "kueue.log").read_text(errors="replace")

    async def _start(self) -> None:
        source = KUEUE.source_of("sigs.k8s.io/kueue")
        await self._apply_crds(source)
        await self._api.status_of("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
        self._make_certificate()
        config = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self.folder)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": ["kubeflow.org/tfjob"]},
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config))
        with (self.folder / "kueue.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._own_etc(), str(KUEUE.bin_dir() / "kueue"), f"--config={self.folder}/config.yaml",
                f"--kubeconfig={self._plane.kubeconfig}", f"--visibility-server-port={free_port()}",
                "--feature-gates=VisibilityOnDemand=false", stdout=log, stderr=log,
            )  # fmt: skip
        await until(self._is_ready, f"Kueue is ready ({self.folder}/kueue.log)", READY_SECONDS)
        await self._install_hooks(source)

    async def _stop(self) -> None:
        for path in self._hooks:
            await self._api.status_of("DELETE", path)
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _apply_crds(self, source: Path) -> None:
        plurals = set()
        for file in sorted((source / "config/components/crd/bases").glob("*.yaml")):
            body = yaml.safe_load(file.read_text())
            name = body["metadata"]["name"]
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=tests&force=true"
            await self._api.call("PATCH", path, body, "application/apply-patch+yaml")
            if any(each["name"] == VERSION and each["served"] for each in body["spec"]["versions"]):
                plurals.add(body["spec"]["names"]["plural"])

        async def are_served() -> bool:
            if await self._api.status_of("GET", API) != 200:
                return False
            found = await self._api.call("GET", API)
            return plurals <= {each["name"] for each in found["resources"]}

        await until(are_served, "Kueue's CRDs are served")

    def _make_certificate(self) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kueue"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(self.folder / "tls.key"), "-out", str(self.folder / "tls.crt")]
        subprocess.run(command, check=True, capture_output=True)

    def _own_etc(self) -> list[str]:
        """Kueue looks for its metrics' certificate in a fixed folder below /etc: it gets an /etc of its own."""
        place = self.folder / "etc/kueue/metrics/certs"
        place.mkdir(parents=True)
        for name in ("tls.crt", "tls.key"):
            shutil.copy(self.folder / name, place / name)
        apart = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--user", "--map-root-user"]
        return [*apart, "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(self.folder / "etc")]

    async def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, self.said()[-3000:]
        try:
            url = f"http://127.0.0.1:{self._health}/readyz"
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def _install_hooks(self, source: Path) -> None:
        trust = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        for body in yaml.safe_load_all((source / "config/components/webhook/manifests.yaml").read_text()):
            if body is None:
                continue
            hooks = [each for each in body["webhooks"] if each["name"][1:].partition(".")[0] in HOOKS_OF]
            for hook in hooks:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": trust}
            name = f"kueue-{body['metadata']['name']}"
            kind = f"{body['kind'].lower()}s"
            await self._api.call(
                "POST",
                f"/apis/admissionregistration.k8s.io/v1/{kind}",
                {**body, "metadata": {"name": name}, "webhooks": hooks},
            )
            self._hooks.append(f"/apis/admissionregistration.k8s.io/v1/{kind}/{name}")
