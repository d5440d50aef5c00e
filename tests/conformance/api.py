"""A thin client for the conformance suite: raw HTTP against an API server, answers as they came.

In: a server's address and credentials. Out: `Answer` values (status, decoded body, headers) and open watches.
Never: retries, typed models or anything that could hide what the server said.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
DEADLINE_SECONDS = 20.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Target:
    """One API server under test. `has_window_control`: its watch history can be compacted at will."""

    name: str
    url: str
    kubeconfig: Path
    token: str | None = None
    ca_file: Path | None = None
    local: Any = None


@dataclass(frozen=True)
class Answer:
    """One response: `body` is decoded JSON, or text where it is none."""

    status: int
    body: Any
    headers: Any

    @property
    def reason(self) -> str:
        """The Status object's reason."""
        return str(self.body.get("reason", ""))

    def refusal(self) -> tuple[int, str]:
        """(code, reason) of a Status that says no."""
        assert self.body["kind"] == "Status", self.body
        assert self.body["status"] == "Failure", self.body
        assert self.body["code"] == self.status, self.body
        return self.status, self.reason

    def causes(self) -> list[tuple[str, str, str]]:
        """(field, reason, message) of each cause, sorted."""
        return sorted(
            (c.get("field", ""), c.get("reason", ""), c.get("message", ""))
            for c in self.body.get("details", {}).get("causes", [])
        )

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        return [value.split('"', 1)[1][:-1].replace('\\"', '"') for value in self.headers.getall("Warning", [])]


class OpenWatch:
    """A running watch: `next()` gives its lines as (type, object)."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self, seconds: float = DEADLINE_SECONDS) -> tuple[str, Json]:
        """The next line; TimeoutError if none comes, EOFError at the end."""
        line = await asyncio.wait_for(self.response.content.readline(), seconds)
        if not line:
            raise EOFError("the watch has ended")
        event = json.loads(line)
        return event["type"], event["object"]

    async def until(self, kind: str, name: str = "") -> Json:
        """Reads on to the first line of that type (and that object's name)."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                got, obj = await self.next()
                if got == kind and (not name or obj["metadata"].get("name") == name):
                    return obj

    async def rest(self) -> list[tuple[str, Json]]:
        """All lines up to the end of the watch."""
        found = []
        while True:
            try:
                found.append(await self.next())
            except EOFError:
                return found


class Api:
    """Requests to one API server."""

    def __init__(self, target: Target, session: aiohttp.ClientSession) -> None:
        self.target = target
        self.session = session

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: Any,
    ) -> Answer:
        """One request; `body` is encoded as JSON unless it is bytes."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Accept": accept}
        if data is not None:
            headers["Content-Type"] = content_type
        params = {key: str(value) for key, value in query.items()}
        async with self.session.request(
            method, self.target.url + path, data=data, headers=headers, params=params
        ) as response:
            raw = await response.read()
            is_json = "json" in response.headers.get("Content-Type", "")
            return Answer(response.status, json.loads(raw) if is_json else raw.decode(), response.headers)

    async def get(self, path: str, **query: Any) -> Answer:
        """GET."""
        return await self.send("GET", path, **query)

    async def post(self, path: str, body: Any, **query: Any) -> Answer:
        """POST."""
        return await self.send("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: Any) -> Answer:
        """PUT."""
        return await self.send("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **query: Any) -> Answer:
        """PATCH of that content type."""
        return await self.send("PATCH", path, body, content_type=kind, **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        """DELETE."""
        return await self.send("DELETE", path, body, **query)

    async def made(self, path: str, body: Json, **query: Any) -> Json:
        """POST that must answer 201; gives the object."""
        answer = await self.post(path, body, **query)
        assert answer.status == 201, answer.body
        return dict(answer.body)

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "application/json", **query: Any) -> AsyncIterator[OpenWatch]:
        """An open watch, closed at the end of the block."""
        params = {"watch": "true"} | {key: str(value) for key, value in query.items()}
        async with self.session.get(self.target.url + path, params=params, headers={"Accept": accept}) as response:
            assert response.status == 200, await response.text()
            yield OpenWatch(response)

    async def gone(self, path: str) -> None:
        """Waits until GET answers 404."""

        async def is_gone() -> bool:
            return (await self.get(path)).status == 404

        await until(is_gone, f"{path} is gone")

    async def marked(self, path: str) -> None:
        """Waits until the object is being deleted."""

        async def is_marked() -> bool:
            return "deletionTimestamp" in (await self.get(path)).body["metadata"]

        await until(is_marked, f"{path} is being deleted")


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Polls a condition; fails if it does not hold in time."""
    ends_at = time.monotonic() + DEADLINE_SECONDS
    while True:
        if await holds():
            return
        assert time.monotonic() < ends_at, f"not in time: {what}"
        await asyncio.sleep(POLL_SECONDS)


def session_for(target: Target) -> aiohttp.ClientSession:
    """A session with the target's credentials."""
    context: ssl.SSLContext | bool = True
    if target.ca_file is not None:
        context = ssl.create_default_context(cafile=str(target.ca_file))
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    return aiohttp.ClientSession(headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(total=120))
