"""Scenarios against the pure core in virtual time: the given ones, the specification with RULES.md; and our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.scenario import play_file

HERE = Path(__file__).resolve().parent
COPY = HERE / "given"
SHARED = HERE.parents[2] / "shared" / "scenarios" / "given"
GIVEN = SHARED if SHARED.is_dir() else COPY
FILES = sorted(GIVEN.glob("*.yaml"))
OWN = sorted((HERE / "own").glob("*.yaml"))


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 347


@pytest.mark.parametrize("file", FILES + OWN, ids=[file.stem for file in FILES] + [f"own/{file.stem}" for file in OWN])
def test_holds(file: Path) -> None:
    result = play_file(file)
    assert result.error is None
    assert [(step.path, step.differences) for step in result.steps if step.differences] == []


def test_the_copy_is_not_stale() -> None:
    """Where only the copy is, it is compared with itself: there is nothing that it could be behind."""
    shared = {file.name: file.read_text() for file in GIVEN.glob("*.yaml")}
    copied = {file.name: file.read_text() for file in COPY.glob("*.yaml")}
    stale = sorted(name for name in shared.keys() | copied.keys() if shared.get(name) != copied.get(name))
    assert stale == [], f"copy them anew: cp {GIVEN}/*.yaml {COPY}/"
    schema = GIVEN.parent / "schema.json"
    assert json.loads(schema.read_text()) == json.loads((HERE / "schema.json").read_text())
