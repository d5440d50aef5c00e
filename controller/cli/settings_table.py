"""The settings for people: what they are now (`tfjob controller --print-settings`); the table of docs/OPERATIONS.md.

In: settings. Out: lines. Never: the password of the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from controller.settings import ENVIRONMENT_PREFIX, Settings


def lines_of(settings: Settings) -> Iterator[str]:
    """One line a setting: its variable, its value, and whether that is the default."""
    for each in fields(Settings):
        value = getattr(settings, each.name)
        remark = "" if value != each.default else "  # default"
        shown = without_password(value) if each.name == "database_url" else value_text(value)
        yield f"{ENVIRONMENT_PREFIX}{each.name.upper()}={shown}{remark}"


def without_password(url: str) -> str:
    """The URL with *** where a password stands, in its authority or in its query."""
    parts = urlsplit(url)
    account, at, place = parts.netloc.rpartition("@")
    user, colon, _ = account.partition(":")
    netloc = f"{user}{':***' if colon else ''}{at}{place}"
    pairs = (each.partition("=") for each in parts.query.split("&"))
    query = "&".join(f"{key}=***" if key == "password" else f"{key}{equals}{value}" for key, equals, value in pairs)
    # Not urlunsplit: without a host it drops the slashes.
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{query}" if query else "")


def value_text(value: Any) -> str:
    """A value as it is written into a variable; empty: unset."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Enum():
            return str(value.value)
        case float():
            return repr(value).removesuffix(".0")
        case _:
            return str(value)


def table() -> str:
    """Markdown: every setting with flag, variable, default, unit and the reason for the default."""
    rows = ["| flag | variable | default | unit | why |", "|---|---|---|---|---|"]
    for each in fields(Settings):
        assert each.default is not MISSING
        also = each.metadata["also"]
        variables = f"`{ENVIRONMENT_PREFIX}{each.name.upper()}`" + (f" or `{also}`" if also else "")
        default = value_text(each.default)
        cells = (
            f"`--{each.name.replace('_', '-')}`",
            variables,
            f"`{default}`" if default else "unset",
            each.metadata["unit"].replace("|", "\\|"),
            each.metadata["reason"],
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"
