"""Where scenarios are played live: a database of this command, and the API servers.

In: files and where to play them. Out: results, in the files' order. Never: anything that stays after the command.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from controller.errors import UserError
from controller.kube import NotFound, connect
from controller.local.apiserver import LocalApiServer
from controller.local.manifests import crd_manifest
from controller.local.postgres import EmbeddedPostgres
from controller.log.migrate import upgrade
from controller.scenario import FileResult, LiveRun, Malformed, Place


def played_live(
    files: Sequence[Path],
    kubeconfig: Path | None,
    context: str | None,
    *,
    is_local: bool,
    max_wait: float,
    at_once: int,
    is_verbose: bool,
) -> Iterator[FileResult | Malformed]:
    """The results as they come; what runs meanwhile runs whenever the next one is asked for. Raises UserError when
    there is no API server to play on, or it serves no TFJobs."""
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory(prefix="tfjob-simulate-") as folder:
        # Run by root, Postgres is another account, which has to pass through.
        Path(folder).chmod(0o711)

        async def begin() -> AsyncIterator[FileResult | Malformed]:
            if not is_local:
                await _check(kubeconfig, context)
            async with EmbeddedPostgres(Path(folder) / "database", durable=False) as postgres:
                await upgrade(postgres.url)
                places = LocalPlaces(Path(folder)) if is_local else ClusterPlaces(kubeconfig, context)
                way = "local" if is_local else "cluster"
                run = LiveRun(way, places.place, postgres.url, max_wait, is_verbose)
                async for each in run.play_all(files, at_once):
                    yield each

        results = begin()

        async def following() -> FileResult | Malformed | None:
            return await anext(results, None)

        try:
            while (result := runner.run(following())) is not None:
                yield result
        finally:
            runner.run(results.aclose())  # type: ignore[attr-defined]


class LocalPlaces:
    """An API server in memory for each file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """A server of its own, as long as it is played on."""
        server = LocalApiServer()
        await server.start()
        try:
            server.store.create("customresourcedefinitions.apiextensions.k8s.io", crd_manifest())
            kubeconfig = self._folder / f"kubeconfig-{next(self._numbers)}"
            kubeconfig.write_text(json.dumps(server.kubeconfig()))
            yield Place(kubeconfig, None, is_shared=False)
        finally:
            await server.stop()


class ClusterPlaces:
    """One cluster for all files."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._place = Place(kubeconfig, context, is_shared=True)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """The cluster."""
        yield self._place


async def _check(kubeconfig: Path | None, context: str | None) -> None:
    async with await connect(kubeconfig, context) as client:
        try:
            await client.request("GET", "/apis/kubeflow.org/v1/tfjobs", query={"limit": 1})
        except NotFound:
            raise UserError(
                f"{client.base_url} serves no TFJobs: kubectl apply --server-side -f deploy/crd/tfjob.yaml"
            ) from None
