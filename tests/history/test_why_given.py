"""Each given scenario that ends Failed: the answer to "why" names the slot, the attempt and the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from controller.history import Answer, lines_of
from controller.scenario import parse_file
from controller.scenario.play import PurePlayer
from tests.scenarios.test_given import FILES

SLOT = re.compile(r"failed: (\S+) \(pod (\S+), attempt (\d+)\) ")
CODE = re.compile(r"(?:exited with code|\(code) (\d+)")


@cache
def played(file: Path) -> tuple[Answer, dict[str, Any]] | None:
    """The answer at a scenario's end and the Failed condition on the API server; None when it ends otherwise."""
    player = PurePlayer(parse_file(file))
    player.run(lambda step: None)
    entries = (player.status() or {}).get("conditions") or [{}]
    answer = player.why()
    if answer is None or entries[-1].get("type") != "Failed":
        return None
    return answer, entries[-1]


def test_many_given_scenarios_end_failed_by_a_slot() -> None:
    """So that the next test cannot pass by finding nothing."""
    failed = [found for file in FILES if (found := played(file)) is not None]
    assert len(failed) >= 100
    by_slot = [answer for answer, condition in failed if SLOT.search(condition["message"])]
    assert len(by_slot) >= 90
    assert all(answer.cause is not None for answer in by_slot)
    assert len({answer.cause.code for answer in by_slot if answer.cause}) >= 6


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_answer_names_slot_attempt_and_code(file: Path) -> None:
    found = played(file)
    if found is None:
        return
    answer, condition = found
    text = "\n".join(lines_of(answer))
    assert (answer.state, answer.reason, answer.message) == ("Failed", condition["reason"], condition["message"])
    named = SLOT.search(condition["message"])
    if named is None:
        assert answer.cause is None
        assert condition["reason"] in text or "before this log knew it" in text
        return
    slot, pod, attempt = named.groups()
    assert answer.cause is not None
    assert (answer.cause.slot, answer.cause.pod, str(answer.cause.attempt)) == (slot, pod, attempt)
    assert f"{slot}, attempt {attempt} (pod {pod}" in text
    code = CODE.search(condition["message"])
    assert answer.cause.code == (int(code[1]) if code else None)
    if code:
        assert f"  exit code     {code[1]}" in text
    else:
        assert any(pod in doubt for doubt in answer.doubts) or answer.cause.reason in text
    assert answer.chain[-1].what.startswith("Failed became true")
