"""Starts Postgres as a child of this process on a state folder, and takes it down again.

In: a state folder and a folder of binaries. Out: the URL of a running server.
Never: a change to a folder that it did not make, a second server on the same data, or a server that outlives its owner.

The kernel sends the server SIGINT (its fast shutdown) when the thread that started it ends, so `start` belongs in the
main thread's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import asyncpg

from controller.errors import UserError
from controller.local.postgres.binaries import BIN_DIR_VARIABLE, Account, bin_dir_for, find_bin_dir, is_reachable
from controller.local.postgres.process import end, output_of, postgres_account, spawned
from controller.local.postgres.state_lock import StateLock

__all__ = ["EmbeddedPostgres", "default_state_dir"]

_USER = _DATABASE = "tfjob"
_PORT = 5432  # only a part of the socket's name: nothing listens on TCP
_SOCKET_PREFIX = "tfjob-pg-"
_READY_SECONDS = 60.0  # recovery after a crash included
_POLL_SECONDS = 0.02
_LOG_KEEP_BYTES = 4 * 1024 * 1024

# A small machine's share; jit costs more than it gives on queries as short as ours.
_SETTINGS = {
    "listen_addresses": "",
    "port": str(_PORT),
    "max_connections": "100",
    "shared_buffers": "64MB",
    "huge_pages": "off",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Only for data that nobody will miss: a power cut corrupts the cluster.
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# What postgres says while the server before it is still on its way out.
_STILL_ENDING = ('lock file "postmaster.pid" already exists', "pre-existing shared memory block")


def default_state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the data lives if nobody says otherwise: /var/lib/tfjob-controller for root, since another account must
    reach it, else tfjob-controller in $XDG_STATE_HOME (~/.local/state)."""
    if os.geteuid() == 0:
        return Path("/var/lib/tfjob-controller")
    state_home = environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is invalid and is to be ignored.
    base = Path(state_home) if state_home.startswith("/") else Path.home() / ".local/state"
    return base / "tfjob-controller"


