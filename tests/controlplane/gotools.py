"""Programs of the tests that are built from Go modules, once, into the user's cache folder.

In: a module's folder (go.mod, go.sum: versions and hashes) and the packages wanted. Out: binaries, kept by content of
the module; a second call finds them there. An interrupted build leaves nothing half. Never: an installed program.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

NO_GO = 3


class GoTools:
    """The tools of one module. `group` is their folder in the cache, `told` what is said before each build."""

    def __init__(
        self,
        module: Path,
        tools: Mapping[str, str],
        group: str,
        *,
        release_of: str,
        told: str,
        link_flags: Callable[[str], str] = lambda tool: "-s -w",
    ) -> None:
        self._module = module
        self._tools = tools
        self._group = group
        self._release_of = release_of
        self._told = told
        self._link_flags = link_flags

    def release(self) -> str:
        """The version that go.mod names of the module that the tools are named after, e.g. `v1.36.3`."""
        found = re.search(rf"{re.escape(self._release_of)} (v\S+)", (self._module / "go.mod").read_text())
        assert found, f"{self._module}/go.mod names no {self._release_of}"
        return found.group(1)

    def bin_dir(self) -> Path:
        """Where the binaries of exactly this module are, or will be."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        content = (self._module / "go.mod").read_bytes() + (self._module / "go.sum").read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:12]
        return cache / "tfjob-controller" / self._group / f"{self.release()}-{digest}"

    def is_built(self) -> bool:
        """All binaries are there; they get their names only when whole."""
        return all((self.bin_dir() / tool).is_file() for tool in self._tools)

    def go_problem(self) -> str | None:
        """Why this machine's Go cannot build them; None when it can."""
        go = shutil.which("go")
        if go is None:
            return "Go is not installed: the tests against a real control plane are left out (install Go to have them)"
        needed = re.search(r"^go (\d+)\.(\d+)", (self._module / "go.mod").read_text(), re.M)
        assert needed, f"{self._module}/go.mod names no Go version"
        told = subprocess.run([go, "env", "GOVERSION"], cwd=self._module, capture_output=True, text=True)
        has = re.search(r"go(\d+)\.(\d+)", told.stdout)
        if told.returncode or not has or tuple(map(int, has.groups())) < tuple(map(int, needed.groups())):
            return f"Go {needed[1]}.{needed[2]} or newer is needed, this is {told.stdout.strip() or 'unusable'}"
        return None

    def source_of(self, module: str) -> Path:
        """The sources of one of the modules, where Go keeps them. Raises CalledProcessError."""
        command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
        told = subprocess.run(command, cwd=self._module, capture_output=True, text=True, check=True)
        return Path(told.stdout.strip())

    def main(self) -> int:
        """Builds what is missing. 0: built or there already; 3: no usable Go; 1: Go's own words are on stderr."""
        if self.is_built():
            print(f"{self._group} {self.release()} is built: {self.bin_dir()}")
            return 0
        problem = self.go_problem()
        if problem:
            print(problem, file=sys.stderr)
            return NO_GO
        try:
            self._build()
        except subprocess.CalledProcessError as error:
            print(f"go build ended with {error.returncode}; its words are above", file=sys.stderr)
            return 1
        return 0

    def _build(self) -> None:
        target = self.bin_dir()
        target.mkdir(parents=True, exist_ok=True)
        with (target / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for tool, package in self._tools.items():
                if (target / tool).is_file():
                    continue
                print(f"Building {tool} ({self._told})", flush=True)
                with tempfile.TemporaryDirectory(dir=target) as half:
                    flags = ["-trimpath", "-ldflags", self._link_flags(tool)]
                    command = ["go", "build", *flags, "-o", f"{half}/{tool}", package]
                    subprocess.run(command, cwd=self._module, check=True)
                    Path(half, tool).rename(target / tool)
