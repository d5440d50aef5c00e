"""A real control plane on loopback: etcd, kube-apiserver with RBAC, and the garbage collector, for the tests.

In: binaries of build.py. Out: a URL, a CA, an admin's token, a kubeconfig. Everything ends with this process.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from tests.controlplane.build import bin_dir

READY_SECONDS = 120
"""It is ready after about 12 s on two quiet cores; a loaded machine gets ten times that."""
CONTROLLERS = "garbage-collector-controller,namespace-controller"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ControlPlane:
    """One etcd, one kube-apiserver, one kube-controller-manager. `users` maps further user names to their tokens."""

    def __init__(
        self, *, apiserver_flags: Sequence[str] = (), users: Sequence[str] = (), controllers: str = CONTROLLERS
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tfjob-controlplane-"))
        self.admin_token = secrets.token_hex(16)
        self.tokens = {user: secrets.token_hex(16) for user in users}
        self.ca_file = self.folder / "apiserver.crt"
        self.kubeconfig = self.folder / "kubeconfig"
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self._flags = list(apiserver_flags)
        self._controllers = controllers
        self._port = free_port()
        self._etcd_port, self._peer_port = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Starts all three and returns when the API server is ready and the `default` namespace is there."""
        self._write_credentials()
        try:
            await self._start_etcd()
            await self.start_apiserver()
            await self._spawn(
                "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig}", f"--controllers={self._controllers}", "--leader-elect=false",
                "--secure-port=0", "--concurrent-gc-syncs=4", "--kube-api-qps=200", "--kube-api-burst=400",
            )  # fmt: skip
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Ends all processes and removes the folder."""
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            await self.kill(name, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    async def kill(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to one part; for SIGKILL and SIGTERM waits until it is gone."""
        process = self.processes.get(name)
        if process is None or process.returncode is not None:
            return
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            await process.wait()

    async def start_apiserver(self) -> None:
        """Starts kube-apiserver on the same port and data as before, and waits until it is ready."""
        await self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}", f"--cert-dir={self.folder}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.folder}/sa.key",
            f"--service-account-key-file={self.folder}/sa.key",
            f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true",
            *self._flags,
        )  # fmt: skip
        await self._until("kube-apiserver", self._is_ready)

    async def restart_apiserver(self) -> None:
        """A restart as a crash brings it: SIGTERM would wait a minute for open watches."""
        await self.kill("kube-apiserver", signal.SIGKILL)
        await self.start_apiserver()

    async def compact(self) -> None:
        """Makes every resourceVersion of before too old (410): compacts etcd at its newest revision and lets the API
        server forget what its watch cache held, which only its restart does."""
        await self.kill("kube-apiserver", signal.SIGKILL)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self._etcd_port}") as etcd:
            async with etcd.post("/v3/kv/put", json={"key": "dGVzdA==", "value": "eA=="}) as answer:
                revision = (await answer.json())["header"]["revision"]
            async with etcd.post("/v3/kv/compaction", json={"revision": revision, "physical": True}) as answer:
                answer.raise_for_status()
        await self.start_apiserver()

    def ssl_context(self) -> ssl.SSLContext:
        """What a client needs to trust the API server."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def kubeconfig_of(self, token: str) -> dict[str, object]:
        """A kubeconfig for a bearer token."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    def _write_credentials(self) -> None:
        lines = [f'{self.admin_token},admin,admin,"system:masters"']
        lines += [f"{token},{user},{user}" for user, token in self.tokens.items()]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        self.kubeconfig.write_text(json.dumps(self.kubeconfig_of(self.admin_token)))
        subprocess.run(
            ["openssl", "genrsa", "-out", str(self.folder / "sa.key"), "2048"], check=True, capture_output=True
        )

    async def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        await self._spawn(
            "etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}", "--unsafe-no-fsync",
        )  # fmt: skip
        await self._until("etcd", self._is_etcd_ready)

    async def _spawn(self, name: str, *flags: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = await asyncio.create_subprocess_exec(
                str(bin_dir() / name), *flags, stdout=log, stderr=log, cwd=self.folder, preexec_fn=_die_with_parent
            )

    async def _until(self, name: str, is_ready: object) -> None:
        assert callable(is_ready)
        for _ in range(READY_SECONDS * 5):
            if self.processes[name].returncode is not None:
                break
            if await is_ready():
                return
            await asyncio.sleep(0.2)
        last = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError(f"{name} is not ready; its last lines:\n" + "\n".join(last))

    async def _is_etcd_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self._etcd_port}/health"
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def _is_ready(self) -> bool:
        if not self.ca_file.exists():
            return False
        headers = {"Authorization": f"Bearer {self.admin_token}"}
        try:
            async with aiohttp.ClientSession(headers=headers) as session:
                for path in ("/readyz", "/api/v1/namespaces/default"):
                    async with session.get(self.url + path, ssl=self.ssl_context()) as answer:
                        if answer.status != 200:
                            return False
        except aiohttp.ClientError:
            return False
        return True
