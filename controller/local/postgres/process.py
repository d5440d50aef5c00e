"""Runs Postgres' programs: another account in place of root, a clean environment, and an end when their owner ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
from pathlib import Path

from controller.errors import UserError
from controller.local.parent_death import end_with_parent
from controller.local.postgres.binaries import Account

__all__ = ["end", "output_of", "postgres_account", "spawned"]

_FAST_STOP_SECONDS, _IMMEDIATE_STOP_SECONDS = 15.0, 5.0


def postgres_account() -> Account | None:
    """The account to run Postgres as: None (this one), or for root `postgres`, else `nobody`.

    initdb needs an entry in passwd, so a bare number is not enough. Raises UserError if root has neither.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise UserError("Postgres does not run as root, and there is no account 'postgres' or 'nobody' to run it as")


async def spawned(program: Path, *arguments: str, account: Account | None, output: int) -> asyncio.subprocess.Process:
    """Start `program` with both of its outputs on `output` (a file descriptor or subprocess.PIPE).

    Raises UserError if it cannot be run.
    """
    extra_groups: list[int] | None = None if account is None else []
    try:
        return await asyncio.create_subprocess_exec(
            str(program),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
            # Nothing of the caller's PG* and LC_* variables: they would change what is made and how it is served.
            env={"HOME": "/", "PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            umask=0o077,
            # A session of its own: Ctrl-C in the terminal must not reach it before its owner has said good-bye.
            start_new_session=True,
            # Runs after the change of account, so the kernel keeps what it asks for.
            preexec_fn=end_with_parent(signal.SIGINT),
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=extra_groups,
        )
    except OSError as error:
        raise UserError(f"{program} cannot be run: {error.strerror}") from error


async def output_of(program: Path, *arguments: str, account: Account | None) -> str:
    """Run `program` to its end and return what it printed; UserError with its last words if it fails."""
    process = await spawned(program, *arguments, account=account, output=asyncio.subprocess.PIPE)
    try:
        output, _ = await process.communicate()
    except BaseException:
        await end(process)
        raise
    text = output.decode(errors="replace").strip()
    if process.returncode != 0:
        raise UserError(f"{program.name} ended with {process.returncode}: {' '.join(text.splitlines()[-3:])}")
    return text


async def end(process: asyncio.subprocess.Process) -> None:
    """SIGINT, then SIGQUIT, then SIGKILL, until the process has ended; a cancellation goes straight to the last."""
    try:
        for sign, seconds in ((signal.SIGINT, _FAST_STOP_SECONDS), (signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS)):
            if process.returncode is None:
                process.send_signal(sign)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
