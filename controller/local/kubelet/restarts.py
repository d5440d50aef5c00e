"""Whether a container that ended is started again in place, and after how long. Pure.

Rules: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy. The first restart comes at
once; then the wait doubles from a base (10 s in a real kubelet) to 30 times the base (5 minutes); a run of 60 times the
base (10 minutes) starts the series again.
"""

from __future__ import annotations

from controller.model.instants import SECOND, Instant

__all__ = ["Backoff", "is_restarted"]

_LONGEST_IN_BASES = 30
_FORGETS_AFTER_BASES = 60


def is_restarted(restart_policy: str, exit_code: int) -> bool:
    """Whether the pod's `restart_policy` (Always, OnFailure, Never) starts a container again after this code."""
    return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)


class Backoff:
    """The series of waits of one container."""

    def __init__(self, base_seconds: float) -> None:
        self._base_seconds = base_seconds
        self._ends_in_a_row = 0

    def seconds_after(self, started_at: Instant, finished_at: Instant) -> float:
        """How long to wait before the next start, after a run from `started_at` to `finished_at`."""
        if finished_at - started_at >= _FORGETS_AFTER_BASES * self._base_seconds * SECOND and started_at:
            self._ends_in_a_row = 0
        self._ends_in_a_row += 1
        if self._ends_in_a_row == 1:
            return 0.0
        return float(self._base_seconds * min(2 ** min(self._ends_in_a_row - 2, 10), _LONGEST_IN_BASES))
