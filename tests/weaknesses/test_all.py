"""No weakness is forgotten: each number has a test that names it, or a row that says why it needs none."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "WEAKNESSES.md"
NUMBERS = set(range(1, 40))
KEPT, IMPOSSIBLE = {11, 12, 21, 25, 36}, {17, 18, 31}


def rows() -> dict[int, str]:
    """number → what is here, of the page's table."""
    found = re.findall(r"^\| (\d+) \| .+? \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    return {int(number): text for number, text in found}


def test_every_weakness_has_a_row() -> None:
    assert set(rows()) == NUMBERS


def test_what_is_kept_names_its_rule_and_what_cannot_be_says_so() -> None:
    kept = {number for number, text in rows().items() if re.search(r"\bkept\b.*RULES §", text) and number in KEPT}
    impossible = {number for number, text in rows().items() if text.startswith("cannot exist: ")}
    assert (kept, impossible) == (KEPT, IMPOSSIBLE)


def test_every_other_weakness_has_a_test_that_names_it() -> None:
    functions = (name for file in TESTS.rglob("*.py") for name in re.findall(r"def (test_\w+)", file.read_text()))
    scenarios = (file.stem for file in TESTS.rglob("weakness_*.yaml"))
    named = {int(number) for name in [*functions, *scenarios] for number in re.findall(r"weakness_(\d\d)", name)}
    assert named == NUMBERS - KEPT - IMPOSSIBLE
