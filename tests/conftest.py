"""What every test may use: a real Postgres, the real control plane. Fixtures live beside what they start."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["tests.postgres_fixture", "tests.controlplane.fixtures"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the long forms to `make soak`; pytest's last line counts them as deselected."""
    if os.environ.get("TFJOB_SOAK"):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
