"""The fold's result: everything that is known of one job (RULES §1, §2, §5).

Out: the structs, their snapshot form. What is derived (tallies, agendas) is kept beside the facts, so that an event of
a job with a thousand replicas costs what one with ten does; a snapshot leaves it out and decoding makes it anew.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from controller.fold.spec import JobSpec
from controller.model.actions import Action, EmitNotice, Holder
from controller.model.events import Timer
from controller.model.instants import Instant
from controller.model.replicas import ReplicaType, SlotId, slot_id_of
from controller.model.settings import GangScheduler

CONDITION_TYPES = frozenset(("Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended", "Stalled"))
"""The types that this controller sets (RULES §4)."""


class End(StrEnum):
    """How an attempt ended (RULES §2)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISRUPTED = "disrupted"
    STOPPED = "stopped"


class Verdict(StrEnum):
    """What a slot has come to."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Failed for good: nothing retries it any more."""


class Ending(msgspec.Struct, frozen=True):
    """One attempt's end. `latest_at` is the latest instant at which it can have been (RULES §11), for comparisons with
    deadlines; `order_at` puts several ends of one relist in order."""

    how: End
    pod: str
    attempt: int
    code: int | None = None
    reason: str = ""
    message: str = ""
    observed_at: Instant = 0
    order_at: Instant = 0
    latest_at: Instant = 0
    position: int = 0
    ran_seconds: float = 0.0
    by_gap: bool = False


class Attempt(msgspec.Struct, frozen=True):
    """One pod of a slot, as last seen."""

    number: int
    uid: str
    name: str
    created_at: Instant = 0
    phase: str = "Pending"
    node: str = ""
    has_uid_label: bool = False
    is_seen: bool = False
    """Shown by the watch, not only by the outcome of its creation."""
    is_gone: bool = False
    terminating_at: Instant | None = None
    """When a deletionTimestamp was first observed."""
    kill_asked_at: Instant | None = None
    """When someone asked for its deletion by the pod's own word (deletionTimestamp less grace); 0: unknown."""
    stop_asked_at: Instant | None = None
    """When this controller decided to delete it."""
    is_stop: bool = False
    """That decision found it not ended: whatever comes, it is stopped (RULES §2)."""
    alive_at: Instant = 0
    """The last observation that showed its main container not ended."""
    started_at: Instant | None = None
    restarts_seen: int = 0
    is_crashing: bool = False
    """Restarting in place, its main container not running after an end that was not success."""
    crash_code: int | None = None
    crash_reason: str = ""
    waits: tuple[str, str] | None = None
    """(Stalled reason, message) of what keeps it from running."""
    ending: Ending | None = None
    has_finalizer: bool = False
    is_release_asked: bool = False

    def is_live(self) -> bool:
        """Its pod exists and its end is not known."""
        return not self.is_gone and self.ending is None

    def has_ended_by_phase(self) -> bool:
        """What cleanup asks: the pod's phase, whatever its main container says (RULES §6)."""
        return self.phase in ("Succeeded", "Failed")


class Retry(msgspec.Struct, frozen=True):
    """A slot between a failure or disruption that its policy retries, and its next attempt being Running."""

    ending: Ending
    due_at: Instant
    is_due: bool = False
    is_replaced: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """The API server refuses to create something; `tries` paces the next one."""

    reason: str
    message: str
    tries: int
    due_at: Instant
    is_due: bool = False
    holder: Holder | None = None
    is_held: bool = False
    """The watch shows the holder of the name: only its going is waited for."""
    may_pass: bool = False
    """The server was busy or faulty: it has not refused the object."""


class ServiceSeen(msgspec.Struct, frozen=True):
    uid: str
    has_uid_label: bool = False
    is_seen: bool = False
    is_delete_asked: bool = False
    created_at: Instant = 0
    """When its creation was answered; of one that the watch has not shown."""


class GroupSeen(msgspec.Struct, frozen=True):
    """The job's PodGroup. `key` and `min_member` say what it was last made or brought to; None: not known."""

    uid: str
    scheduler: GangScheduler
    phase: str = ""
    key: str | None = None
    min_member: int = 0
    is_seen: bool = False
    """Shown by the watch, not only by the outcome of its creation."""
    is_delete_asked: bool = False
    created_at: Instant = 0
    """When its creation was answered; of one that the watch has not shown."""


class Slot(msgspec.Struct, frozen=True):
    """One (type, index). `attempt` is the newest; `extras` are further live pods that claim the slot (RULES §9)."""

    type: ReplicaType
    index: int
    attempts: int = 0
    attempt: Attempt | None = None
    last: Ending | None = None
    verdict: Verdict = Verdict.OPEN
    retry: Retry | None = None
    backoff_step: int = 0
    is_creating: bool = False
    is_creating_service: bool = False
    service: ServiceSeen | None = None
    pod_refusal: Refusal | None = None
    service_refusal: Refusal | None = None
    is_stall_due: bool = False
    """Its terminating pod has been that for over five minutes (RULES §4.6)."""

    @property
    def id(self) -> SlotId:
        return slot_id_of(self.type, self.index)

    def is_retried(self) -> bool:
        """Being retried (RULES §4.3)."""
        return self.retry is not None or (
            self.attempt is not None and self.attempt.is_crashing and self.attempt.is_live()
        )


