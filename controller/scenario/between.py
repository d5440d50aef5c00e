"""Between the runner's controller and the API server: watches that can be cut, and creations that are refused.

In: what a step wants. Out: the client that the controller is given. Never: a change of what goes through.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from controller.kube import Forbidden, Gone, KubeClient, Response, Status
from controller.kube.credentials import Credentials, credentials_of

POLL_SECONDS = 0.01


class ScriptedClient(KubeClient):
    """A client whose watches end at `cut`, stay away until `mend`, and are then told that what they missed is gone."""

    def __init__(self, credentials: Credentials, base_url: str) -> None:
        super().__init__(credentials, base_url)
        self.refusals: dict[str, str] = {}
        """`pods` or `services` → the words in which their creation is refused."""
        self._open: dict[str, aiohttp.ClientResponse] = {}
        self._known: set[str] = set()
        self._waiting: set[str] = set()
        self._expired: set[str] = set()
        self._mended = asyncio.Event()
        self._mended.set()

    @classmethod
    async def to(cls, kubeconfig: Path | None, context: str | None) -> ScriptedClient:
        """A client for the cluster that kubectl would take. Raises UserError."""
        credentials = await credentials_of(kubeconfig, context, None)
        return cls(credentials, (await credentials.access()).base_url)

    async def request(self, method: str, path: str, **options: Any) -> Response:
        """One request; a creation that is to be refused is not sent. Raises ApiError."""
        plural = path.rpartition("/")[2]
        if method == "POST" and plural in self.refusals:
            raise Forbidden(Status(403, "Forbidden", self.refusals[plural]))
        return await super().request(method, path, **options)

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """A watch. Raises Gone, once each, for those that were away."""
        self._known.add(path)
        if not self._mended.is_set():
            self._waiting.add(path)
            try:
                await self._mended.wait()
            finally:
                self._waiting.discard(path)
        if path in self._expired:
            self._expired.discard(path)
            raise Gone(Status(410, "Expired", "too old resource version: the scenario cut this watch"))
        async with super().stream(path, **options) as answer:
            self._open[path] = answer
            try:
                yield answer
            finally:
                self._open.pop(path, None)

    async def cut(self) -> None:
        """Ends all watches, and returns when each has come back and waits."""
        paths = set(self._open)
        self._mended.clear()
        for answer in list(self._open.values()):
            answer.close()
        while not paths <= self._waiting:  # noqa: ASYNC110 - they come one by one, each after its own delay
            await asyncio.sleep(POLL_SECONDS)

    def mend(self) -> None:
        """Lets the watches go on, all in the same moment; each is told once that it missed something."""
        self._expired = set(self._known)
        self._mended.set()
