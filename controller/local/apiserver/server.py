"""The local API server: store, HTTP and garbage collection, started and stopped as one.

In: options. Out: a Kubernetes API on a loopback port, its kubeconfig, and the store for those in the same process.
Never: an address other than loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from aiohttp import web

from controller.local.apiserver.admission import tfjob_causes
from controller.local.apiserver.collector import Collector
from controller.local.apiserver.http import Handlers
from controller.local.apiserver.logs import LogReader
from controller.local.apiserver.objects import system_clock
from controller.local.apiserver.store import Store

Json = dict[str, Any]

# The API server's own limit for a request's body.
BODY_LIMIT_BYTES = 3 * 1024 * 1024


class LocalApiServer:
    """A Kubernetes API in memory.

    `port` 0 takes a free one. `token` makes every request need it as a bearer token. `window` is how many changes of
    each resource are kept for resuming watches (None: all). `first_revision` is where resourceVersions start: a server
    that follows another one should start above it. `clock` gives the time that objects carry.
    TFJobs are checked by the project's own admission rules, in place of the CRD's CEL rules, which are not evaluated;
    `store.validators` can be changed.
    `log_reader(namespace, pod, container, **options)` gives a pod's log: bytes or an async iterator of bytes, itself
    or as an awaitable; `options` are the query's (follow, tailLines, previous, …), as text.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        window: int | None = 20_000,
        bookmark_interval_seconds: float = 5.0,
        first_revision: int = 100,
        clock: Callable[[], datetime] = system_clock,
        log_reader: LogReader | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.token = token
        self.store = Store(clock=clock, window=window, first_revision=first_revision)
        self.store.validators[("kubeflow.org", "TFJob")] = [tfjob_causes]
        self._handlers = Handlers(self.store, bookmark_interval_seconds=bookmark_interval_seconds, token=token)
        self._handlers.log_reader = log_reader
        self._runner: web.AppRunner | None = None
        self._collecting: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The server's address, for example http://127.0.0.1:41234; the port is known once it has started."""
        return f"http://{self.host}:{self.port}"

    @property
    def log_reader(self) -> LogReader | None:
        """What serves pods' logs; the kubelet sets it."""
        return self._handlers.log_reader

    @log_reader.setter
    def log_reader(self, reader: LogReader | None) -> None:
        self._handlers.log_reader = reader

    async def _date(self, _: web.Request, response: web.StreamResponse) -> None:
        # the given clock's time also here: clients compare it with their own
        response.headers["Date"] = format_datetime(self.store.clock().astimezone(UTC), usegmt=True)

    async def start(self) -> None:
        """Listens; OSError if the port is in use."""
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.on_response_prepare.append(self._date)
        app.router.add_route("*", "/{path:.*}", self._handlers.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, self.host, self.port, backlog=1024)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = int(runner.addresses[0][1])
        self._collecting = asyncio.create_task(Collector(self.store).run(), name="local-collector")

    async def stop(self) -> None:
        """Ends all watches and stops listening; the store stays readable."""
        for watch in list(self._handlers.watches):
            watch.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._collecting is not None:
            self._collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._collecting
            self._collecting = None

    def kubeconfig(self) -> Json:
        """A kubeconfig for this server, context `tfjob-local`."""
        user: Json = {"token": self.token} if self.token else {}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tfjob-local", "cluster": {"server": self.url}}],
            "users": [{"name": "tfjob-local", "user": user}],
            "contexts": [
                {
                    "name": "tfjob-local",
                    "context": {"cluster": "tfjob-local", "user": "tfjob-local", "namespace": "default"},
                }
            ],
            "current-context": "tfjob-local",
        }
