"""An HTTP server that answers as it is told, for what no healthy API server does: cuts, silence, garbage, 429."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FaultServer:
    """Serves on a free loopback port. `handler` may be exchanged at any time; `requests` counts by path and kind."""

    def __init__(self) -> None:
        self.handler: Handler = nothing
        self.seen: list[web.Request] = []
        self.arrived = asyncio.Condition()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FaultServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        async with self.arrived:
            self.seen.append(request)
            self.arrived.notify_all()
        return await self.handler(request)

    async def wait_for(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Returns when `condition` holds, looked at whenever a request arrives."""
        async with asyncio.timeout(seconds), self.arrived:
            await self.arrived.wait_for(condition)

    def kubeconfig(self, folder: Path, user: dict[str, Any] | None = None) -> Path:
        """A kubeconfig file in `folder` that names this server."""
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": user or {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        return path


async def nothing(request: web.Request) -> web.StreamResponse:
    """404 without a body."""
    return web.Response(status=404)


def status_body(code: int, reason: str, message: str = "", **details: Any) -> web.Response:
    """A refusal as kube-apiserver words it."""
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message or reason,
            "details": details,
            "code": code,
        },
        status=code,
    )


def cut(request: web.Request) -> None:
    """Cuts the TCP connection of a request at once."""
    assert request.transport is not None
    request.transport.abort()
