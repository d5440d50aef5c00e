"""Responses: bytes, status and headers as the API server sends them.

In: encoded bodies and Status objects. Out: aiohttp responses.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from aiohttp import web

from controller.local.apiserver.answers import encoded
from controller.local.apiserver.requests import Form, NoSuchPath

Json = dict[str, Any]

HEADERS = {"Cache-Control": "no-cache, private"}


def json_response(body: Json, status: int = 200) -> web.Response:
    """A JSON response."""
    return web.Response(body=encoded(body), status=status, headers=HEADERS | {"Content-Type": "application/json"})


def json_or_404(body: Json | None) -> web.Response:
    """A JSON response, or the plain 404 where there is no body."""
    if body is None:
        raise NoSuchPath
    return json_response(body)


def response_of(body: bytes, status: int, form: Form, warnings: list[str]) -> web.Response:
    """A response of encoded JSON, turned into YAML where that was asked for, with its Warning headers."""
    kind = "application/json"
    if form.is_yaml:
        body, kind = yaml.safe_dump(msgspec.json.decode(body)).encode(), "application/yaml"
    response = web.Response(body=body, status=status, headers=HEADERS | {"Content-Type": kind})
    for warning in warnings:
        text = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{text}"')
    return response
