"""Files that belong to the code but are not code: the CRD and the examples.

They stand in deploy/ and examples/ of a checkout, and inside the package of an installed wheel.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent.parent


def shipped(*parts: str) -> Path:
    """The place of a shipped file, e.g. `shipped("deploy", "crd", "tfjob.yaml")`. Raises FileNotFoundError."""
    for root in (_PACKAGE / "shipped", _CHECKOUT):
        found = root.joinpath(*parts)
        if found.exists():
            return found
    raise FileNotFoundError("/".join(parts))
