"""Builds the real control plane of the tests: kube-apiserver, kube-controller-manager and etcd, from Go modules.

Run: `python tests/controlplane/build.py`. Exit 0: built or there already; 3: no usable Go; 1: the build failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.controlplane.gotools import GoTools

HERE = Path(__file__).resolve().parent
TOOLS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}


def _link_flags(tool: str) -> str:
    if not tool.startswith("kube-"):
        return "-s -w"
    release = CONTROL_PLANE.release()
    major, minor, _ = release.lstrip("v").split(".", 2)
    version = "k8s.io/component-base/version"
    return f"-s -w -X {version}.gitVersion={release} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"


CONTROL_PLANE = GoTools(
    HERE / "module",
    TOOLS,
    "controlplane",
    release_of="k8s.io/kubernetes",
    told="all three take about ten minutes on two cores; once",
    link_flags=_link_flags,
)
bin_dir, is_built, go_problem = CONTROL_PLANE.bin_dir, CONTROL_PLANE.is_built, CONTROL_PLANE.go_problem

if __name__ == "__main__":
    sys.exit(CONTROL_PLANE.main())
