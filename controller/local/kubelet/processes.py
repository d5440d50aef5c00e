"""Containers as processes of this machine: how they are started, signalled and known to have ended.

In: words, variables, a folder, a file for the output. Out: exit codes as a container runtime reports them.
Never: a process group that outlives its container, the kubelet, or the kubelet's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.local.kubelet import guardian
from controller.local.parent_death import end_with_parent

__all__ = ["ContainerProcess", "Processes", "StartFailed", "base_environment"]

_INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER")


class StartFailed(Exception):
    """The command cannot be run; the words are those of a container runtime."""


def base_environment(host_name: str) -> dict[str, str]:
    """What a container's process has before its own variables: little of this process's environment, as an image
    would, and a PATH on which `python` is this Python."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    return {**inherited, "PATH": path, "HOSTNAME": host_name}


class ContainerProcess:
    """The first process of a container and the group that it leads."""

    def __init__(self, process: asyncio.subprocess.Process, processes: Processes) -> None:
        self._process = process
        self._processes = processes

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, sign: signal.Signals) -> None:
        """Signal the whole group; nothing happens if it is gone."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, sign)

    async def ended(self) -> int:
        """Wait until the first process has ended and return its code, 128 + n for signal n.

        What it left behind in its group is killed, as the end of a container's first process ends all of it. So it is
        when this is cancelled.
        """
        try:
            code = await self._process.wait()
        except asyncio.CancelledError:
            self.send(signal.SIGKILL)
            await self._process.wait()
            raise
        finally:
            # The number stays the group's while a member lives; without one there is nobody to signal.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._processes.forget(self._process.pid)
        return code if code >= 0 else 128 - code


class Processes:
    """Starts the processes of containers, and has them all killed when this process is gone, however it went."""

    def __init__(self) -> None:
        self._guardian: subprocess.Popen[str] | None = None

    def open(self) -> None:
        """Start the guardian. Call once, before `start`."""
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            cwd="/",
        )

    def close(self) -> None:
        """End the guardian, which kills what was not forgotten."""
        if self._guardian is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guardian.communicate()
            self._guardian = None

    async def start(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path, log: Path
    ) -> ContainerProcess:
        """Run `command` in `folder` with exactly `variables`; both outputs are appended to the file `log`.

        A bare `python` or `python3` is this Python. Raises StartFailed if there is no such program or folder.
        """
        program = _program_of(command[0], variables.get("PATH", os.defpath), folder)
        with log.open("ab") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    program,
                    *command[1:],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    cwd=folder,
                    env=dict(variables),
                    start_new_session=True,
                    preexec_fn=end_with_parent(signal.SIGKILL),
                )
            except OSError as error:
                raise StartFailed(f'exec: "{command[0]}": {(error.strerror or str(error)).lower()}') from error
        self._tell_guardian(f"+{process.pid}\n")
        return ContainerProcess(process, self)

    def forget(self, group: int) -> None:
        """The group has ended."""
        self._tell_guardian(f"-{group}\n")

    def _tell_guardian(self, line: str) -> None:
        if self._guardian is not None and self._guardian.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guardian.stdin.write(line)
                self._guardian.stdin.flush()


def _program_of(word: str, path: str, folder: Path) -> str:
    if not folder.is_dir():
        raise StartFailed(f'chdir to cwd ("{folder}") failed: no such file or directory on this machine')
    if word in ("python", "python3"):
        return sys.executable
    if "/" in word:
        program = folder / word
        if not program.exists():
            raise StartFailed(f'exec: "{word}": stat {word}: no such file or directory')
        if not os.access(program, os.X_OK) or program.is_dir():
            raise StartFailed(f'exec: "{word}": permission denied')
        return str(program)
    found = shutil.which(word, path=path)
    if found is None:
        raise StartFailed(f'exec: "{word}": executable file not found in $PATH')
    return found
