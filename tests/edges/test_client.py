"""The client over real HTTP: what it sends, and what each refusal becomes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller.errors import Permanent, Temporary, UserError
from controller.kube import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeClient,
    NotFound,
    NotLeading,
    Refused,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
    connect,
)
from controller.kube.credentials import credentials_of
from controller.kube.rate import Rate
from tests.edges.certificates import NEW, OLD
from tests.edges.fault_server import FaultServer, cut, status_body


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as found:
        yield found


@pytest.fixture
async def client(server: FaultServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with await connect(server.kubeconfig(tmp_path, {"token": "t0"})) as found:
        yield found


async def test_sends_what_it_is_told_and_reads_the_answer_whole(server: FaultServer, client: KubeClient) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "method": request.method,
                "path": request.raw_path,
                "type": request.headers["Content-Type"],
                "authorization": request.headers["Authorization"],
                "body": (await request.read()).decode(),
            },
            status=201,
        )

    server.handler = echo
    query: dict[str, str | int | bool | None] = {"dryRun": "All", "force": True, "limit": 5, "none": None}
    answer = await client.request("POST", "/api/v1/pods", query=query, body={"a": [1, None]}, content_type="x/y")
    assert (answer.status, answer.json()) == (
        201,
        {
            "method": "POST",
            "path": "/api/v1/pods?dryRun=All&force=true&limit=5",
            "type": "x/y",
            "authorization": "Bearer t0",
            "body": '{"a":[1,null]}',
        },
    )


@pytest.mark.parametrize(
    ("code", "reason", "expected", "base", "may"),
    [
        (400, "BadRequest", Refused, Permanent, False),
        (401, "Unauthorized", Unauthorized, Temporary, False),
        (403, "Forbidden", Forbidden, Permanent, False),
        (404, "NotFound", NotFound, Permanent, False),
        (409, "AlreadyExists", AlreadyExists, Permanent, False),
        (409, "Conflict", Conflict, Temporary, False),
        (410, "Expired", Gone, Permanent, False),
        (422, "Invalid", Invalid, Permanent, False),
        (429, "TooManyRequests", TooManyRequests, Temporary, False),
        (500, "InternalError", ServerFault, Temporary, True),
        (503, "ServiceUnavailable", Unavailable, Temporary, True),
        (504, "Timeout", ServerFault, Temporary, True),
    ],
)
async def test_each_refusal_has_its_class(
    server: FaultServer,
    client: KubeClient,
    code: int,
    reason: str,
    expected: type[ApiError],
    base: type[Exception],
    may: bool,
) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return status_body(code, reason, "in words", causes=[{"field": "spec.x"}])

    server.handler = refuse
    with pytest.raises(ApiError) as raised:
        await client.request("GET", "/x")
    error = raised.value
    assert (type(error), isinstance(error, base), error.may_have_taken_effect) == (expected, True, may)
    assert (error.status.code, error.status.reason, str(error), error.causes) == (
        code,
        reason,
        "in words",
        [{"field": "spec.x"}],
    )


async def test_retry_after_is_reported_from_header_and_from_details(server: FaultServer, client: KubeClient) -> None:
    async def refuse(request: web.Request) -> web.Response:
        if request.path == "/header":
            return web.Response(status=429, headers={"Retry-After": "7"}, text="slow down")
        return status_body(503, "ServiceUnavailable", retryAfterSeconds=3)

    server.handler = refuse
    with pytest.raises(TooManyRequests, match="HTTP 429: slow down") as first:
        await client.request("GET", "/header")
    with pytest.raises(Unavailable) as second:
        await client.request("GET", "/details")
    assert (first.value.retry_after_seconds, second.value.retry_after_seconds) == (7.0, 3.0)
    assert len(server.seen) == 2


async def test_a_proxys_page_is_one_short_line(server: FaultServer, client: KubeClient) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(status=502, content_type="text/html", text="<html>\n<h1>Bad gateway</h1></html>")

    server.handler = page
    with pytest.raises(ServerFault, match=r"^HTTP 502$"):
        await client.request("GET", "/x")


async def test_a_refusal_that_comes_in_pieces_is_read_whole(server: FaultServer, client: KubeClient) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=404)
        await answer.prepare(request)
        for piece in (b'{"kind":"Status","rea', b'son":"NotFound","message":"pods not', b' found","code":404}'):
            await answer.write(piece)
            await asyncio.sleep(0)
        return answer

    server.handler = drip
    with pytest.raises(NotFound, match="pods not found"):
        await client.request("GET", "/x")


async def test_no_answer_is_unreachable_and_says_whether_it_was_sent(server: FaultServer, client: KubeClient) -> None:
    async def silent(request: web.Request) -> web.Response:
        if request.path == "/cut":
            cut(request)
        await asyncio.Event().wait()
        raise AssertionError

    server.handler = silent
    with pytest.raises(Unreachable, match=r"no answer in 0.2 s") as late:
        await client.request("POST", "/silent", timeout_seconds=0.2)
    with pytest.raises(Unreachable) as broken:
        await client.request("POST", "/cut")
    assert late.value.may_have_taken_effect
    assert broken.value.may_have_taken_effect
    assert [request.path for request in server.seen] == ["/silent", "/cut"]


async def test_a_refused_connection_took_no_effect(tmp_path: Path) -> None:
    server = FaultServer()
    with socket.create_server(("127.0.0.1", 0)) as free:
        server.url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with await connect(server.kubeconfig(tmp_path)) as client:
        with pytest.raises(Unreachable) as raised:
            await client.request("POST", "/x")
    assert not raised.value.may_have_taken_effect


async def test_a_redirect_is_not_followed(server: FaultServer, client: KubeClient) -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/other"})

    server.handler = elsewhere
    with pytest.raises(Refused):
        await client.request("GET", "/x")
    assert len(server.seen) == 1


async def test_stream_ends_idle_or_cut_as_unreachable(server: FaultServer, client: KubeClient) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"line\n")
        if request.path == "/cut":
            cut(request)
        await asyncio.Event().wait()
        return answer

    server.handler = endless
    for path in ("/idle", "/cut"):
        chunks = []
        with pytest.raises(Unreachable):
            async with client.stream(path, idle_seconds=0.2) as answer:
                chunks = [chunk async for chunk in answer.content.iter_any()]
        assert chunks in ([b"line\n"], [])


async def test_a_401_reads_the_token_again_once(server: FaultServer, tmp_path: Path) -> None:
    good = "new"

    async def check(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == f"Bearer {good}":
            return web.json_response({})
        return status_body(401, "Unauthorized")

    server.handler = check
    token = tmp_path / "token"
    token.write_text("old")
    now = 1000.0
    credentials = await credentials_of(
        server.kubeconfig(tmp_path, {"tokenFile": str(token)}), None, None, monotonic=lambda: now
    )
    async with KubeClient(credentials, server.url) as client:
        now += 10
        with pytest.raises(Unauthorized):
            await client.request("GET", "/x")
        assert [request.headers["Authorization"] for request in server.seen] == ["Bearer old"] * 2
        token.write_text(good)
        with pytest.raises(Unauthorized):  # read a moment ago: not again for every request
            await client.request("GET", "/x")
        now += 10
        assert (await client.request("GET", "/x")).status == 200
        good = "newest"
        token.write_text(good)
        now += 60  # old enough to be read again unasked
        count = len(server.seen)
        assert (await client.request("GET", "/x")).status == 200
        assert len(server.seen) == count + 1


async def test_an_exec_plugin_gives_the_token(server: FaultServer, tmp_path: Path) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response(request.headers["Authorization"])

    server.handler = echo
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'token': 'from-plugin'}}))\n"
    )
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin)],
            "interactiveMode": "Never",
        }
    }
    async with await connect(server.kubeconfig(tmp_path, user)) as client:
        assert (await client.request("GET", "/x")).json() == "Bearer from-plugin"


async def test_the_service_account_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime

    from kubernetes_asyncio.config import incluster_config

    ca = Path(__import__("certifi").where()).read_text()
    (tmp_path / "ca.crt").write_text(ca)
    (tmp_path / "token").write_text("one")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", datetime.timedelta(0))
    credentials = await credentials_of(None, None, True, service_account=tmp_path)
    first = await credentials.access()
    (tmp_path / "token").write_text("two")
    second = await credentials.access()
    assert (first.base_url, first.authorization, second.authorization) == (
        "https://10.0.0.1:443",
        "Bearer one",
        "Bearer two",
    )
    assert second.tls is not None
    (tmp_path / "token").unlink()  # being replaced: the one at hand goes on
    assert (await credentials.access()).authorization == "Bearer two"


@pytest.mark.parametrize(
    ("content", "context", "words"),
    [
        (None, None, "no such file"),
        ("{", None, "kubeconfig"),
        ("just text", None, "kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", None, "current-context"),
        (
            "clusters: [{name: c, cluster: {server: 'http://x'}}]\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "current-context: x\n",
            "other",
            "other",
        ),
    ],
)
async def test_a_bad_kubeconfig_is_one_line(
    tmp_path: Path, content: str | None, context: str | None, words: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=words) as raised:
        await connect(path, context)
    assert (str(path) in str(raised.value), "\n" in str(raised.value), raised.value.exit_code) == (True, False, 2)


async def test_no_cluster_at_all_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UserError, match="no Kubernetes cluster"):
        await connect()
    with pytest.raises(UserError, match="no service account"):
        await connect(in_cluster=True)


async def test_the_servers_clock_is_kept(server: FaultServer, tmp_path: Path) -> None:
    async def dated(request: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": "Thu, 01 Jan 1970 00:02:00 GMT"})

    server.handler = dated
    async with await connect(server.kubeconfig(tmp_path), clock=lambda: 100.0) as client:
        assert client.clock_offset_seconds is None
        await client.request("GET", "/x")
        assert client.clock_offset_seconds == 20.5


async def test_exchanged_certificates_are_read_again(tmp_path: Path) -> None:
    async def serve(pem: str, port: int) -> web.AppRunner:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        (tmp_path / "served.pem").write_text(pem)
        context.load_cert_chain(tmp_path / "served.pem")
        app = web.Application()
        app.router.add_get("/x", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        return runner

    async def answer(request: web.Request) -> web.Response:
        return web.json_response("here")

    trusted = tmp_path / "ca.crt"
    trusted.write_text(OLD)
    runner = await serve(OLD, 0)
    port = runner.addresses[0][1]
    config = tmp_path / "kubeconfig"
    config.write_text(
        f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: {trusted}}}}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    now = 0.0
    credentials = await credentials_of(config, None, None, monotonic=lambda: now)
    async with KubeClient(credentials, f"https://127.0.0.1:{port}") as client:
        assert (await client.request("GET", "/x")).json() == "here"
        await runner.cleanup()
        runner = await serve(NEW, port)
        trusted.write_text(NEW)
        now += 10
        with pytest.raises(Unreachable) as raised:
            await client.request("GET", "/x")
        assert not raised.value.may_have_taken_effect
        assert (await client.request("GET", "/x")).json() == "here"
    await runner.cleanup()


async def test_a_guard_lets_reads_through_and_is_asked_again_for_a_repeat(
    server: FaultServer, client: KubeClient
) -> None:
    left = [5.0, 0.0]

    async def serve(request: web.Request) -> web.Response:
        return web.json_response({}) if request.method == "GET" else status_body(401, "Unauthorized")

    server.handler = serve
    client.guard_writes(lambda: left.pop(0))
    renewed = client._credentials.renew

    async def always(*, min_age_seconds: float) -> bool:
        return await renewed(min_age_seconds=0.0)

    client._credentials.renew = always  # type: ignore[method-assign]
    with pytest.raises(NotLeading) as raised:
        await client.request("DELETE", "/x")
    assert (await client.request("GET", "/x")).status == 200
    assert [request.method for request in server.seen] == ["DELETE", "GET"]
    assert left == [] and not raised.value.may_have_taken_effect


async def test_a_guard_cuts_the_time_that_an_answer_may_take(server: FaultServer, client: KubeClient) -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    server.handler = never
    client.guard_writes(lambda: 0.2)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unreachable) as raised:
        await client.request("POST", "/x", body={}, timeout_seconds=30)
    assert raised.value.was_sent and asyncio.get_running_loop().time() - began < 5


async def test_a_rate_holds_requests_and_streams_back(server: FaultServer, client: KubeClient) -> None:
    async def serve(request: web.Request) -> web.Response:
        return web.json_response({})

    server.handler = serve
    client.limit_rate(Rate(10.0, 1))
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(client.request("GET", "/x") for _ in range(3)))
    async with client.stream("/x"):
        took = asyncio.get_running_loop().time() - began
    assert 0.3 <= took < 5
