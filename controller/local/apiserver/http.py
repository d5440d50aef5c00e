"""The HTTP face of the store: requests in, responses and watch streams out.

In: aiohttp requests. Out: the store's answers in Kubernetes' wire forms.
Never: a rule of the API; whatever a request means is decided in store.py and the modules it uses.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from controller.local.apiserver import discovery, openapi, writing
from controller.local.apiserver.answers import bookmark_body, encoded, object_bytes, page_bytes, representation_of
from controller.local.apiserver.binding import bind
from controller.local.apiserver.failures import (
    ApiFailure,
    bad_request,
    forbidden_field,
    invalid,
    method_not_allowed,
    not_implemented,
    too_large_resource_version,
)
from controller.local.apiserver.listing import ListParameters, page_of, predicate_of, revision_of
from controller.local.apiserver.logs import LogReader, pod_log
from controller.local.apiserver.reading import WriteOptions
from controller.local.apiserver.replies import HEADERS, json_or_404, json_response, response_of
from controller.local.apiserver.requests import (
    Form,
    NoSuchPath,
    Target,
    decoded,
    form_of,
    is_true,
    target_of,
    wants_aggregated,
)
from controller.local.apiserver.revisions import Stored
from controller.local.apiserver.store import Store
from controller.local.apiserver.watches import Watch, WatchRequest

Json = dict[str, Any]

# How long a read waits for a resourceVersion that is not there yet, as the API server's watch cache does.
FUTURE_READ_SECONDS = 3.0


class Handlers:
    """All routes of one server. `log_reader` may be set later, when the kubelet has started."""

    def __init__(self, store: Store, *, bookmark_interval_seconds: float, token: str | None) -> None:
        self.store = store
        self.log_reader: LogReader | None = None
        self.bookmark_interval_seconds = bookmark_interval_seconds
        self.token = token
        self.watches: set[Watch] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The one entry: every path and method."""
        try:
            self._check_token(request)
            return await self._routed(request)
        except NoSuchPath:
            return web.Response(status=404, text="404 page not found\n", headers=HEADERS)
        except ApiFailure as failure:
            return json_response(failure.status(), failure.code)

    def _check_token(self, request: web.Request) -> None:
        if self.token is None or request.path in ("/healthz", "/livez", "/readyz", "/version"):
            return
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise ApiFailure(401, "Unauthorized", "Unauthorized")

    async def _routed(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/") or "/"
        plain = self._plain(request, path)
        if plain is not None:
            return plain
        if not path.startswith(("/api/", "/apis/")):
            raise NoSuchPath
        target = target_of(self.store.registry, path)
        match request.method, bool(target.name), target.subresource:
            case "GET", True, "" | "status":
                return self._get(request, target)
            case "GET", True, "log":
                return await pod_log(self.store, self.log_reader, request, target)
            case "GET", False, _:
                return await self._collection(request, target)
            case "POST", False, _:
                return await self._write(request, target, writing.create)
            case "POST", True, "binding":
                return await self._bind(request, target)
            case "PUT", True, "" | "status":
                return await self._write(request, target, writing.put)
            case "PUT", True, "finalize":
                raise not_implemented("the subresource finalize of namespaces")
            case "PATCH", True, "" | "status":
                return await self._write(request, target, writing.patch)
            case "DELETE", True, "":
                return await self._delete(request, target)
            case "DELETE", False, _ if "deletecollection" in target.resource.verbs:
                return await self._delete_collection(request, target)
        if request.method in ("PUT", "PATCH") and target.resource.is_custom and not target.name:
            raise bad_request("name must be provided")
        raise method_not_allowed()

    # --- what the server says of itself ------------------------------------------------------------------------

    def _plain(self, request: web.Request, path: str) -> web.Response | None:
        registry = self.store.registry
        match path:
            case "/healthz" | "/livez" | "/readyz":
                return web.Response(text="ok", headers=HEADERS)
            case "/version":
                return json_response(discovery.VERSION)
            case "/openapi/v2":
                return json_response(openapi.swagger())
            case "/openapi/v3":
                return json_response(openapi.index(registry))
            case "/api" | "/apis" if wants_aggregated(request.headers.get("Accept", "")):
                body = encoded(discovery.aggregated(registry, core=path == "/api"))
                kind = {"Content-Type": discovery.AGGREGATED_TYPE, "Vary": "Accept"}
                return web.Response(body=body, headers=HEADERS | kind)
            case "/api":
                return json_response(discovery.api_versions(request.host))
            case "/apis":
                return json_response(discovery.api_group_list(registry))
        if path.startswith("/openapi/v3/"):
            return json_or_404(openapi.document(registry, path.removeprefix("/openapi/v3/")))
        parts = path.strip("/").split("/")
        if parts[0] == "apis" and len(parts) == 2:
            return json_or_404(discovery.group_document(registry, parts[1]))
        if parts[0] == "apis" and len(parts) == 3:
            return json_or_404(discovery.api_resource_list(registry, parts[1], parts[2]))
        if parts == ["api", "v1"]:
            return json_or_404(discovery.api_resource_list(registry, "", "v1"))
        return None

    # --- reading -----------------------------------------------------------------------------------------------

    def _get(self, request: web.Request, target: Target) -> web.Response:
        form = form_of(request.headers.get("Accept", ""))
        stored = self.store.get_stored(target.resource, target.namespace, target.name)
        return self._object(request, target, stored, 200, form)

    def _object(
        self,
        request: web.Request,
        target: Target,
        stored: Stored,
        status: int = 200,
        form: Form | None = None,
        options: WriteOptions | None = None,
    ) -> web.Response:
        shape = form or form_of(request.headers.get("Accept", ""))
        target = self._fresh(target)
        body = object_bytes(self.store, target, stored, shape, request.query.get("includeObject", "Metadata"))
        return response_of(body, status, shape, self._warnings(target, options))

    def _fresh(self, target: Target) -> Target:
        # a CRD may have been written since the target was looked up
        resource = self.store.fresh(target.resource)
        version = resource.version_of(target.version.name) or target.version
        return Target(resource, version, target.namespace, target.name, target.subresource)

    def _warnings(self, target: Target, options: WriteOptions | None) -> list[str]:
        warnings = list(options.warnings) if options else []
        if target.version.deprecation_warning is not None:
            name = f"{target.resource.group}/{target.version.name} {target.resource.kind}"
            warnings.append(target.version.deprecation_warning or f"{name} is deprecated")
        return warnings

    async def _collection(self, request: web.Request, target: Target) -> web.StreamResponse:
        form = form_of(request.headers.get("Accept", ""))
        asked = ListParameters.of(request.query)
        selects = predicate_of(target.resource, target.version, asked.labels, asked.fields)
        if is_true(request.query.get("watch")):
            return await self._watch(request, target, form, asked, selects)
        await self._reached(revision_of(asked.resource_version))

        def body_of(stored: Stored) -> Json:
            return self.store.body_in(stored, target.resource, target.version)

        page = page_of(self.store.revisions, target.resource, target.namespace, asked, selects, body_of)
        include = request.query.get("includeObject", "Metadata")
        return response_of(page_bytes(self.store, target, page, form, include), 200, form, self._warnings(target, None))

    async def _reached(self, revision: int) -> None:
        if revision <= self.store.revisions.current:
            return
        loop = asyncio.get_running_loop()
        reached = asyncio.Event()
        end = self.store.subscribe(lambda change: reached.set() if change.revision >= revision else None)
        ends_at = loop.time() + FUTURE_READ_SECONDS
        try:
            await asyncio.wait_for(reached.wait(), ends_at - loop.time())
        except TimeoutError:
            raise too_large_resource_version(revision, self.store.revisions.current) from None
        finally:
            end()

    async def open_watch(self, request: web.Request) -> Watch:
        """The watch that a request asks for, for readers in the same process. Raises ApiFailure. To be stopped."""
        self._check_token(request)
        target = target_of(self.store.registry, request.path)
        asked = ListParameters.of(request.query)
        selects = predicate_of(target.resource, target.version, asked.labels, asked.fields)
        return await self._opened(request, target, form_of(request.headers.get("Accept", "")), asked, selects)

    async def _opened(
        self, request: web.Request, target: Target, form: Form, asked: ListParameters, selects: Any
    ) -> Watch:
        sends = request.query.get("sendInitialEvents")
        _check_watch(asked, sends)
        since = revision_of(asked.resource_version, watching=True)
        try:
            timeout = float(request.query.get("timeoutSeconds") or 0)
        except ValueError:
            text = f'strconv.ParseInt: parsing "{request.query["timeoutSeconds"]}": invalid syntax'
            raise bad_request(text) from None
        sends_initial = None if sends is None else is_true(sends)
        failure: ApiFailure | None = None
        if sends_initial:
            try:
                await self._reached(since)
            except ApiFailure as too_large:
                failure = too_large
        return Watch(
            self.store,
            WatchRequest(
                resource=target.resource,
                version=target.version,
                namespace=target.namespace,
                selects=selects,
                since=since if since and not sends_initial else None,
                representation=representation_of(
                    self.store, target, form, request.query.get("includeObject", "Metadata")
                ),
                wants_bookmarks=is_true(request.query.get("allowWatchBookmarks")),
                sends_initial_events=sends_initial,
                # without a timeout the server ends a watch after 30 to 60 minutes
                failure=failure,
                timeout_seconds=timeout or random.uniform(1800, 3600),
                bookmark_interval_seconds=self.bookmark_interval_seconds,
                bookmark=lambda revision, annotations: bookmark_body(target, form, revision, annotations),
            ),
        )

    async def _watch(
        self, request: web.Request, target: Target, form: Form, asked: ListParameters, selects: Any
    ) -> web.StreamResponse:
        watch = await self._opened(request, target, form, asked, selects)
        response = web.StreamResponse(headers=HEADERS | {"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        self.watches.add(watch)
        try:
            await response.prepare(request)
            async for lines in watch.lines():
                await response.write(lines)
            await response.write_eof()
        except (ConnectionResetError, ConnectionError):
            pass
        finally:
            watch.stop()
            self.watches.discard(watch)
        return response

    # --- writing -----------------------------------------------------------------------------------------------

    async def _write(
        self, request: web.Request, target: Target, verb: Callable[..., Awaitable[writing.Written]]
    ) -> web.Response:
        stored, status, options = await verb(self.store, request, target)
        return self._object(request, target, stored, status, options=options)

    async def _bind(self, request: web.Request, target: Target) -> web.Response:
        body = decoded(await request.read(), request.headers.get("Content-Type", ""))
        bind(self.store, target.namespace, target.name, body)
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return json_response(done, 201)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = await writing.delete_options(request)
        done = self.store.delete(target.resource, target.namespace, target.name, options)
        if not done.is_gone or target.resource.answers_deleted_object:
            return self._object(request, target, done.last)
        return json_response(writing.deletion_status(target, done))

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        options = await writing.delete_options(request)
        asked = ListParameters.of(request.query)
        form = form_of(request.headers.get("Accept", ""))
        page = self.store.delete_collection(target.resource, target.version, target.namespace, asked, options)
        return response_of(page_bytes(self.store, target, page, form), 200, form, [])


def _check_watch(asked: ListParameters, sends: str | None) -> None:
    match = asked.resource_version_match
    causes = []
    if sends is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(forbidden_field("resourceVersionMatch", text))
    elif sends is None and match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_field("resourceVersionMatch", text))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
