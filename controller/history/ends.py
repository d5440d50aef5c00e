"""How attempts ended and who ended them, in words: from the rows of the log and what the fold knows last.

In: rows of attempts, a folded state, the events in which this controller asked for deletions. Out: `Ended`. Never: I/O,
a guess: what is not known is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from controller.decide.reasons import ending_words
from controller.fold import JobState
from controller.fold.endings import POD_DELETED, POD_LOST_DURING_GAP, STATUS_UNKNOWN
from controller.fold.exit_codes import meaning_of
from controller.fold.state import End, Ending
from controller.log import AttemptRow
from controller.model.actions import Because, DeleteOwned, DeletePod
from controller.model.events import Decided, Event
from controller.model.instants import Instant
from controller.model.replicas import SlotId, slot_id_of, slot_of


class Ender(StrEnum):
    """Who ended an attempt; the view audit.attempts has the same words."""

    ITSELF = "itself"
    KERNEL = "kernel"
    KUBELET = "kubelet"
    NODE = "node"
    SCHEDULER = "scheduler"
    CONTROLLER = "controller"
    SOMEONE = "someone else"
    UNKNOWN = "unknown"


_ENDERS: dict[str, tuple[Ender, str]] = {
    POD_DELETED: (Ender.SOMEONE, "someone else, who deleted the pod"),
    POD_LOST_DURING_GAP: (Ender.UNKNOWN, "not known: the pod went while the watch had a gap"),
    STATUS_UNKNOWN: (Ender.KUBELET, "the kubelet, which lost the container (the code is its invention)"),
    "Evicted": (Ender.KUBELET, "the kubelet, which evicted the pod"),
    "Preempting": (Ender.KUBELET, "the kubelet, for a critical pod"),
    "UnexpectedAdmissionError": (Ender.KUBELET, "the kubelet, which did not admit the pod"),
    "TerminationByKubelet": (Ender.KUBELET, "the kubelet, for its node's sake"),
    "NodeLost": (Ender.NODE, "its node, which was lost"),
    "NodeShutdown": (Ender.NODE, "its node, which shut down"),
    "Shutdown": (Ender.NODE, "its node, which shut down"),
    "Terminated": (Ender.NODE, "its node, which shut down"),
    "DeletionByPodGC": (Ender.NODE, "the pod collector, since its node is gone"),
    "DeletionByTaintManager": (Ender.NODE, "its node's taint, which the pod does not tolerate"),
    "PreemptionByScheduler": (Ender.SCHEDULER, "the scheduler, for a pod of higher priority"),
    "EvictionByEvictionAPI": (Ender.SOMEONE, "someone else, through the eviction API"),
}
OOM_KILLED = "OOMKilled"


class Ended(msgspec.Struct, frozen=True):
    """One attempt's end. `meaning` is the code in words, `ended_by_words` who ended it, `by_gap` that only a relist
    showed it; times are instants."""

    slot: str
    attempt: int
    pod: str
    how: str
    code: int | None
    meaning: str
    reason: str
    message: str
    node: str
    started_at: Instant | None
    finished_at: Instant | None
    position: int
    ended_by: Ender
    ended_by_words: str
    by_gap: bool = False

    def id(self) -> SlotId:
        found = slot_of(self.slot)
        assert found is not None
        return found

    def order(self) -> tuple[int, tuple[int, int], int]:
        """By when it ended, then as RULES §4.4 names failures."""
        return self.finished_at or 0, self.id().order(), self.attempt

    def words(self, *, has_message: bool = True) -> str:
        """Slot, pod, attempt, code and reason, last words: as conditions say it."""
        message = self.message if has_message else ""
        return ending_words(self.id(), Ending(End(self.how), self.pod, self.attempt, self.code, self.reason, message))

    def last_lines(self) -> list[str]:
        """The lines of its termination message; what only underlines another line is left out."""
        return [line for line in self.message.splitlines() if line.strip("^~ \t")]

    def who(self) -> str:
        """The beginning of `words`, as a Failed condition names it."""
        return f"{self.slot} (pod {self.pod}, attempt {self.attempt})"


class Asked(msgspec.Struct, frozen=True):
    """Which pods this controller asked to delete and why; `collections` are (position, why) of all at once."""

    pods: dict[str, Because] = {}
    collections: tuple[tuple[int, Because], ...] = ()

    def why(self, pod_uid: str) -> Because | None:
        """Why the controller asked for this pod to go; None when it did not."""
        if pod_uid in self.pods:
            return self.pods[pod_uid]
        return self.collections[0][1] if self.collections else None


def asked_in(events: Iterable[Event]) -> Asked:
    """What the DECIDED events of a job say about deletions of its pods."""
    pods: dict[str, Because] = {}
    collections: list[tuple[int, Because]] = []
    for event in events:
        for action in event.fact.actions if isinstance(event.fact, Decided) else ():
            if isinstance(action, DeletePod):
                pods.setdefault(action.uid, action.because)
            elif isinstance(action, DeleteOwned) and action.kind == "pods":
                collections.append((event.position, action.because))
    return Asked(pods, tuple(collections))


def ends_of(rows: Iterable[AttemptRow], state: JobState | None, asked: Asked) -> list[Ended]:
    """Every end that is known, in the order in which they came."""
    found: dict[tuple[SlotId, int], Ended] = {}
    for row in rows:
        if row.how is not None:
            found[slot_id_of(row.type, row.index), row.attempt] = _of_row(row, asked)
    for slot in state.slots.values() if state else ():
        if slot.last is not None:
            _overlay(found, slot.id, slot.last)
    if state is not None and state.failure is not None:
        _overlay(found, slot_id_of(state.failure.type, state.failure.index), state.failure.ending)
    return sorted(found.values(), key=Ended.order)


def ender_of(how: str, code: int | None, reason: str, because: Because | None) -> tuple[Ender, str]:
    """Who ended an attempt, as a word and in words."""
    if how == End.STOPPED:
        return Ender.CONTROLLER, f"this controller ({because.value})" if because else "this controller"
    if reason in _ENDERS:
        return _ENDERS[reason]
    if reason.startswith("OutOf"):
        return Ender.KUBELET, "the kubelet, which did not admit the pod"
    if reason == OOM_KILLED:
        return Ender.KERNEL, "the kernel: the container went over its memory limit"
    if code is None:
        return (Ender.ITSELF, "itself") if how == End.SUCCEEDED else (Ender.UNKNOWN, "not known")
    if 128 < code < 128 + 65:
        return Ender.ITSELF, "itself, or a signal from within its pod or node"
    return Ender.ITSELF, "itself"


def _of_row(row: AttemptRow, asked: Asked) -> Ended:
    because = row.ended_by or asked.why(row.pod_uid)
    ended_by, words = ender_of(row.how or "", row.exit_code, row.reason, because)
    return Ended(
        slot=str(slot_id_of(row.type, row.index)),
        attempt=row.attempt,
        pod=row.pod_name,
        how=row.how or "",
        code=row.exit_code,
        meaning=meaning_of(row.exit_code) if row.exit_code is not None else "",
        reason=row.reason,
        message=row.message,
        node=row.node,
        started_at=row.started_at,
        finished_at=row.finished_at,
        position=row.position,
        ended_by=ended_by,
        ended_by_words=words,
    )


def _overlay(found: dict[tuple[SlotId, int], Ended], slot: SlotId, ending: Ending) -> None:
    """What the fold knows beyond the row: that a gap hid it; and an end in place, which has no row."""
    row = found.get((slot, ending.attempt))
    if row is not None and row.position == ending.position:
        found[slot, ending.attempt] = msgspec.structs.replace(row, by_gap=ending.by_gap)
        return
    ended_by, words = ender_of(ending.how, ending.code, ending.reason, None)
    found[slot, ending.attempt] = Ended(
        slot=str(slot),
        attempt=ending.attempt,
        pod=ending.pod,
        how=ending.how,
        code=ending.code,
        meaning=meaning_of(ending.code) if ending.code is not None else "",
        reason=ending.reason,
        message=ending.message,
        node=row.node if row else "",
        started_at=row.started_at if row else None,
        finished_at=ending.order_at,
        position=ending.position,
        ended_by=ended_by,
        ended_by_words=words,
        by_gap=ending.by_gap,
    )
