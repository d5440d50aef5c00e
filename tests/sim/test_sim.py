"""Simulated worlds: none goes wrong, and the oracle notices when the controller does.

A few worlds in every run, a thousand in `make soak`; `make sim` plays as many as one likes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys

import pytest

from tests.cluster.harness import ROOT
from tests.sim.faults import KINDS


async def simulated(*arguments: str, program: str = "") -> tuple[int, str]:
    """Exit code and words of a simulation in a process of its own: one order of sets, as everywhere."""
    command = ["-c", program] if program else ["-m", "tests.sim", *arguments]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.soak)])
async def test_no_world_goes_wrong(count: int) -> None:
    code, said = await simulated("--seeds", str(count))
    assert code == 0, said
    faults = json.loads(re.findall(r"faults: (\{.*\})", said)[0])
    if count >= 1000:
        assert set(KINDS) | {"crash", "second leader"} <= set(faults)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", [3])
async def test_a_crash_right_before_or_after_any_write_changes_nothing(seed: int, every: int) -> None:
    code, said = await simulated("--seed", str(seed), "--every", str(every))
    assert code == 0, said
    assert int(said.rsplit("\n", 2)[-2].partition(" worlds")[0]) >= 2


NOTICED = """
import logging, sys, structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
from tests.mutants import Change, mutated
from tests.sim.oracle import problems_of
from tests.sim.world import Plan, played
with mutated([Change({module!r}, {old!r}, {new!r})]):
    for seed in range(24):
        problems = problems_of(played(Plan(seed)))
        if problems:
            print(problems[0])
            sys.exit(7)
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        pytest.param("controller.run.perform", "{request.ordinal}/{self._epoch}/", "{request.ordinal}/", id="outcomes"),
        pytest.param("controller.decide.agenda", "and slot.verdict is Verdict.OPEN\n\n\n", "\n\n\n", id="run again"),
        pytest.param(
            "controller.decide.evaluate", "    if not state.has_ended():\n", "    if True:\n", id="after the end"
        ),
    ],
)
async def test_the_oracle_notices_a_bug(module: str, old: str, new: str) -> None:
    code, said = await simulated(program=NOTICED.format(module=module, old=old, new=new))
    assert code == 7, said or "no world noticed it"
