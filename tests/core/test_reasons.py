"""The words of messages: how an attempt ended, in one line a person can act on (RULES §4.5)."""

from __future__ import annotations

import pytest

from controller.decide.reasons import LONGEST_WORDS, ending_words, last_words
from controller.fold.state import End, Ending
from controller.model.replicas import ReplicaType, SlotId

SLOT = SlotId(ReplicaType.WORKER, 1)


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending(End.FAILED, "p", 2, code=137, reason="OOMKilled"),
         "exited with code 137 (killed by signal 9, SIGKILL, OOMKilled)"),
        (Ending(End.FAILED, "p", 2, code=3, message="no data\n"), "exited with code 3: no data"),
        (Ending(End.DISRUPTED, "p", 2, reason="Evicted"), "was disrupted: Evicted"),
        (Ending(End.DISRUPTED, "p", 2, code=143, reason="PreemptionByScheduler"),
         "was disrupted: PreemptionByScheduler (code 143)"),
        (Ending(End.DISRUPTED, "p", 2, reason="PodDeleted"),
         "was deleted by someone else before its end was known: PodDeleted"),
        (Ending(End.DISRUPTED, "p", 2, reason="PodLostDuringGap"),
         "disappeared while the watch had a gap, its end is unknown: PodLostDuringGap"),
    ],
)  # fmt: skip
def test_how_an_attempt_ended(ending: Ending, words: str) -> None:
    assert ending_words(SLOT, ending) == f"worker-1 (pod p, attempt 2) {words}"


def test_the_last_words_are_whole_lines_without_underlining() -> None:
    message = "Traceback\n" + "x" * 400 + "\n  File a\n    f(x)\n    ^^^~\nValueError:  no   data\n"
    assert last_words(message) == "File a f(x) ValueError: no data"
    assert last_words("y" * 400) == "y" * LONGEST_WORDS
    assert last_words("^^^\n\n") == ""
