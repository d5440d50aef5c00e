"""A scripted API server for the watch's tests: each request for pods follows a script, the rest is empty and calm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from controller.kube import KubeClient, connect
from controller.model.events import GapOpened, GapReason, Op
from controller.watch import Mark, Pace, StreamFact, Watches
from controller.watch.heads import Head
from tests.edges.fault_server import FaultServer, cut, status_body
from tests.edges.watch_world import ListSink, LogOfSink, Pauses, ticking

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pod(name: str, version: int, uid: str = "", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"training.kubeflow.org/job-name": "job"},
            **metadata,
        },
        "spec": {},
        "status": {},
    }


def line(op: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": op, "object": body}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def page(version: int, *items: dict[str, Any], go_on: str = "") -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": str(version), "continue": go_on}, "items": list(items)})


async def stream(request: web.Request, *chunks: bytes, ends: str = "stay") -> web.StreamResponse:
    """A watch that sends these chunks and then stays open, ends, or is cut."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    for chunk in chunks:
        await answer.write(chunk)
    if ends == "stay":
        await asyncio.Event().wait()
    if ends == "cut":
        cut(request)
    return answer


async def calm(request: web.Request) -> web.StreamResponse:
    """An empty list, or a watch that says nothing."""
    return await stream(request) if request.query.get("watch") else page(10)


class Api:
    """A server whose pods follow scripts, one each request and the last for ever; everything else is empty and calm."""

    def __init__(self, server: FaultServer) -> None:
        self.server = server
        self.lists: list[Script] = []
        self.watches: list[Script] = []
        self.gets: dict[str, Script] = {}
        self.notices: Script = calm
        self.list_count = self.watch_count = self.get_count = 0
        server.handler = self.handle

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/events"):
            return await self.notices(request)
        if request.query.get("watch"):
            if not request.path.endswith("/pods"):
                return await stream(request)
            self.watch_count += 1
            return await self._next(self.watches, self.watch_count)(request)
        if request.path.endswith("/pods"):
            self.list_count += 1
            return await self._next(self.lists, self.list_count)(request) if self.lists else page(10)
        if "/pods/" in request.path:
            self.get_count += 1
            name = request.path.rpartition("/")[2]
            if name in self.gets:
                return await self.gets[name](request)
            return status_body(404, "NotFound", name=name)
        return page(10)

    @staticmethod
    def _next(scripts: list[Script], count: int) -> Script:
        return scripts[min(count, len(scripts)) - 1]

    def watched(self) -> list[str]:
        """The resourceVersions from which pods were watched."""
        return [
            request.query["resourceVersion"]
            for request in self.server.seen
            if request.query.get("watch") and request.path.endswith("/pods")
        ]


def sends(*chunks: bytes, ends: str = "stay") -> Script:
    return lambda request: stream(request, *chunks, ends=ends)


def lists(version: int, *items: dict[str, Any], go_on: str = "") -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        return page(version, *items, go_on=go_on)

    return answer


def refuses(code: int, reason: str, **details: Any) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        return status_body(code, reason, **details)

    return answer


async def html(request: web.Request) -> web.StreamResponse:
    return web.Response(status=502, content_type="text/html", text="<html>\n<body>Bad Gateway</body>\n</html>\n")


class Setting:
    def __init__(self, api: Api, client: KubeClient) -> None:
        self.api = api
        self.client = client
        self.sink = ListSink()
        self.pauses = Pauses()
        self.now = 0.0

    def watches(self, known: list[Head] | None = None, mark: int | None = None, **pace: Any) -> Watches:
        log = Known(known or [])
        marks = {} if mark is None else {name: Mark(name, mark, "list", 7) for name in ("tfjobs", "pods", "services")}
        chosen = Pace(pause=self.pauses, luck=lambda: 0.5, monotonic=lambda: self.now, doubt_seconds=0.0)
        chosen = replace(chosen, **pace)
        return Watches(self.client, log, self.sink, marks, None, ticking(), redaction_key=b"k", pace=chosen)

    def rows(self) -> list[tuple[str, str]]:
        """What was observed of pods, without gaps."""
        return [row for row in self.sink.rows("pods") if row[0] not in ("GAP", "SYNCED")]

    def reasons(self) -> list[GapReason]:
        facts = [item.fact for item in self.sink.items if isinstance(item, StreamFact)]
        return [fact.reason for fact in facts if isinstance(fact, GapOpened)]


class Known(LogOfSink):
    def __init__(self, heads: list[Head]) -> None:
        super().__init__()
        self.known = {head.uid: head for head in heads}

    async def heads(self, resource: str) -> dict[str, Head]:
        return self.known if resource == "pods" else {}


def head(name: str, version: int) -> Head:
    return Head("ns", name, f"uid-{name}", version, "job-uid", "job")


END = pod("end", 99)
LAST = sends(line("ADDED", END))


async def ended(setting: Setting) -> None:
    await setting.sink.until(setting.sink.has(Op.ADDED, "end"))


@asynccontextmanager
async def scripted(folder: Path) -> AsyncIterator[Setting]:
    """A scripted server, a client of it, a sink."""
    async with FaultServer() as server, await connect(server.kubeconfig(folder)) as client:
        yield Setting(Api(server), client)
