"""The runner's own controller: begun, stopped at once, begun again with only its log.

In: settings, a client of the script. Out: it runs in this process, the same code as in a cluster. Never: a step.
"""

from __future__ import annotations

import asyncio

from controller.app import Controller
from controller.scenario.between import ScriptedClient
from controller.settings import Settings


class Life:
    """One controller at a time, over one log."""

    def __init__(self, settings: Settings, client: ScriptedClient) -> None:
        self.client = client
        self._settings = settings
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts it."""
        self._running = asyncio.create_task(Controller(self._settings, self.client).run(asyncio.Event()))

    async def crash(self) -> None:
        """It stops at once: nothing is drained."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            self._running = None

    def check(self) -> None:
        """Raises what the controller died of, if it did."""
        if self._running is not None and self._running.done():
            self._running.result()
