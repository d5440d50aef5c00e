"""The two servers that every conformance test runs against: the local one and a real kube-apiserver."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from controller.local.apiserver import LocalApiServer
from tests.conformance.api import Api, Target, session_for, until
from tests.conformance.objects import CRDS, GROUP, WIDGETS_CRD, widgets_crd


@pytest_asyncio.fixture(scope="session")
async def local_target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """A running local API server; bookmarks come every second so that tests need not wait long."""
    server = LocalApiServer(bookmark_interval_seconds=1.0)
    await server.start()
    path: Path = tmp_path_factory.mktemp("local") / "kubeconfig"
    path.write_text(yaml.safe_dump(server.kubeconfig()))
    yield Target("local", server.url, path, local=server)
    await server.stop()


@pytest.fixture(scope="session")
def real_target(request: pytest.FixtureRequest) -> Target:
    """The real kube-apiserver."""
    plane = request.getfixturevalue("control_plane")
    return Target("real", plane.url, Path(plane.kubeconfig), token=plane.admin_token, ca_file=Path(plane.ca_file))


@pytest.fixture(scope="session", params=["local", "real"])
def target(request: pytest.FixtureRequest) -> Target:
    """The server under test."""
    found: Target = request.getfixturevalue(f"{request.param}_target")
    return found


@pytest_asyncio.fixture(scope="session")
async def api(target: Target) -> AsyncIterator[Api]:
    """A client of the server under test, its own CRD installed."""
    async with session_for(target) as session:
        client = Api(target, session)
        await install_crd(client, widgets_crd())
        yield client
        await client.delete(f"{CRDS}/{WIDGETS_CRD}")


async def install_crd(client: Api, crd: dict) -> None:
    """Creates a CRD and waits until its objects can be listed."""
    answer = await client.post(CRDS, crd)
    assert answer.status in (201, 409), answer.body
    plural = crd["spec"]["names"]["plural"]
    names = [version["name"] for version in crd["spec"]["versions"]]

    async def is_served() -> bool:
        answers = [await client.get(f"/apis/{GROUP}/{name}/{plural}") for name in names]
        return all(answer.status == 200 for answer in answers)

    await until(is_served, f"{plural} are served")


@pytest_asyncio.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """The path of a fresh namespace's core resources' parent: its name."""
    name = f"conf-{secrets.token_hex(4)}"
    await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")
