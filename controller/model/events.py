"""The words for what happened: the events of the log, past-tense facts in one global order (DESIGN §3).

An `Event` is an envelope (position, when, which job) around one fact. Facts about objects carry the object as it was
observed; facts about the controller itself carry what it did. `match` over `Fact` with `assert_never` makes the type
check fail when a new fact has no branch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Union

import msgspec

from controller.model.actions import Action, Outcome
from controller.model.instants import Instant
from controller.model.objects import Notice, Pod, PodGroup, Service, TFJob
from controller.model.replicas import ReplicaType
from controller.model.settings import PolicySettings

RULES_NUMBER = 1
"""Number of the rules in this code; raised with every numbered decision that changes a condition (DESIGN §3)."""

EVENT_SCHEMA = 1
"""Schema number of the facts as this code writes them; older rows are read through upcasters."""


class Op(StrEnum):
    """How a row came into the log."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNC_ADDED = "SYNC_ADDED"
    SYNC_MODIFIED = "SYNC_MODIFIED"
    SYNC_DELETED = "SYNC_DELETED"
    GAP = "GAP"
    SYNCED = "SYNCED"
    TIMER = "TIMER"
    DECIDED = "DECIDED"
    ACTION = "ACTION"
    SETTINGS = "SETTINGS"
    LEADER = "LEADER"
    CLOCK = "CLOCK"


DELETIONS = frozenset({Op.DELETED, Op.SYNC_DELETED})
SYNCS = frozenset({Op.SYNC_ADDED, Op.SYNC_MODIFIED, Op.SYNC_DELETED})


class Fact(msgspec.Struct, frozen=True):
    """Base of the facts."""


class JobObserved(Fact, frozen=True):
    job: TFJob


class PodObserved(Fact, frozen=True):
    pod: Pod


class ServiceObserved(Fact, frozen=True):
    service: Service


class PodGroupObserved(Fact, frozen=True):
    group: PodGroup


class NoticeObserved(Fact, frozen=True):
    notice: Notice


class GapReason(StrEnum):
    """Why something could have been missed."""

    FIRST_SYNC = "FirstSync"
    EXPIRED = "Expired"
    DROPPED = "Dropped"
    LOG_REWOUND = "LogRewound"
    CLUSTER_RESTORED = "ClusterRestored"
    AUDIT_DIFFERED = "AuditDiffered"


class GapOpened(Fact, frozen=True):
    """From `from_at` to `to_at` changes of `resources` could have been missed. The SYNC_* rows and SYNCED follow."""

    resources: tuple[str, ...]
    reason: GapReason
    from_at: Instant | None
    to_at: Instant


class Synced(Fact, frozen=True):
    """All relists are through: from GAP to here a job's events fold as one (RULES §11)."""

    resources: tuple[str, ...]


class TimerKind(StrEnum):
    DEADLINE = "Deadline"
    BACKOFF = "Backoff"
    CREATE_RETRY = "CreateRetry"
    TTL = "TTL"
    STALL = "Stall"
    ACTION_RETRY = "ActionRetry"
    POD_GROUP_RETRY = "PodGroupRetry"


class TimerFired(Fact, frozen=True):
    """A timer that decide had named was due. `type` and `index` name its slot, where it has one."""

    timer: TimerKind
    due_at: Instant
    type: ReplicaType | None = None
    index: int | None = None


class Decided(Fact, frozen=True):
    """What is asked for now, committed before anything of it is sent. An action's ordinal is its place in the tuple."""

    actions: tuple[Action, ...]


class ActionSettled(Fact, frozen=True):
    """The outcome of one action of the `Decided` at `decided_position`; `attempt` counts its sendings from 1."""

    decided_position: int
    ordinal: int
    attempt: int
    action: Action
    outcome: Outcome


class SettingsRecorded(Fact, frozen=True):
    settings: PolicySettings


class LeaderElected(Fact, frozen=True):
    holder: str
    epoch: int
    code_version: str
    rules_number: int


class ClockJumped(Fact, frozen=True):
    """The clock differs from the API server's `Date` or the monotonic clock by `offset_seconds`.

    Timers wait while `is_bad`."""

    offset_seconds: float
    is_bad: bool


AnyFact = Union[  # noqa: UP007 - a runtime union, for match and assert_never
    JobObserved,
    PodObserved,
    ServiceObserved,
    PodGroupObserved,
    NoticeObserved,
    GapOpened,
    Synced,
    TimerFired,
    Decided,
    ActionSettled,
    SettingsRecorded,
    LeaderElected,
    ClockJumped,
]

ObjectFact = JobObserved | PodObserved | ServiceObserved | PodGroupObserved | NoticeObserved
ClusterFact = GapOpened | Synced | SettingsRecorded | LeaderElected | ClockJumped
"""Facts that belong to every job alive at that time."""
OwnedFact = PodObserved | ServiceObserved | PodGroupObserved
"""What is seen of the objects of a job: they have an owner, and the job's name on a label."""


class Event(msgspec.Struct, frozen=True):
    """One row of the log.

    `position` is gapless and in commit order; `observed_at` never runs back; `resource_version` is 0 for facts about
    the controller; `job_uid` is the uid of the TFJob that the fact belongs to (an object's controller owner, or the
    TFJob itself), `job_name` what the object's job-name label says: a pod of an older job of the same name, or of
    nobody, reaches the job of that name by it (RULES §9).
    """

    position: int
    observed_at: Instant
    op: Op
    fact: AnyFact
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: int = 0
    job_uid: str | None = None
    job_name: str | None = None
    spec_hash: str | None = None
    """Content hash of the object's whole redacted spec, for objects that have one."""


class Timer(msgspec.Struct, frozen=True, order=True):
    """An instant at which decide wants to be asked again. Due timers are logged as `TimerFired` before they count."""

    due_at: Instant
    timer: TimerKind
    type: ReplicaType | None = None
    index: int | None = None


class Transition(msgspec.Struct, frozen=True):
    """One change of one condition, with the position of the event that caused it."""

    position: int
    ordinal: int
    type: str
    status: str
    reason: str
    message: str
    at: Instant
    by_gap: bool = False
    """True when it rests on what a relist inferred."""


def json_of(value: Any) -> bytes:
    """The JSON of any word of this package."""
    return msgspec.json.encode(value)
