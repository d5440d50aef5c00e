"""A client to the local API server without a socket: its handlers are called in this process, in virtual time.

In: requests as the controller makes them. Out: the server's answers, and what goes wrong on the way. With no faults it
is the hand of the simulated user and kubelet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from controller.kube import (
    ApiError,
    Conflict,
    Gone,
    KubeClient,
    Response,
    ServerFault,
    Status,
    TooManyRequests,
    Unreachable,
)
from controller.kube.errors import error_of, status_of_body
from controller.local.apiserver.failures import ApiFailure
from controller.local.apiserver.http import Handlers
from controller.local.apiserver.watches import Watch
from tests.sim.faults import Faults

Sent = Callable[[str, str], None]


class MemoryClient(KubeClient):
    """`on_write` is told (`before` or `after`, request) around each request that writes."""

    def __init__(self, handlers: Handlers, faults: Faults | None = None, on_write: Sent | None = None) -> None:
        # Not the parent's: it would open a session.
        self.base_url = "memory:"
        self.clock_offset_seconds = None
        self.request_count = 0
        self.is_dead = False
        self._handlers = handlers
        self._faults = faults
        self._on_write = on_write
        self._lists: dict[str, bytes] = {}

    def limit_rate(self, rate: Any) -> None:
        """Virtual time costs nothing."""

    async def close(self) -> None:
        self.is_dead = True

    async def request(self, method: str, path: str, **options: Any) -> Response:
        """One request, with whatever goes wrong. Raises ApiError."""
        self.request_count += 1
        faults = self._faults
        where = f"{method} {path}"
        if faults is None:
            return await self._answered(method, path, options)
        await asyncio.sleep(faults.luck.uniform(0.001, 0.02))
        if faults.happens("slow request"):
            await asyncio.sleep(faults.luck.uniform(0.2, 12.0))
        self._refuse(where, method)
        if method != "GET" and self._on_write:
            self._on_write("before", where)
        answer = await self._answered(method, path, options)
        if method != "GET" and self._on_write:
            self._on_write("after", where)
        if faults.happens("lost answer"):
            raise Unreachable(f"{where}: no answer", was_sent=True)
        if faults.happens("server fault after it took effect"):
            raise ServerFault(Status(500, "InternalError", f"{where}: simulated, it took effect"))
        if method == "GET" and (options.get("query") or {}).get("limit"):
            answer = self._perhaps_stale(path, answer)
        await asyncio.sleep(faults.luck.uniform(0.001, 0.02))
        return answer

    def _refuse(self, where: str, method: str) -> None:
        faults = self._faults
        assert faults is not None
        if faults.happens("lost request"):
            raise Unreachable(f"{where}: no way", was_sent=faults.luck.random() < 0.5)
        if faults.happens("server fault"):
            raise ServerFault(Status(500, "InternalError", f"{where}: simulated"))
        if faults.happens("busy server"):
            raise TooManyRequests(
                Status(429, "TooManyRequests", "simulated"), retry_after_seconds=faults.luck.choice([0, 1, 3])
            )
        if method == "PATCH" and faults.happens("conflict"):
            raise Conflict(Status(409, "Conflict", f"{where}: simulated"))

    def _perhaps_stale(self, path: str, answer: Response) -> Response:
        """A list that some replica of the API server answers from its past."""
        assert self._faults is not None
        earlier = self._lists.get(path)
        if earlier is not None and self._faults.happens("stale list"):
            return Response(200, answer.headers, earlier)
        self._lists[path] = answer.body
        return answer

    async def _answered(self, method: str, path: str, options: dict[str, Any]) -> Response:
        answer = await self._handlers.handle(_request(method, path, options))
        assert isinstance(answer, web.Response)
        body = bytes(answer.body) if isinstance(answer.body, bytes | bytearray) else b""
        if answer.status >= 300:
            raise error_of(status_of_body(answer.status, body))
        return Response(answer.status, answer.headers, body)

    @asynccontextmanager
    async def stream(self, path: str, **options: Any) -> AsyncIterator[Any]:
        """A watch, with whatever goes wrong. Raises ApiError."""
        faults = self._faults
        if faults is not None:
            await asyncio.sleep(faults.luck.uniform(0.001, 0.05))
            self._refuse(f"WATCH {path}", "GET")
            if faults.happens("expired watch"):
                raise Gone(Status(410, "Expired", "simulated"))
        try:
            watch = await self._handlers.open_watch(_request("GET", path, options))
        except ApiFailure as failure:
            raise error_of(status_of_body(failure.code, msgspec.json.encode(failure.status()))) from None
        answer = MemoryAnswer(watch, faults)
        try:
            yield SimpleNamespace(content=answer, close=answer.close)
        finally:
            await answer.end()


class MemoryAnswer:
    """The bytes of a watch as they come."""

    def __init__(self, watch: Watch, faults: Faults | None) -> None:
        self._watch = watch
        self._faults = faults
        self._chunks: deque[bytes] = deque()
        self._has_news = asyncio.Event()
        self._failure: ApiError | None = None
        self._pump = asyncio.create_task(self._run())

    async def readany(self) -> bytes:
        """The next bytes; empty at the end. Raises Unreachable when the watch is cut."""
        while not self._chunks:
            if self._failure is not None:
                raise self._failure
            self._has_news.clear()
            await self._has_news.wait()
        return self._chunks.popleft()

    def close(self) -> None:
        """Cuts it."""
        self._failure = Unreachable("the connection is closed", was_sent=True)
        self._has_news.set()

    async def end(self) -> None:
        self._watch.stop()
        self._pump.cancel()
        with suppress(asyncio.CancelledError):
            await self._pump

    async def _run(self) -> None:
        faults = self._faults
        async for lines in self._watch.lines():
            if faults is not None:
                if faults.happens("delayed delivery"):
                    await asyncio.sleep(faults.luck.uniform(0.05, 6.0))
                if faults.happens("cut watch"):
                    self.close()
                    return
                if faults.happens("repeated delivery"):
                    self._chunks.append(lines)
            self._chunks.append(lines)
            self._has_news.set()
        self._chunks.append(b"")
        self._has_news.set()


def _request(method: str, path: str, options: dict[str, Any]) -> web.Request:
    query = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options.get("query") or {}).items()
        if value is not None
    }
    body = options.get("body")
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    headers = {"Accept": options.get("accept") or "application/json", "Host": "memory"}
    if body is not None:
        headers["Content-Type"] = options.get("content_type") or "application/json"
    payload = StreamReader(MagicMock(), 2**22, loop=asyncio.get_running_loop())
    payload.feed_data(data)
    payload.feed_eof()
    return make_mocked_request(
        method, path + ("?" + urlencode(query) if query else ""), headers=headers, payload=payload
    )
