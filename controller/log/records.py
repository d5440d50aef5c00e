"""The log's own words: what is handed to it for one commit, and the rows that it gives back.

In: observations and facts on their way into the log. Out: structs without behaviour. Never: SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.model.actions import Because
from controller.model.events import AnyFact, Op, Transition
from controller.model.instants import Instant
from controller.model.replicas import ReplicaType

BATCH_ROWS = 500
"""The largest batch worth making: beyond it rows a second do not rise, and the lock is held for longer (DESIGN §4)."""

_OVERHEAD_BYTES = 1024


class NewEvent(msgspec.Struct, frozen=True):
    """A fact on its way into the log.

    `body` and `spec` are an object's JSON as the watch normalised and redacted it; without `body` it is made from
    `fact`. `spec_hash` names `spec`. An own fact (no object's version) has a `key`, which is in the log at most once.
    """

    op: Op
    fact: AnyFact
    observed_at: Instant
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: int = 0
    job_uid: str | None = None
    job_name: str | None = None
    spec_hash: str | None = None
    key: str | None = None
    body: bytes | None = None
    spec: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes that it holds in memory, about."""
        return _OVERHEAD_BYTES + len(self.body or b"")


class SessionMark(msgspec.Struct, frozen=True):
    """A watch has handed over everything of `resource` (`pods`, …) up to `resource_version`.

    `scope` is the namespace that is watched, empty for all; `start_kind` how the session began: `list` or `resume`.
    """

    resource: str
    resource_version: int
    start_kind: str = "resume"
    at: Instant = 0
    scope: str = ""

    @property
    def size(self) -> int:
        """Bytes that it holds in memory, about."""
        return 128


class JobSnapshot(msgspec.Struct, frozen=True):
    """A job's folded state; it includes everything up to `position`. `phase` is the type of its newest condition.

    `parked` says why the job is no longer folded: a bug met it, and a person has to look (DESIGN §6).
    """

    job_uid: str
    namespace: str
    name: str
    position: int
    state: bytes
    phase: str
    is_over: bool
    parked: str | None = None


class AttemptRow(msgspec.Struct, frozen=True):
    """One attempt of one slot, for people's queries; a later row of the same attempt replaces it.

    `how` is how it ended (succeeded, failed, disrupted, stopped), None while it has not. `ended_by` says why the
    controller deleted it, None when it did not. `position` is that of the event that it rests on.
    """

    job_uid: str
    type: ReplicaType
    index: int
    attempt: int
    pod_name: str
    pod_uid: str
    position: int
    node: str = ""
    spec_hash: str | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    exit_code: int | None = None
    how: str | None = None
    reason: str = ""
    message: str = ""
    ended_by: Because | None = None


class Append(msgspec.Struct, frozen=True):
    """Everything of one commit: all of it is in the log afterwards, or nothing.

    `transitions` are (job uid, transition). `cursor` is the position up to which the snapshots include everything.
    """

    events: Sequence[NewEvent] = ()
    transitions: Sequence[tuple[str, Transition]] = ()
    cursor: int | None = None
    snapshots: Sequence[JobSnapshot] = ()
    marks: Sequence[SessionMark] = ()
    attempts: Sequence[AttemptRow] = ()


class Head(msgspec.Struct, frozen=True, gc=False):
    """The newest version of one object that the log has. `kind` is that of its events (`Pod`, …)."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    job_uid: str | None = None
    job_name: str | None = None
    is_deleted: bool = False


class JobRow(msgspec.Struct, frozen=True):
    """One job as `tfjob list` shows it. `finished_at` is when its Succeeded or Failed condition became True."""

    namespace: str
    name: str
    job_uid: str
    phase: str
    first_at: Instant
    last_at: Instant
    finished_at: Instant | None = None
    is_over: bool = False
    parked: str | None = None
