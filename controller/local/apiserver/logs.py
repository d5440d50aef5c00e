"""Pods' logs: the request checked against the pod, the kubelet's reader asked, its answer passed on.

In: a request for a pod's log, and the reader that the kubelet has set. Out: the log, whole or as it comes.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable
from typing import Any

from aiohttp import web

from controller.local.apiserver.failures import bad_request, not_implemented
from controller.local.apiserver.replies import HEADERS
from controller.local.apiserver.requests import Target
from controller.local.apiserver.store import Store

LogReader = Callable[..., Any]


async def pod_log(store: Store, reader: LogReader | None, request: web.Request, target: Target) -> web.StreamResponse:
    """GET of a pod's log. `ApiFailure` 400 for a container that is not the pod's, 501 while there is no kubelet."""
    pod = store.get_stored(target.resource, target.namespace, target.name).body
    names = [container["name"] for container in pod["spec"]["containers"]]
    container = request.query.get("container") or names[0]
    if not request.query.get("container") and len(names) > 1:
        listed = " ".join(names)
        text = f"a container name must be specified for pod {target.name}, choose one of: [{listed}]"
        raise bad_request(text)
    if container not in names + [c["name"] for c in pod["spec"].get("initContainers") or []]:
        raise bad_request(f"container {container} is not valid for pod {target.name}")
    if reader is None:
        raise not_implemented("pod logs while no kubelet is connected")
    options = {key: value for key, value in request.query.items() if key != "container"}
    found = reader(target.namespace, target.name, container, **options)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, bytes):
        return web.Response(body=found, headers=HEADERS | {"Content-Type": "text/plain"})
    return await _streamed(request, found)


async def _streamed(request: web.Request, chunks: AsyncIterable[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers=HEADERS | {"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response
