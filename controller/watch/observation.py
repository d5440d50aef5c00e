"""API server → observations: the words in which the watch hands over what it saw.

Out: `Observation` (one object version), `StreamFact` (a gap begins or ends), `Mark` (how far a resource is read).
Whoever takes them commits them in the order in which they were put: a mark covers everything before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Union

import msgspec

from controller.model.events import GapOpened, ObjectFact, Op, Synced
from controller.model.instants import Instant

OVERHEAD_BYTES = 1024
"""What an observation holds in memory beside its body: the decoded fact and the strings of its routing."""


class Observation(msgspec.Struct, frozen=True):
    """One version of one object, normalised and redacted.

    `fact` is decoded from `body` (for a TFJob with `spec`), so what is decided now is what a replay decides.
    `body` is JSON: metadata and status, a pod's nodeName and restartPolicy; `spec` is canonical JSON, named by
    `spec_hash`. Of a SYNC_DELETED only the identity is known: its body has no status, and its `resource_version` is
    that of the list which proved the absence.
    """

    op: Op
    resource: str
    fact: ObjectFact
    observed_at: Instant
    namespace: str
    name: str
    uid: str
    resource_version: int
    job_uid: str | None
    job_name: str | None
    spec_hash: str | None
    body: bytes
    spec: bytes | None
    size: int


class StreamFact(msgspec.Struct, frozen=True):
    """GapOpened or Synced, in its place among the observations."""

    op: Op
    fact: GapOpened | Synced
    observed_at: Instant
    size: int = OVERHEAD_BYTES


class Mark(msgspec.Struct, frozen=True):
    """Everything of `resource` up to `resource_version` was put before this: where a later start may resume.

    `start_kind` says how the session that reads now began: `list` or `resume`.
    """

    resource: str
    resource_version: int
    start_kind: str
    at: Instant
    size: int = 128


Watched = Union[Observation, StreamFact, Mark]  # noqa: UP007 - a runtime union, for match and assert_never


class Sink(Protocol):
    """Takes what was seen; bounded by bytes, so `put` may wait, and then nothing is read any more."""

    async def put(self, item: Watched) -> None: ...


class HeadLike(Protocol):
    """The newest version of one object that the log has and that is not deleted."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...
    @property
    def job_uid(self) -> str | None: ...
    @property
    def job_name(self) -> str | None: ...


class HeadsReader(Protocol):
    """Reads the heads from the log, once, when the watches start."""

    async def heads(self, resource: str) -> Mapping[str, HeadLike]:
        """uid → head, of the objects of `resource` (`pods`, …) that are not deleted."""
        ...


class MarkLike(Protocol):
    """Where the log says that a resource was read up to, and when that was (0: not known)."""

    @property
    def resource_version(self) -> int: ...
    @property
    def at(self) -> Instant: ...
