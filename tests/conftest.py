"""What every test may use: a real Postgres, the real control plane. Fixtures live beside what they start."""

from __future__ import annotations

import os

import pytest

OWN_COMMANDS = {"soak": "TFJOB_SOAK", "kueue": "TFJOB_KUEUE"}
"""Markers whose tests have a command of their own (`make soak`, `make test-kueue`), and the variable that it sets."""

pytest_plugins = ["tests.postgres_fixture", "tests.controlplane.fixtures"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Names the control plane for the real half of a test with two targets, so that it is left out with that group, and
    leaves what has a command of its own to that; pytest's last line counts it as deselected."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if parameters.get("target") == "real" and isinstance(item, pytest.Function):
            item.fixturenames = ["control_plane", *item.fixturenames]
    others = [marker for marker, variable in OWN_COMMANDS.items() if not os.environ.get(variable)]
    left = [item for item in items if any(item.get_closest_marker(marker) for marker in others)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
