"""Builds the tools of these tests, helm and the loader of Docker Compose, from Go modules.

Run: `python tests/deploy/build.py` (`make helm-tools`). Exit 0: built or there already; 3: no usable Go; 1: it failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.controlplane.gotools import GoTools

TOOLS = {"helm": "helm.sh/helm/v3/cmd/helm", "composecheck": "./composecheck"}
DEPLOY_TOOLS = GoTools(
    Path(__file__).resolve().parent / "module",
    TOOLS,
    "deploytools",
    release_of="helm.sh/helm/v3",
    told="a few minutes on two cores; once",
)
bin_dir, is_built = DEPLOY_TOOLS.bin_dir, DEPLOY_TOOLS.is_built

if __name__ == "__main__":
    sys.exit(DEPLOY_TOOLS.main())