class EmbeddedPostgres:
    """A Postgres server of this process, with its data in `state_dir/postgres`.

    `bin_dir` holds `initdb` and `postgres`; None searches as `find_bin_dir` says. `durable=False` switches fsync off
    and is for tests alone. As root the server runs as the account `postgres` or `nobody`, which owns its data.
    Use it as an async context manager, or call `start` and `stop`; after `stop` it can be started again.
    """

    def __init__(self, state_dir: Path, *, bin_dir: Path | None = None, durable: bool = True) -> None:
        self._state_dir = state_dir.resolve()
        self._data_dir = self._state_dir / "postgres"
        self._log_path = self._state_dir / "postgres.log"
        self._socket_note = self._state_dir / "postgres.socket"
        self._asked_bin_dir = bin_dir
        self._settings = _SETTINGS if durable else _SETTINGS | _NOT_DURABLE
        self._durable = durable
        self._account: Account | None = None
        self._lock = StateLock(self._state_dir / "lock")
        self._socket_dir: Path | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def dsn(self) -> str:
        """The URL for asyncpg (and psql). Raises RuntimeError before `start` and after `stop`."""
        return self._dsn_of(_DATABASE)

    @property
    def url(self) -> str:
        """The same for SQLAlchemy: `postgresql+asyncpg://…`."""
        return self.dsn.replace("postgresql://", "postgresql+asyncpg://", 1)

    @property
    def pid(self) -> int:
        """The process id of the server's first process. Raises RuntimeError if it is not running."""
        if self._process is None:
            raise RuntimeError("Postgres is not running")
        return self._process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> str:
        """Start the server, making its data first if there is none, and return `url` once it answers.

        Raises UserError, with nothing damaged, for: no binaries, a state folder in use or not writable, data of
        another release of Postgres, a private folder that the server's account cannot enter, a server that ends at
        once (the message has its last words).
        """
        if self._process is not None:
            raise RuntimeError("Postgres is running already")
        try:
            self._make_state_dir()
            self._lock.acquire()
            bin_dir = find_bin_dir(self._asked_bin_dir)
            self._account = postgres_account()
            if self._account is not None:
                bin_dir = bin_dir_for(self._account, bin_dir)
            await self._check_data(bin_dir)
            if not self._data_dir.exists():
                await self._make_data(bin_dir)
            self._make_socket_dir()
            await self._start_server(bin_dir)
            await self._make_database()
        except BaseException:
            await self.stop()
            raise
        return self.url

    async def wait(self) -> int:
        """Wait until the server ends, whoever ended it, and return its exit code (negative: the signal)."""
        if self._process is None:
            raise RuntimeError("Postgres is not running")
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop the server: fast shutdown, then by force. Its data stays. Does nothing if it does not run."""
        try:
            if self._process is not None:
                await end(self._process)
        finally:
            self._process = None
            if self._socket_dir is not None:
                shutil.rmtree(self._socket_dir, ignore_errors=True)
                self._socket_note.unlink(missing_ok=True)
                self._socket_dir = None
            self._lock.release()

    def _dsn_of(self, database: str) -> str:
        if self._socket_dir is None:
            raise RuntimeError("Postgres is not running")
        return f"postgresql://{_USER}@/{database}?host={quote(str(self._socket_dir), safe='/')}&port={_PORT}"

    def _make_state_dir(self) -> None:
        try:
            if not self._state_dir.exists():
                self._state_dir.mkdir(parents=True)
                # Root's server account has to pass through; what lies inside is private by its own mode.
                self._state_dir.chmod(0o711 if os.geteuid() == 0 else 0o700)
            elif not self._state_dir.is_dir():
                raise UserError(f"the state folder {self._state_dir} is a file")
        except OSError as error:
            raise UserError(f"the state folder {self._state_dir} cannot be made: {error.strerror}") from error

    async def _check_data(self, bin_dir: Path) -> None:
        """Refuse data that these binaries or this account cannot serve."""
        if self._account is not None and not is_reachable(self._state_dir, self._account):
            raise UserError(
                f"Postgres runs as the account {self._account.name!r}, which cannot enter {self._state_dir}: "
                "a folder above it is private; choose a state folder below /var/lib"
            )
        if not self._data_dir.exists():
            return
        if self._account is None and self._data_dir.stat().st_uid != os.geteuid():
            raise UserError(f"the data in {self._data_dir} belongs to another account; choose another state folder")
        try:
            of_data = (self._data_dir / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise UserError(f"{self._data_dir} is no data of Postgres: {error.strerror}") from error
        words = (await output_of(bin_dir / "postgres", "--version", account=self._account)).split()
        of_binaries = words[2].split(".")[0] if len(words) > 2 else ""
        if of_data != of_binaries:
            raise UserError(
                f"the data in {self._data_dir} was made by Postgres {of_data}, but {bin_dir} holds Postgres "
                f"{of_binaries}: name a Postgres {of_data} in {BIN_DIR_VARIABLE} or choose another state folder"
            )
        if self._account is not None and self._data_dir.stat().st_uid != self._account.uid:
            self._give_to_account(self._data_dir)

    async def _make_data(self, bin_dir: Path) -> None:
        """initdb beside the final place, then one rename: an interrupted start leaves nothing that looks whole."""
        unfinished = self._state_dir / "postgres.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self._give_to_account(unfinished)
        # The C.UTF-8 locale is the same everywhere on Linux and orders by code point; elsewhere it may not exist.
        locale = "C.UTF-8" if sys.platform == "linux" else "C"
        options = ["-U", _USER, "-A", "trust", "-E", "UTF8", f"--locale={locale}", "--no-instructions"]
        if not self._durable:
            options.append("--no-sync")
        await output_of(bin_dir / "initdb", "-D", str(unfinished), *options, account=self._account)
        unfinished.rename(self._data_dir)

    def _make_socket_dir(self) -> None:
        """A short private folder: the path of a unix socket has at most 107 bytes, and `trust` must not be public."""
        with contextlib.suppress(OSError):
            # The folder of an owner that was killed; the note is ours, so nobody else's folder is swept.
            stale = Path(self._socket_note.read_text().strip())
            if stale.name.startswith(_SOCKET_PREFIX):
                shutil.rmtree(stale, ignore_errors=True)
        self._socket_dir = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir="/tmp"))
        self._give_to_account(self._socket_dir)
        self._socket_note.write_text(f"{self._socket_dir}\n")

    def _give_to_account(self, folder: Path) -> None:
        if self._account is not None:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)

    async def _start_server(self, bin_dir: Path) -> None:
        """Start and wait until it answers. A server before it that is still shutting down is waited for."""
        async with asyncio.timeout(_READY_SECONDS):
            while True:
                log_start = self._trim_log()
                with self._log_path.open("ab") as log:
                    settings = self._settings | {"unix_socket_directories": str(self._socket_dir)}
                    arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
                    self._process = await spawned(
                        bin_dir / "postgres",
                        "-D",
                        str(self._data_dir),
                        *arguments,
                        account=self._account,
                        output=log.fileno(),
                    )
                if await self._answers(self._process):
                    return
                words = self._log_path.read_bytes()[log_start:].decode(errors="replace")
                code, self._process = self._process.returncode, None
                if not any(sign in words for sign in _STILL_ENDING):
                    last = words.strip().splitlines()[-1:] or ["it said nothing"]
                    raise UserError(f"Postgres ended with {code} at its start: {last[0]} (all of it: {self._log_path})")
                self._drop_dead_pid_file()
                await asyncio.sleep(_POLL_SECONDS * 5)

    async def _answers(self, process: asyncio.subprocess.Process) -> bool:
        """True once the server accepts a connection, False if it ended."""
        while process.returncode is None:
            try:
                connection = await asyncpg.connect(self._dsn_of("postgres"), timeout=10)
            except (OSError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError):
                await asyncio.sleep(_POLL_SECONDS)
            else:
                await connection.close()
                return True
        return False

    async def _make_database(self) -> None:
        connection = await asyncpg.connect(self._dsn_of("postgres"))
        try:
            if await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", _DATABASE) is None:
                await connection.execute(f'CREATE DATABASE "{_DATABASE}"')
        finally:
            await connection.close()

    def _drop_dead_pid_file(self) -> None:
        """Remove postmaster.pid if its pid is a zombie or somebody else's now; Postgres itself sees only "alive".

        We hold the folder's lock, and a server's working directory is its data directory.
        """
        pid_file = self._data_dir / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
            alive = Path(f"/proc/{pid}/cwd").readlink() == self._data_dir
        except (ValueError, OSError):
            alive = False
        if not alive and sys.platform == "linux":
            pid_file.unlink(missing_ok=True)

    def _trim_log(self) -> int:
        """Start the log again when it has grown; returns the position where the next words begin."""
        self._log_path.touch(mode=0o600)
        size = self._log_path.stat().st_size
        if size > _LOG_KEEP_BYTES:
            os.truncate(self._log_path, 0)
            return 0
        return size
