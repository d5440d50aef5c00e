"""What the tests of deploy/ share. Tests of Helm and Compose are left out where `make helm-tools` has not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.build import bin_dir, is_built

TOOLS = {"helm", "composecheck"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what asks for a tool that is not built; pytest's last line counts it."""
    if is_built():
        return
    left = [item for item in items if TOOLS & set(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture
def helm() -> Path:
    return bin_dir() / "helm"


@pytest.fixture
def composecheck() -> Path:
    """Docker Compose's own loader."""
    return bin_dir() / "composecheck"
