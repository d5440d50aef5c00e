"""Edge to the API server: one HTTP client with timeouts for everything that this controller asks of it.

In: method, path, query, body. Out: status, headers and raw bytes, or a typed error (errors.py).
Never: an exception of aiohttp or kubernetes_asyncio; a retry, except once after a 401 with credentials read anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from controller import __version__
from controller.errors import UserError
from controller.kube.credentials import Access, Credentials, credentials_of
from controller.kube.errors import NotLeading, Unreachable, error_of, status_of_body
from controller.kube.rate import Rate

Query = Mapping[str, str | int | bool | None]
"""Query parameters; None is left out, a bool becomes `true` or `false`."""

REQUEST_SECONDS = 30.0
"""Half of kube-apiserver's --request-timeout: an answer that takes longer is not worth waiting for."""
CONNECT_SECONDS = 10.0
RENEW_SECONDS = 5.0
"""Credentials that are younger than this are not read again for a 401: another request has just done so."""
ERROR_BODY_BYTES = 65_536

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Response(msgspec.Struct, frozen=True):
    """A 2xx answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as plain JSON. Raises msgspec.DecodeError when it is none."""
        return msgspec.json.decode(self.body)


class KubeClient:
    """Sends requests to one API server. Made by `connect`; closed by `close` or as an async context manager."""

    def __init__(self, credentials: Credentials, base_url: str, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch; it is compared with the server's `Date`."""
        self.base_url = base_url
        self.clock_offset_seconds: float | None = None
        """Server's clock minus ours by the last `Date` header, within about a second; None before any answer."""
        self.request_count = 0
        self._credentials = credentials
        self._clock = clock
        self._rate: Rate | None = None
        self._write_seconds: Callable[[], float] | None = None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=100),
            headers={
                "Accept": "application/json",
                # Compressing costs both ends more CPU than the bytes are worth inside a cluster.
                "Accept-Encoding": "identity",
                "User-Agent": f"tfjob-controller/{__version__}",
            },
            # The server's Set-Cookie has no say, and netrc or proxy variables must not add to the kubeconfig.
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            read_bufsize=1 << 18,
        )

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections. Requests under way end as Unreachable."""
        await self._session.close()

    def limit_rate(self, rate: Rate) -> None:
        """From now on requests, and the beginnings of streams, keep to `rate`: they wait for their turn in order."""
        self._rate = rate

    def guard_writes(self, write_seconds: Callable[[], float]) -> None:
        """From now on whatever is no GET asks right before it is sent how long it may take: not at all (0) is
        NotLeading, and an answer that takes longer is Unreachable. The GETs of who may not write are harmless."""
        self._write_seconds = write_seconds

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | dict[str, Any] | list[Any] | None = None,
        content_type: str | None = None,
        accept: str | None = None,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Response:
        """Sends one request and reads its answer whole.

        `path` begins with a slash and is already quoted. A dict or list body is written as JSON; `content_type` is
        application/json unless given (patches: `MERGE_PATCH`, `JSON_PATCH`). `timeout_seconds` bounds the whole of it.
        Raises ApiError.
        """
        headers = {} if accept is None else {"Accept": accept}
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        if data is not None:
            headers["Content-Type"] = content_type or "application/json"
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._answer(method, path, query, headers, data, timeout) as answer:
                return Response(status=answer.status, headers=answer.headers, body=await answer.read())
        except TimeoutError as error:
            message = f"{method} {self.base_url}{path}: no answer in {timeout_seconds:g} s"
            raise Unreachable(message, was_sent=True) from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query | None = None, idle_seconds: float = 120.0, accept: str | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET whose body has no end: a watch, a log. No bytes for `idle_seconds` ends it as Unreachable.

        Raises ApiError, also for what breaks while the body is read inside the `async with`.
        """
        headers = {} if accept is None else {"Accept": accept}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        async with self._answer("GET", path, query, headers, None, timeout) as answer:
            yield answer

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: dict[str, str],
        data: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The 2xx answer, with aiohttp's exceptions translated, those of the `async with` body included."""
        where = f"{method} {self.base_url}{path}"
        try:
            answer = await self._send(method, path, query, headers, data, timeout)
            if answer.status == 401 and await self._renewed():
                answer.release()
                answer = await self._send(method, path, query, headers, data, timeout)
            async with answer:
                if not 200 <= answer.status < 300:
                    content = await _start_of(answer)
                    raise error_of(status_of_body(answer.status, content), _retry_after_seconds(answer.headers))
                yield answer
        except aiohttp.ClientConnectorCertificateError as error:
            await self._renewed()  # the cluster's certificates may have been exchanged: the next try has the new ones
            raise Unreachable(f"{where}: {error}", was_sent=False) from error
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"{where}: {error}", was_sent=False) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise Unreachable(f"{where}: no connection in {CONNECT_SECONDS:.0f} s", was_sent=False) from error
        except aiohttp.ClientError as error:
            raise Unreachable(f"{where}: {error or type(error).__name__}", was_sent=True) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: dict[str, str],
        data: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        access = await self._credentials.access()
        if access.authorization is not None:
            headers = {**headers, "Authorization": access.authorization}
        if self._rate is not None and (wait := self._rate.reserve(time.monotonic())) > 0:
            await asyncio.sleep(wait)
        timeout = self._allowed(method, path, timeout)
        self.request_count += 1
        sent_at = self._clock()
        answer = await self._session.request(
            method,
            _url_of(access, path),
            params=_text_query(query),
            headers=headers,
            data=data,
            timeout=timeout,
            ssl=True if access.tls is None else access.tls,
            server_hostname=access.server_hostname,
            proxy=access.proxy,
            allow_redirects=False,  # a redirect would carry the token to wherever it points
        )
        self._note_date(answer.headers, sent_at)
        return answer

    def _allowed(self, method: str, path: str, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientTimeout:
        """The timeout of a request that is sent now, cut to what the guard allows. Raises NotLeading."""
        if method == "GET" or self._write_seconds is None:
            return timeout
        left = self._write_seconds()
        if left <= 0:
            raise NotLeading(f"{method} {path}: not sent, this process does not lead")
        # A threshold above the time itself: aiohttp would round it up to a whole second of its loop.
        total = left if timeout.total is None else min(left, timeout.total)
        return aiohttp.ClientTimeout(total=total, sock_connect=timeout.sock_connect, ceil_threshold=total + 1)

    async def _renewed(self) -> bool:
        try:
            return await self._credentials.renew(min_age_seconds=RENEW_SECONDS)
        except UserError:  # the source cannot be read now: the server's 401 is what there is to say
            return False

    def _note_date(self, headers: Mapping[str, str], sent_at: float) -> None:
        try:
            # The header has whole seconds: its instant is in the middle of them, and of the round trip.
            server = parsedate_to_datetime(headers["Date"]).timestamp() + 0.5
        except (KeyError, ValueError, TypeError):
            return
        self.clock_offset_seconds = server - (sent_at + self._clock()) / 2


async def _start_of(answer: aiohttp.ClientResponse) -> bytes:
    content = b""
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) >= ERROR_BODY_BYTES:
            break
    return content


def _url_of(access: Access, path: str) -> URL:
    return URL(access.base_url + path, encoded=True)


def _text_query(query: Query | None) -> dict[str, str] | None:
    if query is None:
        return None
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in query.items()
        if value is not None
    }


def _retry_after_seconds(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get("Retry-After", "0")))
    except ValueError:  # the date form, which kube-apiserver does not send
        return 0.0


async def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    in_cluster: bool | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> KubeClient:
    """A client for the cluster that is named, or found as kubectl finds it (credentials.py). Sends nothing yet.

    Raises UserError, one line, when there is no cluster or its configuration cannot be read.
    """
    credentials = await credentials_of(kubeconfig, context, in_cluster)
    access = await credentials.access()
    return KubeClient(credentials, access.base_url, clock)
