"""The words for what the controller asks of the API server: actions (decided) and outcomes (done).

An action names its object completely, so that carrying it out twice does what doing it once did (DESIGN §2).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Union

import msgspec

from controller.model.replicas import ReplicaType
from controller.model.settings import GangScheduler


class Because(StrEnum):
    """Why the controller deletes something: who asked, for the history (RULES §2, §6–§9)."""

    REPLACED = "Replaced"
    JOB_ENDED = "JobEnded"
    DEADLINE = "Deadline"
    SUSPENDED = "Suspended"
    SCALED_DOWN = "ScaledDown"
    DUPLICATE = "Duplicate"
    INVALID_INDEX = "InvalidIndex"
    CREATED_AFTER_END = "CreatedAfterEnd"
    TTL = "TTLAfterFinished"


class CreatePod(msgspec.Struct, frozen=True, tag="CreatePod", tag_field="action"):
    """The pod of a slot's next attempt. `attempt` is its number, from 1."""

    type: ReplicaType
    index: int
    attempt: int


class CreateService(msgspec.Struct, frozen=True, tag="CreateService", tag_field="action"):
    type: ReplicaType
    index: int


class DeletePod(msgspec.Struct, frozen=True, tag="DeletePod", tag_field="action"):
    """Deletes one pod, with its uid as precondition. An answer NotFound or another uid is as good as done."""

    name: str
    uid: str
    because: Because


class DeleteService(msgspec.Struct, frozen=True, tag="DeleteService", tag_field="action"):
    name: str
    uid: str
    because: Because


class DeleteOwned(msgspec.Struct, frozen=True, tag="DeleteOwned", tag_field="action"):
    """One deletecollection over all of `kind` (`pods`, `services`) with this job's uid label (RULES §6)."""

    kind: str
    because: Because


class ReleasePod(msgspec.Struct, frozen=True, tag="ReleasePod", tag_field="action"):
    """Takes the pod finalizer off, once the pod's end is in the log (DESIGN §6)."""

    name: str
    uid: str


class PatchStatus(msgspec.Struct, frozen=True, tag="PatchStatus", tag_field="action"):
    """Writes the whole status as it is when the request is sent. Not `urgent`: may wait a moment for company."""

    urgent: bool


class DeleteJob(msgspec.Struct, frozen=True, tag="DeleteJob", tag_field="action"):
    """Deletes the TFJob, uid as precondition, background propagation (RULES §6, TTL)."""

    because: Because


class EmitNotice(msgspec.Struct, frozen=True, tag="EmitNotice", tag_field="action"):
    """A core/v1 Event on the job. `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


class CreatePodGroup(msgspec.Struct, frozen=True, tag="CreatePodGroup", tag_field="action", omit_defaults=True):
    """The job's PodGroup; one of the job's own that is there already is brought to what is wanted.

    `key` says what of the job it is made from (fold/spec.py), `min_member` is in pods.
    """

    min_member: int
    scheduler: GangScheduler = GangScheduler.NONE
    key: str = ""


class UpdatePodGroup(msgspec.Struct, frozen=True, tag="UpdatePodGroup", tag_field="action"):
    """Brings the PodGroup to what the job says now; nothing is written when it is that already."""

    uid: str
    min_member: int
    scheduler: GangScheduler
    key: str


class DeletePodGroup(msgspec.Struct, frozen=True, tag="DeletePodGroup", tag_field="action", omit_defaults=True):
    """Deletes the PodGroup, with its uid as precondition."""

    because: Because
    uid: str = ""
    scheduler: GangScheduler = GangScheduler.NONE


Action = Union[  # noqa: UP007 - msgspec wants a runtime union
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    DeleteOwned,
    ReleasePod,
    PatchStatus,
    DeleteJob,
    EmitNotice,
    CreatePodGroup,
    UpdatePodGroup,
    DeletePodGroup,
]


class Result(StrEnum):
    """How an action went. UNKNOWN: sent, and no answer came; a GET settles it. NOT_SENT: this process may write no more
    (its lease is over); never in the log: whoever leads next finds the action without an outcome, and sends it."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_SENT = "not sent"


OBSERVING = "Observing"
"""The reason of a REFUSED outcome: this controller only observes, and has sent nothing."""


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who holds the name that a creation was refused for (AlreadyExists), as a GET showed it."""

    uid: str
    owner_uid: str | None = None
    owner_kind: str | None = None
    phase: str | None = None
    deletion_timestamp: str | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The API server's answer to one action.

    `code` is the HTTP status (0: none came), `reason` the Status reason, `message` the server's own words,
    `uid` and `resource_version` those of the object afterwards. `retry_after_seconds` is the server's wish (429, 503).
    `status_digest` says which status a PatchStatus wrote: `digest_of` its content.
    """

    result: Result
    code: int = 0
    reason: str = ""
    message: str = ""
    uid: str | None = None
    resource_version: str | None = None
    retry_after_seconds: float | None = None
    holder: Holder | None = None
    status_digest: str | None = None
    spec_hash: str | None = None
