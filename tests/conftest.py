"""What every test may use: a real Postgres, the real control plane. Fixtures live beside what they start."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["tests.postgres_fixture", "tests.controlplane.fixtures"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Names the control plane for the real half of a test with two targets, so that it is left out with that group, and
    leaves the long forms to `make soak`; pytest's last line counts them as deselected."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if parameters.get("target") == "real" and isinstance(item, pytest.Function):
            item.fixturenames = ["control_plane", *item.fixturenames]
    if os.environ.get("TFJOB_SOAK"):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
