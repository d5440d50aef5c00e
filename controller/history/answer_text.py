"""An answer in a few lines that a person can act on.

In: an `Answer`. Out: lines of plain text. Never: a control character that somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.history.describe import plain
from controller.history.ends import Ended
from controller.history.why import Answer
from controller.model.instants import SECOND

TITLE = 14
"""Width of the titles on the left."""
WORD_LINES = 10
"""Last lines of a termination message that are shown."""


def lines_of(answer: Answer) -> list[str]:
    """The answer, most important first."""
    lines = [answer.summary]
    if answer.cause is not None:
        lines += _end("failed" if answer.state == "Failed" else "last failure", answer.cause)
    if answer.first is not None:
        lines += _titled("first of all", [plain(answer.first.words(), 600)])
    if answer.retries:
        lines += _titled("retries", [str(answer.retries)])
    lines += _titled("how it came", [f"{link.at}  #{link.position}  {link.what}" for link in answer.chain])
    lines += _titled("then", [f"the controller {line}" for line in answer.then])
    lines += _titled("waits for", answer.waits)
    lines += _titled("warnings", answer.warnings)
    lines += _titled("not certain", answer.doubts)
    return lines


def _end(title: str, end: Ended) -> list[str]:
    on = f" on {end.node}" if end.node else ""
    lines = _titled(title, [f"{end.slot}, attempt {end.attempt} (pod {end.pod}{on}{_ran(end)})"])
    if end.code is not None:
        meaning = f": {end.meaning}" if end.meaning else ""
        lines += _titled("exit code", [f"{end.code}{meaning}"])
    if end.reason:
        lines += _titled("reason", [plain(end.reason)])
    lines += _titled("ended by", [end.ended_by_words])
    words = [plain(line, 400) for line in end.last_lines()]
    return lines + _titled("last words", words[-WORD_LINES:])


def _ran(end: Ended) -> str:
    if end.started_at is None or end.finished_at is None or end.finished_at < end.started_at:
        return ""
    return f", ran {(end.finished_at - end.started_at) / SECOND:.0f} s"


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    return [f"  {title if number == 0 else '':<{TITLE}}{line}" for number, line in enumerate(lines)]
