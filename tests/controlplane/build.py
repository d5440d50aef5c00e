"""Builds the real control plane of the tests: kube-apiserver, kube-controller-manager and etcd, from Go modules.

In: the module beside this file (versions and hashes). Out: binaries in the user's cache folder, kept by content of the
module; a second call finds them there. An interrupted build leaves nothing half.
Run: `python tests/controlplane/build.py`. Exit 0: built or there already; 3: no usable Go; 1: the build failed.
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
from pathlib import Path

MODULE = Path(__file__).resolve().parent / "module"
TOOLS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
NO_GO = 3


def kubernetes_release() -> str:
    """The Kubernetes version that go.mod names, e.g. `v1.36.3`."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text())
    assert found, "tests/controlplane/module/go.mod names no k8s.io/kubernetes"
    return found.group(1)


def bin_dir() -> Path:
    """Where the binaries of exactly this module are, or will be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256((MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    return cache / "tfjob-controller" / "controlplane" / f"{kubernetes_release()}-{digest}"


def is_built() -> bool:
    """All binaries are there; they get their names only when whole."""
    return all((bin_dir() / tool).is_file() for tool in TOOLS)


def go_problem() -> str | None:
    """Why this machine's Go cannot build it; None when it can."""
    go = shutil.which("go")
    if go is None:
        return "Go is not installed: the tests against a real control plane are left out (install Go to have them)"
    needed = re.search(r"^go (\d+)\.(\d+)", (MODULE / "go.mod").read_text(), re.M)
    assert needed, "tests/controlplane/module/go.mod names no Go version"
    told = subprocess.run([go, "env", "GOVERSION"], cwd=MODULE, capture_output=True, text=True)
    has = re.search(r"go(\d+)\.(\d+)", told.stdout)
    if told.returncode or not has or tuple(map(int, has.groups())) < tuple(map(int, needed.groups())):
        return f"Go {needed[1]}.{needed[2]} or newer is needed, this is {told.stdout.strip() or 'unusable'}"
    return None


def _link_flags(tool: str) -> str:
    if not tool.startswith("kube-"):
        return "-s -w"
    release = kubernetes_release()
    major, minor, _ = release.lstrip("v").split(".", 2)
    version = "k8s.io/component-base/version"
    return f"-s -w -X {version}.gitVersion={release} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"


def build() -> None:
    """Builds what is missing. Raises CalledProcessError with Go's own words on stderr."""
    target = bin_dir()
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for tool, package in TOOLS.items():
            if (target / tool).is_file():
                continue
            print(f"Building {tool} (all three take about ten minutes on two cores; once)", flush=True)
            with tempfile.TemporaryDirectory(dir=target) as half:
                command = ["go", "build", "-trimpath", "-ldflags", _link_flags(tool), "-o", f"{half}/{tool}", package]
                subprocess.run(command, cwd=MODULE, check=True)
                Path(half, tool).rename(target / tool)


def main() -> int:
    if is_built():
        print(f"The control plane {kubernetes_release()} is built: {bin_dir()}")
        return 0
    problem = go_problem()
    if problem:
        print(problem, file=sys.stderr)
        return NO_GO
    try:
        build()
    except subprocess.CalledProcessError as error:
        print(f"go build ended with {error.returncode}; its words are above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
