"""Fixtures of the real control plane: one for the whole run; a namespace of its own for each test that asks.

Without the binaries its tests fail and say what to run. Only where Go itself is missing, and not under CI, is the whole
group left out, and the last lines of the run say so.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from tests.controlplane.build import go_problem, is_built
from tests.controlplane.server import ControlPlane


def _left_out_because() -> str | None:
    if is_built() or os.environ.get("CI"):
        return None
    return go_problem()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs the control plane as `cluster`; leaves that group out where there is no Go."""
    group = [item for item in items if {"control_plane", "real_namespace"} & set(getattr(item, "fixturenames", ()))]
    for item in group:
        item.add_marker("cluster")
    why = _left_out_because()
    if why:
        config.stash[_LEFT_OUT] = (len(group), why)
        kept = [item for item in items if item not in group]
        config.hook.pytest_deselected(items=group)
        items[:] = kept


_LEFT_OUT = pytest.StashKey[tuple[int, str]]()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _LEFT_OUT in config.stash and config.stash[_LEFT_OUT][0]:
        count, why = config.stash[_LEFT_OUT]
        terminalreporter.write_sep("=", f"LEFT OUT: {count} tests against the real control plane", red=True)
        terminalreporter.write_line(why)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane() -> AsyncIterator[ControlPlane]:
    """The real control plane of this run."""
    assert is_built(), "the control plane is not built: run `make controlplane` (needs Go)"
    plane = ControlPlane()
    await plane.start()
    try:
        yield plane
    finally:
        await plane.stop()


@pytest_asyncio.fixture
async def real_namespace(control_plane: ControlPlane) -> AsyncIterator[str]:
    """A fresh namespace on the real control plane, deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    headers = {"Authorization": f"Bearer {control_plane.admin_token}"}
    url = f"{control_plane.url}/api/v1/namespaces"
    async with aiohttp.ClientSession(headers=headers) as session:
        trust = control_plane.ssl_context()
        async with session.post(url, json={"metadata": {"name": name}}, ssl=trust) as answer:
            assert answer.status == 201, await answer.text()
        yield name
        async with session.delete(f"{url}/{name}", ssl=trust) as answer:
            assert answer.status in (200, 202, 404), await answer.text()
