"""Pages that are made from the code are what the code makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_the_state_machine_is_not_stale() -> None:
    made = subprocess.run(
        [sys.executable, "docs/make_state_machine.py"], cwd=ROOT, check=True, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert made.stdout == (ROOT / "docs" / "STATE_MACHINE.md").read_text(), "run `make docs`"
