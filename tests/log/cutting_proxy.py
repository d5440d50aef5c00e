"""A socket between a client and Postgres that cuts the connection at a commit: its answer never arrives."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote

_COMMIT = b"COMMIT;"


class CuttingProxy:
    """While `cut` is None everything passes. `cut="after"`: the server commits, the client is cut off before it hears
    of it. `cut="before"`: both are cut off before the server hears of it. Each cut happens once."""

    def __init__(self, url: str) -> None:
        head, _, rest = url.partition("host=")
        folder, _, tail = rest.partition("&")
        self._server = f"{unquote(folder)}/.s.PGSQL.5432"
        self._folder = Path(tempfile.mkdtemp(prefix="tfjob-cut-"))
        self.url = f"{head}host={quote(str(self._folder), safe='')}{'&' if tail else ''}{tail}"
        self.cut: str | None = None
        self.cut_count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_unix_server(self._serve, str(self._folder / ".s.PGSQL.5432"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        shutil.rmtree(self._folder)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        answers = asyncio.create_task(self._pass(from_server, writer))
        try:
            while chunk := await reader.read(1 << 16):
                if _COMMIT in chunk and self.cut is not None:
                    await self._cut(chunk, answers, from_server, to_server)
                    return
                to_server.write(chunk)
                await to_server.drain()
        finally:
            answers.cancel()
            writer.close()
            to_server.close()

    async def _cut(
        self,
        chunk: bytes,
        answers: asyncio.Task[None],
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        how, self.cut = self.cut, None
        self.cut_count += 1
        if how == "after":
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            to_server.write(chunk)
            await to_server.drain()
            assert b"COMMIT" in await from_server.read(1 << 16)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
        writer.close()
