"""One owner for a state folder: a file lock that the kernel drops when its owner ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from controller.errors import UserError

__all__ = ["StateLock"]


class StateLock:
    """The lock file `path` of a state folder; it keeps the pid and the command of its owner, to be named to others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises UserError, naming the owner, if another process (or another object here) has it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(f"the state folder {self._path.parent} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 500).decode(errors="replace").strip()
            os.close(descriptor)
            raise UserError(
                f"the state folder {self._path.parent} is in use by {owner or 'another process'}: "
                "stop that first, or choose another state folder"
            ) from None
        os.ftruncate(descriptor, 0)
        command = " ".join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])
        os.pwrite(descriptor, f"process {os.getpid()} ({command[:200]})\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; does nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
