"""The world of a pure run: the API server's objects, as far as a scenario touches them, and what people do to them.

In: a scenario's steps, virtual time. Out: every change, in one order. Never: I/O, a clock, or a view of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.model.actions import Action
from controller.model.events import Op
from controller.model.instants import SECOND, Instant, text_of
from controller.model.names import (
    JOB_NAME_LABEL,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
)
from controller.model.replicas import SlotId, slot_of
from controller.model.settings import PolicySettings
from controller.scenario.bodies import Json, merged, typed, version_of
from controller.scenario.kubelet import status_of_report, stopped_status
from controller.scenario.model import PodReport, WrongStep

GRACE_SECONDS = 30


@dataclass(slots=True)
class Held:
    """One object of the world. Whatever is written replaces a key of the body or of its metadata, and never changes
    what stands below: so one version keeps what it was by a shallow copy."""

    kind: str
    body: Json
    version: int
    lingers: bool = False
    is_stopping: bool = False
    """It was deleted by the controller or with its job: it goes as soon as nothing keeps it."""

    @property
    def metadata(self) -> Json:
        return self.body["metadata"]  # type: ignore[no-any-return]

    @property
    def uid(self) -> str:
        return str(self.metadata["uid"])

    @property
    def is_terminating(self) -> bool:
        return "deletionTimestamp" in self.metadata

    @property
    def is_held(self) -> bool:
        """A finalizer keeps it."""
        return bool(self.metadata.get("finalizers"))

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def phase(self) -> str:
        return str((self.body.get("status") or {}).get("phase", "Pending"))

    @property
    def owner_uid(self) -> str | None:
        for reference in self.metadata.get("ownerReferences") or ():
            if reference.get("controller"):
                return str(reference["uid"])
        return None


@dataclass(slots=True)
class Change:
    """One object version, as a watch would deliver it."""

    op: Op
    kind: str
    version: int
    body: Json


@dataclass(slots=True)
class World:
    """All objects, by (kind, namespace, name)."""

    settings: PolicySettings
    now: Instant
    objects: dict[tuple[str, str, str], Held] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    linger_next: set[str] = field(default_factory=set)
    notices: list[str] = field(default_factory=list)
    requests: list[Action] = field(default_factory=list)
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Every job that there was: uid → (namespace, name)."""
    last_status: Json | None = None
    """The status of the job that went last, as it was then."""
    holds_deleted: bool = False
    """Pods that are deleted terminate until `let_go`, as they do while their containers stop."""
    _version: int = 100
    _uids: int = 0

    # --- objects -------------------------------------------------------------------------------------------------

    def find(self, kind: str, namespace: str, name: str) -> Held | None:
        return self.objects.get((kind, namespace, name))

    def of_kind(self, kind: str) -> list[Held]:
        return [held for (each, _, _), held in self.objects.items() if each == kind]

    def add(self, kind: str, body: Json) -> Held:
        """A new object with uid, resourceVersion and creationTimestamp. Raises WrongStep when its name is
        taken, or when it is none that an API server would keep."""
        metadata = body["metadata"]
        key = (kind, metadata.get("namespace", ""), metadata["name"])
        if key in self.objects:
            raise WrongStep(f"there is a {kind} {key[2]} already")
        self._uids += 1
        metadata |= {"uid": f"uid-{self._uids:04d}", "creationTimestamp": text_of(self.now)}
        if kind == "TFJob":
            metadata["generation"] = 1
        typed(kind, body)
        held = self.objects[key] = Held(kind, body, 0)
        self.note(Op.ADDED, held)
        return held

    def note(self, op: Op, held: Held) -> None:
        """A new version of an object, shown to those who watch."""
        self._version += 1
        held.version = self._version
        held.metadata["resourceVersion"] = str(self._version)
        if is_watched(held):
            self.changes.append(Change(op, held.kind, held.version, version_of(held.body)))

    def remove(self, held: Held) -> None:
        """The object is gone, whatever held it."""
        self.objects.pop((held.kind, held.metadata.get("namespace", ""), held.metadata["name"]), None)
        self.note(Op.DELETED, held)

    def drop_changes(self) -> None:
        """Nobody watches: what happened is to be seen by a list only."""
        self.changes.clear()

    # --- the user ------------------------------------------------------------------------------------------------

    def create_job(self, manifest: Json) -> Held:
        """The API server's part: uid, generation, and `spec.rules` by the version that was written (RULES §1)."""
        body = {**version_of(manifest), "spec": dict(manifest["spec"])}
        body["spec"].setdefault("rules", body["apiVersion"].rpartition("/")[2])
        body["apiVersion"] = "kubeflow.org/v1"
        held = self.add("TFJob", body)
        self.jobs[held.uid] = (body["metadata"]["namespace"], body["metadata"]["name"])
        return held

    def edit_job(self, held: Held, patch: Json) -> None:
        """A merge patch (RFC 7386) by the user; the status is not theirs to write. One that changes nothing is none."""
        before = held.body
        held.body = merged(before, {key: value for key, value in patch.items() if key != "status"})
        held.body["metadata"] = dict(held.body.get("metadata") or before["metadata"])
        for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation"):
            if key in before["metadata"]:
                held.metadata[key] = before["metadata"][key]
        if isinstance(held.body.get("spec"), dict):
            held.body["spec"].setdefault("rules", "v1")
        if held.body == before:
            return
        typed(held.kind, held.body)
        if held.body.get("spec") != before.get("spec"):
            held.metadata["generation"] += 1
        if held.is_terminating and not held.is_held:
            self._collect(held)
        else:
            self.note(Op.MODIFIED, held)

    def delete_job(self, held: Held) -> None:
        """The job goes and what it owns is collected; pods that linger stay terminating. A finalizer holds the job."""
        if held.is_held:
            if not held.is_terminating:
                held.metadata["deletionTimestamp"] = text_of(self.now)
                held.metadata["deletionGracePeriodSeconds"] = 0
                self.note(Op.MODIFIED, held)
        else:
            self._collect(held)

    def _collect(self, held: Held) -> None:
        self.last_status = held.body.get("status")
        self.remove(held)
        for owned in list(self.objects.values()):
            if owned.owner_uid == held.uid:
                self.stop(owned)

    # --- the kubelet and others -------------------------------------------------------------------------------------

    def report(self, held: Held, report: PodReport) -> None:
        """The kubelet writes a pod's status."""
        if held.has_ended and report.phase != held.phase:
            raise WrongStep(f"pod {held.metadata['name']} has ended {held.phase} and cannot become {report.phase}")
        if report.is_bound:
            held.body["spec"] = {**held.body["spec"], "nodeName": "node-1"}
        held.body["status"] = status_of_report(report, self.now, held.body.get("status") or {})
        self.note(Op.MODIFIED, held)

    def delete_pod(self, held: Held) -> None:
        """Somebody else deletes a pod: one that has ended goes at once, another terminates until it is gone."""
        held.lingers = held.lingers or not held.has_ended
        if held.lingers or held.is_held:
            self._mark_terminating(held)
        else:
            self.remove(held)

    def stop(self, held: Held) -> None:
        """A graceful deletion with nobody in its way: what runs is stopped and the object goes; a finalizer or
        `linger` keeps it terminating."""
        held.is_stopping = True
        if held.kind == "Pod" and (held.lingers or held.is_held or self.holds_deleted):
            self._mark_terminating(held)
            if not held.lingers and not self.holds_deleted:
                self._end_stopped(held)
        else:
            self.remove(held)

    def let_go(self) -> None:
        """Pods that were deleted meanwhile have stopped."""
        self.holds_deleted = False
        for held in self.of_kind("Pod"):
            if held.is_stopping and not held.lingers:
                if held.is_held:
                    self._end_stopped(held)
                else:
                    self.remove(held)

    def _end_stopped(self, held: Held) -> None:
        """The kubelet reports the end of a pod that it stopped and a finalizer keeps; one without a node never ran."""
        if not held.has_ended and held.body["spec"].get("nodeName"):
            held.body["status"] = stopped_status(held.body.get("status") or {}, self.now)
            self.note(Op.MODIFIED, held)

    def vanish(self, held: Held) -> None:
        """The object disappears, past any finalizer."""
        self.remove(held)

    def linger(self, job_name: str, slot: str, held: Held | None) -> None:
        if held is None:
            self.linger_next.add(f"{job_name}-{slot}")
        else:
            held.lingers = True

    def _mark_terminating(self, held: Held) -> None:
        if not held.is_terminating:
            held.metadata["deletionTimestamp"] = text_of(self.now + GRACE_SECONDS * SECOND)
            held.metadata["deletionGracePeriodSeconds"] = GRACE_SECONDS
            self.note(Op.MODIFIED, held)


def is_watched(held: Held) -> bool:
    """What the controller's watches show: all TFJobs, and pods and services with the job-name label."""
    return held.kind == "TFJob" or JOB_NAME_LABEL in (held.metadata.get("labels") or {})


def slot_of_held(held: Held) -> SlotId | None:
    """The slot that a pod's or service's labels name."""
    labels = held.metadata.get("labels") or {}
    return slot_of(f"{labels.get(REPLICA_TYPE_LABEL, '').lower()}-{labels.get(REPLICA_INDEX_LABEL, '')}")
