"""Weaknesses of training-operator 1.9 as scenarios (weakness_NN.yaml): they hold, and no longer when the weakness is
put into the core."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from controller.cli.playing import LocalPlaces
from controller.local.postgres import EmbeddedPostgres
from controller.scenario import FileResult, LiveRun, Malformed, play_file
from tests.mutants import mutated
from tests.postgres_fixture import fresh_database
from tests.scenarios.live import MAX_WAIT_SECONDS, play, problems_of
from tests.weaknesses.mutants import MUTANTS

FILES = sorted(Path(__file__).parent.glob("weakness_*.yaml"))
NAMES = [file.stem for file in FILES]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def results(
    postgres: EmbeddedPostgres, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, FileResult]:
    """All of them on the local API server, played once."""
    places = LocalPlaces(tmp_path_factory.mktemp("kubeconfigs"))
    async with fresh_database(postgres, template_database) as url:
        return await play(LiveRun("local", places.place, url, MAX_WAIT_SECONDS), FILES)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_is_beaten(file: Path) -> None:
    assert problems_of(play_file(file)) == []


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_is_beaten_on_an_api_server(file: Path, results: dict[str, FileResult]) -> None:
    assert problems_of(results[file.stem]) == []


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_is_noticed_when_it_is_put_in(file: Path) -> None:
    with mutated(MUTANTS[file.stem.rpartition("_")[2]]):
        assert not holds(file)
    assert problems_of(play_file(file)) == []


def holds(file: Path) -> bool:
    try:
        return problems_of(play_file(file)) == []
    except Malformed:
        # A pod that a later step reports of was not made.
        return False
