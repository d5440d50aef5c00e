"""Text on its way into Postgres and back: what Postgres refuses is written another way, and reads back as it was.

Postgres has no NUL in text and none in jsonb, no half surrogate pair, and no byte that is not UTF-8. Each such place
becomes U+E000 (a private-use character) and four hex digits: 0000 for NUL, d800–dfff for half a pair, 0080–00ff
for a stray byte; U+E000 itself becomes U+E000 e000. In SQL that is what one sees.

In: text and JSON as observed. Out: the same, storable; and back. Never: a change to text that has none of it.
"""

from __future__ import annotations

import re

MARK = "\ue000"

_REFUSED = re.compile("[\x00\ud800-\udfff\ue000]")
_ESCAPED = re.compile(MARK + "([0-9a-f]{4})")

# A whole escape at a time, so that `\\u0000` (a backslash, then letters) is not taken for a NUL.
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_JSON_PLACES = re.compile(rf"{_PAIR}|\\u([0-9a-fA-F]{{4}})|\\.|[\udc80-\udcff{MARK}]", re.DOTALL)
_SUSPECT = re.compile(rf"\\u(?:0000|[dD][89a-fA-F]|[eE]000)|[\udc80-\udcff{MARK}]")


def stored_text(text: str) -> str:
    """A string as a text column holds it."""
    if text.isascii() and "\0" not in text:
        return text
    return _REFUSED.sub(lambda found: f"{MARK}{ord(found[0]):04x}", text)


def read_text(text: str) -> str:
    """The string that `stored_text` was given."""
    return text if MARK not in text else _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def stored_json(body: bytes) -> str:
    """JSON as jsonb takes it."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = body.decode(errors="surrogateescape")
    return text if _SUSPECT.search(text) is None else _JSON_PLACES.sub(_stored_place, text)


def read_json(text: str) -> bytes:
    """The JSON that `stored_json` was given (in Postgres' spacing and order of keys)."""
    return text.encode() if MARK not in text else _ESCAPED.sub(_read_place, text).encode(errors="surrogateescape")


def _stored_place(found: re.Match[str]) -> str:
    place = found[0]
    if place == MARK:
        return MARK + "e000"
    if found[1] is not None:
        code = int(found[1], 16)
        return f"{MARK}{code:04x}" if code in (0, 0xE000) or 0xD800 <= code <= 0xDFFF else place
    if len(place) == 1:
        return f"{MARK}{ord(place) - 0xDC00:04x}"
    return place


def _read_place(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    if code == 0xE000:
        return MARK
    return chr(code + 0xDC00) if 0x80 <= code <= 0xFF else f"\\u{code:04x}"
