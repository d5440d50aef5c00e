"""The logs of the containers: one file for each run, and the answers to `kubectl logs`.

In: the files that the processes write. Out: bytes, as they were written; the end of a log as a termination message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from controller.local.apiserver.failures import bad_request, not_implemented

__all__ = ["LogReader", "LogRun", "LogUnavailable", "last_lines"]

# What a kubelet takes of a log for FallbackToLogsOnError.
MESSAGE_BYTES, MESSAGE_LINES = 2048, 80
_CHUNK_BYTES = 64 * 1024
_POLL_SECONDS = 0.05
# The files hold what the processes wrote and nothing else, so no times.
_UNSERVED = ("timestamps", "sinceSeconds", "sinceTime")


class LogUnavailable(Exception):
    """There is no such log; the words are those of a kubelet."""


@dataclass(frozen=True, slots=True)
class LogRun:
    """One run of a container: its file, and whether it is still being written."""

    path: Path
    is_open: Callable[[], bool]


def last_lines(path: Path, *, lines: int = MESSAGE_LINES, limit_bytes: int = MESSAGE_BYTES) -> str:
    """The last `lines` lines of the file within its last `limit_bytes` bytes; empty if there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit_bytes))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:])


class LogReader:
    """What an API server asks for a pod's log. `run_of` finds a run by (namespace, pod, container, previous); it raises
    LogUnavailable."""

    def __init__(self, run_of: Callable[[str, str, str | None, bool], LogRun]) -> None:
        self._run_of = run_of

    async def __call__(
        self, namespace: str, pod: str, container: str | None = None, **options: str
    ) -> AsyncIterator[bytes]:
        """The log in pieces; `options` are those of the request's query, as text: follow, previous, tailLines,
        limitBytes. Raises ApiFailure: 400 where there is no such log, 501 for an option that is not served."""
        unserved = [name for name in _UNSERVED if options.get(name, "false") != "false"]
        if unserved:
            raise not_implemented(f"{unserved[0]} of pod logs")
        try:
            run = self._run_of(namespace, pod, container, options.get("previous") == "true")
            tail_lines, limit_bytes = (int(options[n]) if n in options else None for n in ("tailLines", "limitBytes"))
        except LogUnavailable as reason:
            raise bad_request(str(reason)) from reason
        except ValueError as reason:
            raise bad_request(f"a number is needed: {reason}") from reason
        return _stream(run, options.get("follow") == "true", tail_lines, limit_bytes)


async def _stream(run: LogRun, follow: bool, tail_lines: int | None, limit_bytes: int | None) -> AsyncIterator[bytes]:
    position = 0 if tail_lines is None else _start_of_tail(run.path, tail_lines)
    left = limit_bytes
    while True:
        # Asked before reading: what is written until then is read in this round.
        goes_on = follow and run.is_open()
        for piece in _pieces(run.path, position):
            position += len(piece)
            if left is not None:
                piece, left = piece[:left], left - len(piece[:left])
            if piece:
                yield piece
            if left == 0:
                return
        if not goes_on:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _pieces(path: Path, position: int) -> list[bytes]:
    """What the file holds from `position` on."""
    pieces = []
    try:
        with path.open("rb") as file:
            file.seek(position)
            while piece := file.read(_CHUNK_BYTES):
                pieces.append(piece)
    except FileNotFoundError:
        pass
    return pieces


def _start_of_tail(path: Path, lines: int) -> int:
    """The position where the last `lines` lines begin, found from the end backwards."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            if lines == 0:
                return end
            found, position = -1, end
            while position > 0:
                start = max(0, position - _CHUNK_BYTES)
                file.seek(start)
                block = file.read(position - start)
                if position == end and not block.endswith(b"\n"):
                    found += 1
                for offset in range(len(block) - 1, -1, -1):
                    if block[offset] == 0x0A:
                        found += 1
                        if found == lines:
                            return start + offset + 1
                position = start
    except FileNotFoundError:
        pass
    return 0
