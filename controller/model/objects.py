"""The words for Kubernetes objects, as far as decisions read them: decoded from a watch line and from the log alike.

Fields that are not named here are ignored at decoding; the log keeps the whole metadata and status all the same
(DESIGN §3). Times stay text: `instant_of` reads them. Never: anything that redaction removes.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Object(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of the structs: camelCase in JSON, unknown fields ignored."""


class OwnerReference(_Object, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(_Object, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    def controller(self) -> OwnerReference | None:
        """The controller owner reference, the only one that says whose an object is (RULES §9)."""
        for reference in self.owner_references or ():
            if reference.controller:
                return reference
        return None


class Waiting(_Object, frozen=True):
    reason: str | None = None
    message: str | None = None


class Running(_Object, frozen=True):
    started_at: str | None = None


class Terminated(_Object, frozen=True):
    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(_Object, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Object, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodCondition(_Object, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class PodStatus(_Object, frozen=True):
    phase: str = "Pending"
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class PodSpecFacts(_Object, frozen=True):
    """What stands beside a pod's spec hash in every pod event; the whole spec is kept once, by its hash."""

    restart_policy: str | None = None
    node_name: str | None = None


class Pod(_Object, frozen=True):
    metadata: ObjectMeta
    spec: PodSpecFacts = PodSpecFacts()
    status: PodStatus = PodStatus()


class Service(_Object, frozen=True):
    metadata: ObjectMeta


class PodGroup(_Object, frozen=True):
    metadata: ObjectMeta
    status: dict[str, Any] | None = None


class TFJob(_Object, frozen=True):
    """A TFJob. Its spec and status stay plain JSON: what got past admission may have any shape (RULES §4.5)."""

    metadata: ObjectMeta
    api_version: str = ""
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class Reference(_Object, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Notice(_Object, frozen=True):
    """A core/v1 Event about one of our objects; recorded for people, never an input of a decision."""

    metadata: ObjectMeta
    involved_object: Reference = Reference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    reporting_component: str | None = None
