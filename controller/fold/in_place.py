"""Restarts that the kubelet does in place: how many count as retries, and whether the slot is crashing (RULES §3, §12).

In: a pod as observed and what is known of its attempt. Out: the attempt's new counts, and the retries to add.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.fold.endings import STATUS_UNKNOWN
from controller.fold.state import Attempt
from controller.model.objects import ContainerStatus, Pod, Terminated


class InPlace(NamedTuple):
    """`counted` retries are new; `crash` is the end it crashes with, None when it does not."""

    restarts_seen: int
    counted: int
    crash: Terminated | None


def in_place_of(pod: Pod, status: ContainerStatus | None, attempt: Attempt, restarts_in_pod: bool) -> InPlace:
    """Reads restartCount and states of the main container from its `status`.

    restartCount that goes down begins a new count. The last end tells whether its restart counts: not after code 0
    (Always) nor when the kubelet lost the container; what lies between two observations counts.
    """
    if status is None:
        return InPlace(attempt.restarts_seen, 0, None)
    count = status.restart_count
    if count == attempt.restarts_seen and status.state and status.state.running:
        return InPlace(count, 0, None)
    fresh = count - attempt.restarts_seen if count >= attempt.restarts_seen else count
    state, last = status.state, status.last_state
    last_end = last.terminated if last else None
    counted = fresh
    if fresh and last_end and (last_end.exit_code == 0 or last_end.reason == STATUS_UNKNOWN):
        counted -= 1
    crash: Terminated | None = None
    if restarts_in_pod and pod.status.phase not in ("Failed", "Succeeded") and not pod.metadata.deletion_timestamp:
        ended = state.terminated if state else None
        if ended is None and state and state.waiting and (count or state.waiting.reason == "CrashLoopBackOff"):
            ended = last_end
        if ended is not None and ended.exit_code != 0 and ended.reason != STATUS_UNKNOWN:
            crash = ended
    return InPlace(count, counted, crash)
