"""Builds Kueue for `make test-kueue`, from its Go module.

Run: `python tests/cluster/kueue/build.py`. Exit 0: built or there already; 3: no usable Go; 1: the build failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.controlplane.gotools import GoTools

KUEUE = GoTools(
    Path(__file__).resolve().parent / "module",
    {"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    "kueue",
    release_of="sigs.k8s.io/kueue",
    told="about ten minutes on two cores; once",
)

if __name__ == "__main__":
    sys.exit(KUEUE.main())
