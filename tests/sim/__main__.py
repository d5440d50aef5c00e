"""`make sim SEEDS=1000`: plays simulated worlds, one a seed, on all cores; a failure prints how to repeat it."""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import sys
from collections import Counter

import structlog

from tests.sim.oracle import problems_of
from tests.sim.world import Plan, played


def outcome(plan: Plan) -> tuple[Plan, list[str], Counter[str], int]:
    """One world: its plan, what is wrong with it, its faults by kind, how much the controller wrote."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        record = played(plan)
    except Exception as error:
        return plan, [f"{type(error).__name__}: {error}"], Counter(), 0
    return plan, problems_of(record), record.faults.counts, len(record.writes)


def crashes(seed: int, every: int) -> list[Plan]:
    """Of a world in which nothing else goes wrong: a crash right before, and right after, each so-manieth write."""
    calm = Plan(seed, jobs=2, fault_rate=0.0, crash_mean_seconds=None)
    writes = outcome(calm)[3]
    return [
        Plan(seed, jobs=2, fault_rate=0.0, crash_mean_seconds=None, crash_at=(number, when))
        for number in range(1, writes + 1, every)
        for when in ("before", "after")
    ]


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of words have one order only then, and a seed is one world.
        again = [sys.executable, "-m", "tests.sim", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one world only")
    parser.add_argument("--crash-at", help="with --seed, a calm world: NUMBER:before or NUMBER:after a write")
    parser.add_argument("--every", type=int, help="with --seed: crash around each so-manieth write of a calm world")
    arguments = parser.parse_args()
    if arguments.seed is None:
        plans = [Plan(seed) for seed in range(arguments.first, arguments.first + arguments.seeds)]
    elif arguments.every:
        plans = crashes(arguments.seed, arguments.every)
    elif arguments.crash_at:
        number, _, when = arguments.crash_at.partition(":")
        plans = [Plan(arguments.seed, 2, 0.0, None, crash_at=(int(number), when))]
    else:
        plans = [Plan(arguments.seed)]
    faults: Counter[str] = Counter()
    wrong = 0
    with multiprocessing.Pool() as pool:
        for plan, problems, counts, _ in pool.imap_unordered(outcome, plans):
            faults += counts
            wrong += bool(problems)
            crash = f" --crash-at {plan.crash_at[0]}:{plan.crash_at[1]}" if plan.crash_at else ""
            for problem in problems[:5]:
                print(
                    f"seed {plan.seed}: {problem}\n    repeat: python -m tests.sim --seed {plan.seed}{crash}",
                    flush=True,
                )
    print(f"{len(plans)} worlds, {wrong} wrong; faults: {json.dumps(dict(sorted(faults.items())))}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
