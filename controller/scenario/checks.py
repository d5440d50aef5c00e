"""What any part of a scenario file must be: text, a map, one of some words.

In: plain YAML content and the place where it stands. Raises Wrong with the place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Wrong(Exception):
    """Something that a scenario cannot say, and its place (`steps[3].pods`)."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def check_text(value: Any, path: str) -> None:
    """Raises Wrong for anything but text."""
    if not isinstance(value, str):
        raise Wrong(path, "must be text")


def check_boolean(value: Any, path: str) -> None:
    """Raises Wrong for anything but true and false."""
    if not isinstance(value, bool):
        raise Wrong(path, "must be true or false")


def check_map(value: Any, path: str) -> None:
    """Raises Wrong for anything but a map."""
    if not isinstance(value, dict):
        raise Wrong(path, "must be a map")


def check_list(value: Any, path: str) -> list[Any]:
    """The list. Raises Wrong for anything else."""
    if not isinstance(value, list):
        raise Wrong(path, "must be a list")
    return value


def check_keys(value: Any, path: str, allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
    """A map with these keys only, and all that are needed. Raises Wrong."""
    check_map(value, path)
    for key in value:
        if key not in allowed:
            there_are = f"there is no such key{meant(key, allowed)}; there are {', '.join(allowed)}"
            raise Wrong(f"{path}.{key}".lstrip("."), there_are)
    for key in needed:
        if key not in value:
            raise Wrong(path, f"needs the key {key}")


def check_one_of(value: Any, path: str, allowed: tuple[Any, ...]) -> None:
    """Raises Wrong for anything but these."""
    if isinstance(value, bool) or value not in allowed:
        hint = f': write it in quotes, "{value}"' if str(value) in allowed else ""
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        raise Wrong(path, f"{shown} must be one of {', '.join(map(str, allowed))}{hint}")


def meant(word: Any, allowed: Iterable[str]) -> str:
    """A guess at what was meant; difflib is imported for a mistake only."""
    from difflib import get_close_matches

    close = get_close_matches(str(word), list(allowed), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
