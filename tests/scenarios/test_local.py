"""The given scenarios, and our own, on the local API server with a whole controller: all that need no long wait."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from controller.cli.playing import LocalPlaces
from controller.local.postgres import EmbeddedPostgres
from controller.scenario import FileResult, LiveRun
from tests.postgres_fixture import fresh_database
from tests.scenarios.live import FILES, HERE, MAX_WAIT_SECONDS, NOT_LIVE, play, problems_of

OWN = sorted((HERE / "own").glob("*.yaml"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def results(
    postgres: EmbeddedPostgres, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, FileResult]:
    """All of them, played once."""
    places = LocalPlaces(tmp_path_factory.mktemp("kubeconfigs"))
    async with fresh_database(postgres, template_database) as url:
        return await play(LiveRun("local", places.place, url, MAX_WAIT_SECONDS), [*FILES, *OWN])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", [*FILES, *OWN], ids=[file.stem for file in [*FILES, *OWN]])
def test_holds_on_the_local_api_server(file: Path, results: dict[str, FileResult]) -> None:
    assert file.stem in NOT_LIVE or problems_of(results[file.stem]) == []


def test_most_are_played(results: dict[str, FileResult]) -> None:
    played = [name for name, result in results.items() if result.left_out is None]
    assert len(played) >= 240
