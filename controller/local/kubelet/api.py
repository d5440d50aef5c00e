"""The requests that a kubelet makes, over plain HTTP with aiohttp.

In: an API server's URL. Out: pods as decoded objects, watch events in order, errors by meaning.
Never: a decision.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

__all__ = ["Expired", "KubeletApi", "RefusedRequest"]

Json = dict[str, Any]

_REQUEST_SECONDS = 30
_TRIES, _BETWEEN_TRIES_SECONDS = 50, 0.2
_WATCH_SECONDS = 300


class RefusedRequest(Exception):
    """The API server answered with an error: its HTTP `code`, and its words as the message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Expired(Exception):
    """The API server no longer has what came after this resourceVersion: list again."""


class KubeletApi:
    """A client for one API server. Open it with `open`, from the event loop that uses it. `trust` is what an https
    server's certificate is checked with; None is the system's."""

    def __init__(self, api_url: str, token: str | None, trust: ssl.SSLContext | None = None) -> None:
        self._api_url = api_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._trust = trust
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._trust if self._trust is not None else True, limit=0)
        self._session = aiohttp.ClientSession(headers=self._headers, connector=connector)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def list_pods(self) -> tuple[list[Json], str]:
        """All pods and the list's resourceVersion."""
        answer = await self._request("GET", "/api/v1/pods")
        return answer.get("items") or [], answer["metadata"]["resourceVersion"]

    async def watch_pods(self, resource_version: str) -> AsyncIterator[tuple[str, Json]]:
        """The watch's (type, object) pairs, bookmarks included, until the server closes it. Raises Expired."""
        parameters = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_SECONDS)
        async with self._opened.get(f"{self._api_url}/api/v1/pods", params=parameters, timeout=timeout) as response:
            if response.status == 410:
                raise Expired
            if response.status != 200:
                raise RefusedRequest(response.status, await response.text())
            async for line in _lines(response.content):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    if event["object"].get("code") == 410:
                        raise Expired
                    raise RefusedRequest(event["object"].get("code", 0), event["object"].get("message", ""))
                yield event["type"], event["object"]

    async def bind(self, pod: Json, node_name: str) -> None:
        """Assign the pod to the node. One that is gone or assigned already is left alone."""
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self._unless_gone("POST", f"{_path_of(pod)}/binding", body)

    async def write_status(self, pod: Json, status: Json) -> None:
        """Write the fields of `status`, if the pod of that name is still this one."""
        patch: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": pod["metadata"]["uid"]}]
        patch.extend({"op": "add", "path": f"/status/{field}", "value": value} for field, value in status.items())
        try:
            await self._request("PATCH", f"{_path_of(pod)}/status", patch, "application/json-patch+json")
        except RefusedRequest as refusal:
            # The test's failure has no code of its own; so look whether it was that.
            if refusal.code != 404 and await self._is_there(pod):
                raise

    async def confirm_deletion(self, pod: Json) -> None:
        """Tell the API server that nothing of the pod runs any more: it may go."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        await self._unless_gone("DELETE", _path_of(pod), body)

    async def find(self, namespace: str, plural: str, name: str) -> Json | None:
        """A ConfigMap or Secret; None if there is none, or if the server does not serve the kind."""
        try:
            return await self._request("GET", f"/api/v1/namespaces/{namespace}/{plural}/{name}")
        except RefusedRequest as refusal:
            if refusal.code in (404, 501):
                return None
            raise

    async def create_notice(self, notice: Json) -> None:
        """Create a core/v1 Event."""
        namespace = notice["metadata"]["namespace"]
        await self._request("POST", f"/api/v1/namespaces/{namespace}/events", notice)

    @property
    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the kubelet's client is not open")
        return self._session

    async def _is_there(self, pod: Json) -> bool:
        try:
            found = await self._request("GET", _path_of(pod))
        except RefusedRequest as refusal:
            if refusal.code == 404:
                return False
            raise
        return bool(found["metadata"]["uid"] == pod["metadata"]["uid"])

    async def _unless_gone(self, method: str, path: str, body: Json) -> None:
        try:
            await self._request(method, path, body)
        except RefusedRequest as refusal:
            # 409: another pod has the name by now, or it is assigned already.
            if refusal.code not in (404, 409):
                raise

    async def _request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        """One request; while the server cannot be reached, again. Raises RefusedRequest, or aiohttp.ClientError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        for tries_left in range(_TRIES, 0, -1):
            try:
                async with self._opened.request(
                    method,
                    self._api_url + path,
                    data=data,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
                ) as response:
                    text = await response.text()
                    if response.status >= 400:
                        raise RefusedRequest(response.status, _message_of(text))
                    answer: Json = json.loads(text) if text else {}
                    return answer
            except (aiohttp.ClientConnectionError, TimeoutError):
                if tries_left == 1:
                    raise
                await asyncio.sleep(_BETWEEN_TRIES_SECONDS)
        raise AssertionError("unreachable")


def _path_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _message_of(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; the reader's own `readline` has a limit that a large pod exceeds."""
    rest = b""
    async for piece in content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
