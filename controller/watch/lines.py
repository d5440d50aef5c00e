"""API server → observations: bytes from the socket → watch lines → what each line says.

In: chunks as they came. Out: one `Line` per watch event. Raises `BadLine` for what no API server sends (a proxy's
page, a line without end): it never becomes an event, and the stream that brought it is not trusted any further.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.errors import Temporary
from controller.kube.errors import error_of, status_of_body
from controller.model.events import Op

LINE_BYTES = 16 << 20
"""Ten times etcd's limit for one object: a line that is longer has no end."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

RawObject = dict[str, msgspec.Raw]
"""An object with its parts not yet looked into."""


class BadLine(Temporary):
    """A watch sent something that is no watch event. The connection is given up and begun again."""


class Line(msgspec.Struct):
    """One watch event: `op` is None for a bookmark."""

    op: Op | None
    object: RawObject


class _Envelope(msgspec.Struct):
    type: str
    object: RawObject


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_OBJECT = msgspec.json.Decoder(RawObject)
_BOOKMARK = msgspec.json.Decoder(_BookmarkMeta)
_OPS: dict[str, Op | None] = {
    "ADDED": Op.ADDED,
    "MODIFIED": Op.MODIFIED,
    "DELETED": Op.DELETED,
    "BOOKMARK": None,
}


class Lines:
    """Cuts chunks into lines; what follows the last newline is kept for the next chunk."""

    def __init__(self, limit_bytes: int = LINE_BYTES) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without empty ones. Raises BadLine when one grows past the limit."""
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        if pieces and self._parts:
            pieces[0] = b"".join((*self._parts, pieces[0]))
            self._parts.clear()
            self._held = 0
        if rest:
            self._parts.append(rest)
            self._held += len(rest)
            if self._held > self._limit:
                raise BadLine(f"a watch line has no end: {self._held} bytes so far")
        return [piece for piece in pieces if piece and not piece.isspace()]


def line_of(text: bytes) -> Line:
    """What a watch line says. Raises BadLine for garbage, and the ApiError that an ERROR line means (410: Gone)."""
    try:
        envelope = _ENVELOPE.decode(text)
        if envelope.type == "ERROR":
            status = status_of_body(500, msgspec.json.encode(envelope.object))
            raise error_of(status)
        return Line(op=_OPS[envelope.type], object=envelope.object)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError) as error:
        raise BadLine(f"no watch event: {text[:80]!r} ({error})") from error


def bookmark_of(line: Line) -> int:
    """The resourceVersion of a bookmark line. Raises BadLine when it has none."""
    try:
        return int(_BOOKMARK.decode(line.object["metadata"]).resource_version)
    except (msgspec.DecodeError, KeyError, ValueError) as error:
        raise BadLine("a bookmark without resourceVersion") from error


class _PageMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "go_on": "continue"}):
    resource_version: str = ""
    go_on: str = ""


class Page(msgspec.Struct):
    """One page of a list."""

    metadata: _PageMeta
    items: list[RawObject] | None = None


_PAGE = msgspec.json.Decoder(Page)


def page_of(body: bytes) -> Page:
    """A list's page. Raises BadLine when the answer is no list."""
    try:
        page = _PAGE.decode(body)
        int(page.metadata.resource_version)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadLine(f"no list: {body[:80]!r} ({error})") from error
    return page


def object_of(body: bytes) -> RawObject:
    """One object as a GET answers it. Raises BadLine when it is none."""
    try:
        return _OBJECT.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(f"no object: {body[:80]!r} ({error})") from error


def plain(raw: msgspec.Raw) -> Any:
    """A raw part as plain JSON."""
    return msgspec.json.decode(raw)
