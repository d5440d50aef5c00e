"""The HTTP server: `/livez`, `/readyz`, `/metrics` while the controller runs.

In: an address, a controller. Out: 200 with `ok`, or 503 with one line a reason. Never: an answer from anything but the
controller's own event loop: a loop that is stuck answers nothing, and that is an answer too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from controller.app import Controller
from controller.errors import UserError
from controller.web.exposition import ControllerCollector

log = structlog.get_logger("web")

STOP_SECONDS = 1.0
"""A scrape under way at the end may take so long; nobody waits for it for longer."""


@asynccontextmanager
async def serving(address: str, controller: Controller) -> AsyncIterator[int]:
    """Answers at `address` (host:port, an empty host for all; empty: not at all) while the block lasts; its port.

    Raises UserError when the port cannot be had.
    """
    if not address:
        yield 0
        return
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(_application(controller), access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
        except OSError as error:
            raise UserError(f"--http-address {address}: {error.strerror or error}") from None
        bound = int(runner.addresses[0][1])
        log.info("answering probes", port=bound)
        yield bound
    finally:
        await runner.cleanup()


def _application(controller: Controller) -> web.Application:
    registry = CollectorRegistry()
    registry.register(ControllerCollector(controller.vitals))
    ProcessCollector(registry=registry)

    async def livez(_: web.Request) -> web.Response:
        return _answer(controller.dead())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(await controller.not_ready())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    app = web.Application()
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    return app


def _answer(problems: list[str]) -> web.Response:
    if not problems:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="".join(f"{each}\n" for each in problems))
