"""Fixtures of the tests against the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.harness import Api, Kubelet, SecondWatch, install_crd
from tests.controlplane.server import ControlPlane


@pytest_asyncio.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """The API server with our CRD."""
    async with Api(control_plane) as found:
        await install_crd(found)
        yield found


@pytest_asyncio.fixture
async def kubelet(api: Api, real_namespace: str) -> AsyncIterator[Kubelet]:
    played = Kubelet(api, real_namespace)
    await played.start()
    yield played
    await played.stop()


@pytest_asyncio.fixture
async def second_watch(api: Api, real_namespace: str) -> AsyncIterator[SecondWatch]:
    watch = SecondWatch(api, real_namespace)
    await watch.start()
    yield watch
    await watch.stop()
