"""Stalled: something outside the job keeps a wanted slot from running (RULES §4.6, §12).

In: the slots that stall. Out: the condition's reason and message: the first slot's, with the number of the others.
"""

from __future__ import annotations

from controller.fold.state import JobState


def stall_words(state: JobState) -> tuple[str, str] | None:
    """(reason, message) of Stalled; None when nothing stalls."""
    if not state.stalls:
        return None
    first = state.stalled[0]
    reason, message = state.stalls[first]
    others = len(state.stalls) - 1
    return reason, f"{first}: {message}" + (f" (and {others} more)" if others else "")
