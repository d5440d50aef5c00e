"""`tfjob db` as people get it: from an installed wheel, outside the source tree; bad databases are one clear line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from controller.local.postgres import EmbeddedPostgres
from controller.log import migrate
from tests.migrations.servers import execute, new_database

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment with the wheel; what it needs is borrowed from the tests' environment."""
    folder = tmp_path_factory.mktemp("environment with a space")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = ["install", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(python), *install],
        check=True,
    )
    [own] = folder.glob("lib/python*/site-packages")
    (own / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin"


async def run(command: Path, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr of a command that runs outside the source tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TFJOB_", "PYTHON"))}
    process = await asyncio.create_subprocess_exec(
        command,
        *arguments,
        cwd="/",
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def test_the_wheel_has_the_migrations(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    scripts = {
        f"controller/log/migrations/versions/{each.name}" for each in (ROOT / "migrations/versions").glob("*.py")
    }
    assert scripts
    assert scripts | {"controller/log/migrations/env.py", "controller/log/migrations/script.py.mako"} <= names


async def test_an_installed_wheel_upgrades_a_database(installed: Path, postgres: EmbeddedPostgres) -> None:
    url = await new_database(postgres)
    where = await run(installed / "python", "-c", "import controller.log.migrate as m; print(m.script_location())")
    assert where[1].strip().startswith(str(installed.parent)), where
    code, out, err = await run(installed / "tfjob", "db", "check", "--database-url", url)
    assert (code, out) == (1, "")
    assert err == "tfjob: the database holds no event log yet: run `tfjob db upgrade`\n"
    code, out, err = await run(installed / "tfjob", "db", "upgrade", "--database-url", url)
    assert (code, out) == (0, "schema revision 0002\n"), err
    assert (await migrate.check(url)).is_current
    assert await run(installed / "tfjob", "db", "check", "--database-url", url) == (0, "schema revision 0002\n", "")


async def test_a_newer_database_is_one_line_and_exit_1(installed: Path, postgres: EmbeddedPostgres) -> None:
    url = await new_database(postgres)
    await migrate.upgrade(url)
    await execute(url, "UPDATE alembic_version SET version_num = '0999'")
    for command in ("check", "upgrade"):
        code, out, err = await run(installed / "tfjob", "db", command, "--database-url", url)
        assert code in (1, 2)
        assert out == ""
        assert err == (
            "tfjob: the database has schema revision 0999, newer than this tfjob-controller (which knows up to 0002): "
            "use a newer tfjob-controller\n"
        )


CANNOT_BE_USED = {
    "postgresql://me:secret@127.0.0.1:1/tfjob": "Postgres at 127.0.0.1:1/tfjob cannot be reached",
    "postgresql://me:secret@no-such-host.invalid/tfjob": "Postgres at no-such-host.invalid/tfjob cannot be reached",
    "mysql://me:secret@localhost/tfjob": "the database URL must begin with postgresql://",
    "postgresql://me:secret@localhost:port/tfjob": "the database URL cannot be used",
    "postgresql://me:secret@localhost/tfjob?sslmode=perhaps": "the database URL cannot be used",
}


@pytest.mark.parametrize("command", ["check", "upgrade"])
async def test_a_database_that_cannot_be_used_is_one_line_and_exit_2(installed: Path, command: str) -> None:
    answers = await asyncio.gather(
        *(run(installed / "tfjob", "db", command, "--database-url", url) for url in CANNOT_BE_USED)
    )
    for (url, words), (code, out, err) in zip(CANNOT_BE_USED.items(), answers, strict=True):
        assert (code, out) == (2, ""), (url, err)
        assert err.startswith(f"tfjob: {words}"), (url, err)
        assert err.count("\n") == 1, (url, err)
        assert "secret" not in err, url
