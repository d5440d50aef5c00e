"""An HTTP proxy in front of the API server that writes down what one controller sends.

In: the control plane. Out: a kubeconfig that leads through the proxy; every request's method and path, as it arrives.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.controlplane.server import ControlPlane


class Recorded:
    """`writes`: (method, path) of whatever was no GET and not about a Lease."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.writes: list[tuple[str, str]] = []
        self.lease_writes = 0


@asynccontextmanager
async def recording(plane: ControlPlane, folder: Path) -> AsyncIterator[Recorded]:
    """The proxy while the block lasts; its kubeconfig is in `folder`."""
    recorded = Recorded(folder / "proxied")
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=plane.ssl_context(), limit=0))

    async def forward(request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            if "/leases" in request.path:
                recorded.lease_writes += 1
            else:
                recorded.writes.append((request.method, request.path))
        headers = {key: request.headers[key] for key in _PASSED if key in request.headers}
        async with session.request(
            request.method,
            f"{plane.url}{request.path_qs}",
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            passed = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            with suppress(aiohttp.ClientConnectionResetError):  # a watch that its reader has left
                await passed.prepare(request)
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
                await passed.write_eof()
            return passed

    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = plane.kubeconfig_of(plane.admin_token)
    config["clusters"] = [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    recorded.kubeconfig.write_text(json.dumps(config))
    try:
        yield recorded
    finally:
        await session.close()
        await runner.cleanup()


_PASSED = ("Authorization", "Content-Type", "Accept")
