"""The API server's words about an action, on their way into the log: without what may be secret.

In: a message of the server (or of a webhook or policy behind it, which may quote the manifest), the job that it is
about. Out: the message, cleaned as every other (watch/redact.py), without what the log does not keep of the job: values
of env variables, arguments after a flag that names a secret. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.watch.redact import REDACTED, Redaction, clean_message

SHORTEST = 6
"""Characters of a value that is looked for; shorter ones stand in any text."""
_VALUED = ("env", "httpHeaders")


def without_secrets(message: str, job: Any) -> str:
    """The message as it may be kept. `job` is the TFJob as the API server has it; None: not at hand."""
    if not message:
        return message
    hidden = (*_values(job), *_taken_out(job, Redaction(b"").clean_spec(job)))
    values = {value for value in hidden if len(value) >= SHORTEST}
    for value in sorted(values, key=len, reverse=True):
        message = message.replace(value, REDACTED)
    return clean_message(message)


def _values(node: Any, *, is_valued: bool = False) -> Iterator[str]:
    """Values of env variables and headers, wherever they stand."""
    if isinstance(node, dict):
        if is_valued and isinstance(node.get("value"), str):
            yield node["value"]
        for key, value in node.items():
            yield from _values(value, is_valued=key in _VALUED)
    elif isinstance(node, list):
        for each in node:
            yield from _values(each, is_valued=is_valued)


def _taken_out(node: Any, cleaned: Any) -> Iterator[str]:
    """Strings that redaction takes out whole: quoted alone, nothing in them says that they are secret."""
    if isinstance(node, str):
        if cleaned == REDACTED and node != cleaned:
            yield node
    elif isinstance(node, dict) and isinstance(cleaned, dict):
        for key, value in node.items():
            yield from _taken_out(value, cleaned.get(key))
    elif isinstance(node, list) and isinstance(cleaned, list):
        for value, kept in zip(node, cleaned, strict=False):
            yield from _taken_out(value, kept)
