"""Scenarios played on an API server, for the tests: all at once, each file's result on its own.

In: a way of playing, files. Out: file → result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from controller.scenario import FileResult, LiveRun, Malformed

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "scenarios" / "given"
FILES = sorted((SHARED if SHARED.is_dir() else HERE / "given").glob("*.yaml"))
AT_ONCE = 6
MAX_WAIT_SECONDS = 5.0
NOT_LIVE = {
    "own-finalizer-keeps-ends": "an API server deletes an ended pod with a grace of 0, and then RULES §11 says that the"
    " end counts as after the request: disrupted, no retry; the file has the grace of a running pod in mind",
}
"""Files that hold in the core and contradict what API servers do."""
_SHORT = re.compile(r"\bafter:|ttlSecondsAfterFinished: [1-9]\b|activeDeadlineSeconds: [1-9]\b")


async def play(run: LiveRun, files: Sequence[Path]) -> dict[str, FileResult]:
    """Plays them. A file with a timer of seconds has a second try, alone: on a loaded machine the timer may have fallen
    due before the runner could look, which says nothing of the controller."""
    played = [file for file in files if file.stem not in NOT_LIVE]
    results = {}
    async for result in run.play_all(played, AT_ONCE):
        assert not isinstance(result, Malformed), result
        results[Path(result.file).stem] = result
    for file in played:
        if not results[file.stem].held and _SHORT.search(file.read_text()):
            again = await run.play(file)
            results[file.stem] = again
    return results


def problems_of(result: FileResult) -> list[str]:
    """What did not hold, in words; nothing for a file that was left out."""
    found = [f"{step.path}: {each}" for step in result.steps for each in step.differences]
    return [result.error, *found] if result.error else found
