"""What every test may use: a real Postgres, the real control plane. Fixtures live beside what they start."""

from __future__ import annotations

pytest_plugins = ["tests.postgres_fixture", "tests.controlplane.fixtures"]
