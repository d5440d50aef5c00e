"""How an attempt ended: the table of RULES §2, read from the top; the first row that fits decides.

In: a pod as observed, what is known of its attempt. Out: an `Ending`, or None while it has not ended.
"""

from __future__ import annotations

from controller.fold.spec import MAIN_CONTAINER, RestartPolicy
from controller.fold.state import Attempt, End, Ending
from controller.model.events import Event, Op
from controller.model.instants import SECOND, Instant, instant_of
from controller.model.objects import ContainerStatus, Pod, Terminated

POD_DELETED = "PodDeleted"
"""Somebody else deleted the pod; the code is unknown."""
POD_LOST_DURING_GAP = "PodLostDuringGap"
"""The pod went while the watch had a gap; the code is unknown and is never guessed."""
STATUS_UNKNOWN = "ContainerStatusUnknown"
"""The kubelet lost the container and invents 137."""

_DISRUPTION_REASONS = frozenset(
    ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "UnexpectedAdmissionError")
)
LAST_WORDS = 2048
"""Characters of a termination message that an ending keeps; the kubelet writes at most 4096 bytes."""


def main_status(pod: Pod) -> ContainerStatus | None:
    """The status of the container that decides (RULES §1)."""
    for status in pod.status.container_statuses or ():
        if status.name == MAIN_CONTAINER:
            return status
    return None


def main_terminated(pod: Pod) -> Terminated | None:
    """How the main container ended, if it is in that state now."""
    status = main_status(pod)
    return status.state.terminated if status and status.state else None


def ending_of(pod: Pod, attempt: Attempt, policy: RestartPolicy, event: Event, by_gap: bool) -> Ending | None:
    """The end that this observation of a pod shows (RULES §2)."""
    main = main_terminated(pod)
    phase = pod.status.phase
    if main is None and phase not in ("Succeeded", "Failed"):
        return None
    restarts_in_pod = (pod.spec.restart_policy or policy.in_pod) != "Never"
    is_end = Shown(main, attempt, event, by_gap)
    if attempt.is_stop and (main is None or not is_end.was_before(attempt.stop_asked_at)):
        return is_end.ending(End.STOPPED, main)
    if main is not None and main.exit_code == 0 and policy is not RestartPolicy.ALWAYS:
        return is_end.ending(End.SUCCEEDED, main)
    if phase == "Succeeded":
        return is_end.ending(End.SUCCEEDED, main)
    if phase == "Failed" and (disruption := _disruption(pod)):
        return is_end.ending(End.DISRUPTED, main, disruption, pod.status.message or "")
    # What ends while the kubelet restarts it in place is no end of the attempt.
    is_final = phase == "Failed" or not restarts_in_pod or pod.metadata.deletion_timestamp is not None
    if main is not None and is_final and (main.reason == STATUS_UNKNOWN or not main.finished_at):
        return is_end.ending(End.DISRUPTED, main, STATUS_UNKNOWN)
    if main is not None and main.exit_code != 0 and pod.metadata.deletion_timestamp and not attempt.stop_asked_at:
        if not is_end.was_before(attempt.kill_asked_at):
            return is_end.ending(End.DISRUPTED, main, POD_DELETED)
        return is_end.ending(End.FAILED, main)
    if main is not None and main.exit_code != 0 and (phase == "Failed" or not restarts_in_pod):
        return is_end.ending(End.FAILED, main)
    if phase != "Failed":
        return None
    if main is None and (init := _failed_init(pod)):
        return is_end.ending(End.FAILED, init)
    return is_end.ending(End.DISRUPTED, None, pod.status.reason or "NoExitCode", pod.status.message or "")


def vanished(attempt: Attempt, event: Event, by_gap: bool) -> Ending:
    """The end of a pod that is gone and whose end was not seen."""
    shown = Shown(None, attempt, event, by_gap)
    if attempt.is_stop:
        return shown.ending(End.STOPPED, None)
    reason = POD_DELETED if event.op is Op.DELETED else POD_LOST_DURING_GAP
    return shown.ending(End.DISRUPTED, None, reason)


class Shown:
    """When an end that an observation shows can have been (RULES §11): after the last observation that showed the
    container not ended, not after this one; a kubelet's second counts as later than any instant of it."""

    def __init__(self, main: Terminated | None, attempt: Attempt, event: Event, by_gap: bool) -> None:
        self._attempt = attempt
        self._event = event
        self._by_gap = by_gap
        finished = main.finished_at if main else None
        self.clamped_at: Instant = event.observed_at
        self.order_at: Instant = event.observed_at
        self.latest_at: Instant = event.observed_at
        if finished:
            finished_at = instant_of(finished)
            low = min(attempt.alive_at, event.observed_at)
            self.clamped_at = min(max(finished_at, low), event.observed_at)
            self.latest_at = min(max(finished_at + SECOND, low), event.observed_at)
            self.order_at = self.clamped_at

    def was_before(self, asked_at: Instant | None) -> bool:
        """At least one whole second before a request; a request at an unknown time (0) was before the end."""
        return bool(asked_at) and asked_at is not None and self.clamped_at + SECOND <= asked_at

    def ending(self, how: End, ended: Terminated | None, reason: str = "", message: str = "") -> Ending:
        attempt = self._attempt
        began = instant_of(ended.started_at) if ended and ended.started_at else attempt.started_at
        until = instant_of(ended.finished_at) if ended and ended.finished_at else self.clamped_at
        return Ending(
            how=how,
            pod=attempt.name,
            attempt=attempt.number,
            code=ended.exit_code if ended else None,
            reason=reason or (ended.reason or "" if ended and how is not End.SUCCEEDED else ""),
            message=((ended.message if ended else "") or message or "")[-LAST_WORDS:],
            observed_at=self._event.observed_at,
            order_at=self.order_at,
            latest_at=self.latest_at,
            position=self._event.position,
            ran_seconds=max(0.0, (until - began) / SECOND) if began else 0.0,
            by_gap=self._by_gap,
        )


def _disruption(pod: Pod) -> str:
    reason = pod.status.reason or ""
    if reason in _DISRUPTION_REASONS or reason.startswith("OutOf"):
        return reason
    for condition in pod.status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or "DisruptionTarget"
    return ""


def _failed_init(pod: Pod) -> Terminated | None:
    for status in pod.status.init_container_statuses or ():
        for state in (status.state, status.last_state):
            if state and state.terminated and state.terminated.exit_code != 0:
                return state.terminated
    return None