class Stray(msgspec.Struct, frozen=True):
    """A pod of this job that has no slot, or whose slot has an older live pod: to be deleted (RULES §9)."""

    name: str
    reason: str
    has_uid_label: bool = False
    is_delete_asked: bool = False
    has_finalizer: bool = False
    is_release_asked: bool = False


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str
    message: str
    last_update_time: Instant
    last_transition_time: Instant

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class Tally(msgspec.Struct, frozen=True):
    """Counts over a type's slots within its replicas."""

    total: int = 0
    running: int = 0
    """Running by phase, not being retried."""
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    failed_for_good: int = 0
    retried: int = 0
    crashing: int = 0
    steady: int = 0
    """Running, or succeeded: what §4.2 asks of every PS."""
    born: int = 0


class Pause(msgspec.Struct, frozen=True):
    """The API server refused something other than a creation: nothing of that kind is asked before `due_at`."""

    tries: int
    due_at: Instant
    is_due: bool = False


class Failure(msgspec.Struct, frozen=True):
    """What fails the job, when it is more than a slot's verdict: a limit that one slot's failure went over."""

    reason: str
    type: ReplicaType
    index: int
    ending: Ending


class Agenda(msgspec.Struct, frozen=True):
    """What one slot asks for and waits for now; derived."""

    actions: tuple[Action, ...] = ()
    timers: tuple[Timer, ...] = ()


class JobState(msgspec.Struct):
    """One job. `advance` writes only into a copy of its own (fold/draft.py); to everybody else it is a value.

    Derived fields stand last: `tallies`, `retried` and `told` are made by fold/counts.py, the others by decide/.
    """

    namespace: str
    name: str
    uid: str
    rules: str
    resource_version: int
    generation: int
    spec: JobSpec
    created_at: Instant = 0
    spec_key: str | None = None
    problem: str | None = None
    is_terminating: bool = False
    is_deleted: bool = False
    position: int = 0
    slots: dict[SlotId, Slot] = {}
    strays: dict[str, Stray] = {}
    holders: dict[str, Holder] = {}
    """Pods and services that carry this job's name and belong to something else: `kind/name` → holder."""
    relists: dict[str, Instant] = {}
    """Resources that are being listed again → when that began."""
    borrowers: dict[str, str] = {}
    """Pods and services of somebody else that carry this job's uid label: uid → kind. A collection would hit them."""
    retries: dict[ReplicaType, int] = {}
    unjudged: tuple[SlotId, ...] = ()
    failure: Failure | None = None
    conditions: tuple[Condition, ...] = ()
    start_time: Instant | None = None
    completion_time: Instant | None = None
    verdict: str = ""
    """Succeeded or Failed, once and for ever."""
    is_deadline: bool = False
    is_adopted_end: bool = False
    """It had ended before this log knew it: its list stays byte for byte and its pods as they are (RULES §11)."""
    adopted_status: dict[str, Any] | None = None
    foreign_conditions: tuple[dict[str, Any], ...] = ()
    """Conditions of types that are not ours, as last seen on the API server: carried over in every write."""
    is_ttl_due: bool = False
    is_delete_asked: bool = False
    asked: dict[tuple[int, int], Action] = {}
    notices: tuple[EmitNotice, ...] = ()
    is_birth_told: bool = False
    pause: Pause | None = None
    group: GroupSeen | None = None
    is_group_asked: bool = False
    """Its creation or change is in flight."""
    group_refusal: Refusal | None = None
    is_status_dirty: bool = False
    """Something of the status may have changed and was not compared with what was written yet."""
    is_status_wanted: bool = False
    """It was compared, and differs."""
    is_status_asked: bool = False
    is_status_urgent: bool = False
    end_position: int = 0
    status_position: int = 0
    written_digest: str = ""
    is_end_written: bool = False
    awaits_version_above: int = 0
    status_retry_at: Instant = 0
    """When a status that met a conflict is written again although no newer version was seen; 0: not at all."""
    tallies: dict[ReplicaType, Tally] = {}
    retried: tuple[SlotId, ...] = ()
    """Slots that are being retried, in order."""
    told: tuple[SlotId, ...] = ()
    """Slots that the status names, in order."""
    status_digest: str = ""
    """Of the status as it is now; empty: not made yet."""
    agendas: dict[SlotId, Agenda] = {}
    stalls: dict[SlotId, tuple[str, str]] = {}
    stalled: tuple[SlotId, ...] = ()
    """The keys of `stalls`, in order."""

    def change_status(self) -> None:
        """Something changed that the status says: it is compared anew with what was written."""
        self.is_status_dirty = True
        self.status_digest = ""

    def has_ended(self) -> bool:
        return bool(self.verdict)

    def is_at_rest(self) -> bool:
        """Nothing is created, retried or timed: ended, going, invalid, or somebody else's."""
        return (
            bool(self.verdict or self.problem) or self.is_terminating or self.is_deleted
            or self.spec.is_left_alone()
        )  # fmt: skip

    def may_run(self) -> bool:
        """Slots within the replicas may have pods."""
        return not self.is_at_rest() and not self.spec.is_suspended
