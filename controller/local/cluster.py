"""The local cluster: an embedded Postgres, an API server in memory, and a kubelet of processes, together.

In: a state folder. Out: URLs and a kubeconfig while the `async with` lasts. Everything ends with this process; the
database's files stay. Never: the controller itself; that is the same code as in a cluster (app.py).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from controller.errors import UserError
from controller.local.apiserver import LocalApiServer
from controller.local.kubelet import ProcessKubelet
from controller.local.manifests import Manifest, crd_manifest
from controller.local.postgres import EmbeddedPostgres
from controller.log.migrate import upgrade

RUNNING_FILE = "running.json"
RUN_PREFIX = "run-"
REVISIONS_A_SECOND = 10_000
"""A new API server counts on from here times the clock: its resourceVersions lie above those of every run before, so
that the log, which outlives it, sees time go forward."""


class LocalCluster:
    """Starts all three in `__aenter__`; `say` gets each plain sentence that a person should read once."""

    def __init__(self, state_dir: Path, *, port: int = 0, say: Callable[[str], None]) -> None:
        self.state_dir = state_dir
        self.server: LocalApiServer
        self.database_url = ""
        self._port = port
        self._say = say
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> LocalCluster:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        postgres = await self._stack.enter_async_context(EmbeddedPostgres(self.state_dir))
        self.database_url = postgres.url
        await upgrade(postgres.url)
        self.server = LocalApiServer(port=self._port, first_revision=int(time.time() * REVISIONS_A_SECOND))
        try:
            await self.server.start()
        except OSError as error:
            where = f"port {self._port} of 127.0.0.1" if self._port else "a port of 127.0.0.1"
            raise UserError(f"the API server cannot take {where}: {error.strerror}; name another with --port") from None
        self._stack.push_async_callback(self.server.stop)
        self.server.store.create("customresourcedefinitions.apiextensions.k8s.io", crd_manifest())
        for earlier in self.state_dir.glob(f"{RUN_PREFIX}*"):
            shutil.rmtree(earlier, ignore_errors=True)
        # Logs of this run's pods can be read until the next one begins.
        work_dir = Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=self.state_dir))
        kubelet = ProcessKubelet(self.server.url, work_dir, say=self._say)
        self.server.log_reader = kubelet.log_reader
        await kubelet.start()
        self._stack.push_async_callback(kubelet.stop)
        self.kubeconfig = self.state_dir / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self.server.kubeconfig(), indent=2))
        self.redaction_key_file = self.state_dir / "redaction.key"
        if not self.redaction_key_file.exists():
            self.redaction_key_file.write_bytes(secrets.token_bytes(32))
            self.redaction_key_file.chmod(0o600)
        self._note_running()

    def _note_running(self) -> None:
        """Lets `tfjob history` and `tfjob list` in another terminal find this database."""
        note = self.state_dir / RUNNING_FILE
        note.write_text(json.dumps({"pid": os.getpid(), "database_url": self.database_url}))
        self._stack.callback(note.unlink, missing_ok=True)

    def submit(self, manifest: Manifest) -> dict[str, Any]:
        """Creates one object, and its namespace when it is missing; the object as stored."""
        store = self.server.store
        if manifest.namespace not in {each["metadata"]["name"] for each in store.list("namespaces")}:
            store.create("namespaces", {"metadata": {"name": manifest.namespace}})
        return store.create(manifest.plural, manifest.body, manifest.namespace).body


def running_database_url(state_dir: Path) -> str | None:
    """The database of a `tfjob local` that runs on this state folder now; None when none does."""
    try:
        note = json.loads((state_dir / RUNNING_FILE).read_text())
        os.kill(note["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return str(note["database_url"])
