"""The world of a pure run: the API server's objects, as far as a scenario touches them, and what is done to them.

In: the controller's actions, a scenario's steps, virtual time. Out: outcomes, and every change in one order.
Never: I/O or a clock.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.act.manifests import pod_manifest, service_manifest
from controller.decide import digest_of
from controller.model import actions
from controller.model.actions import Action, Holder, Outcome, Result
from controller.model.events import Op
from controller.model.instants import SECOND, Instant, text_of
from controller.model.names import (
    JOB_NAME_LABEL,
    JOB_UID_LABEL,
    POD_FINALIZER,
    REPLICA_INDEX_LABEL,
    REPLICA_TYPE_LABEL,
)
from controller.model.replicas import SlotId, slot_of
from controller.model.settings import PolicySettings
from controller.scenario.kubelet import status_of_report
from controller.scenario.model import PodReport

GRACE_SECONDS = 30
Json = dict[str, Any]


class WrongStep(Exception):
    """A step that cannot be: a mistake of the file."""


@dataclass(slots=True)
class Held:
    """One object of the world."""

    kind: str
    body: Json
    version: int
    lingers: bool = False
    is_stopping: bool = False
    """The controller asked for its deletion."""
    started_at: Instant | None = None

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
    job_uids: set[str] = field(default_factory=set)
    holds_deleted: bool = False
    """Pods that the controller deletes terminate until `let_go`, as they do while their containers stop."""
    _version: int = 100
    _uids: int = 0

    # --- objects -------------------------------------------------------------------------------------------------

    def find(self, kind: str, namespace: str, name: str) -> Held | None:
        return self.objects.get((kind, namespace, name))

    def of_kind(self, kind: str) -> list[Held]:
        return [held for (each, _, _), held in self.objects.items() if each == kind]

    def add(self, kind: str, body: Json) -> Held:
        """A new object with uid, resourceVersion and creationTimestamp."""
        self._uids += 1
        metadata = body["metadata"]
        metadata |= {"uid": f"uid-{self._uids:04d}", "creationTimestamp": text_of(self.now)}
        if kind == "TFJob":
            metadata["generation"] = 1
        held = Held(kind, body, 0)
        self.objects[kind, metadata.get("namespace", ""), metadata["name"]] = held
        self._note(Op.ADDED, held)
        return held

    def _note(self, op: Op, held: Held) -> None:
        self._version += 1
        held.version = self._version
        held.metadata["resourceVersion"] = str(self._version)
        if is_watched(held):
            self.changes.append(Change(op, held.kind, held.version, copy.deepcopy(held.body)))

    def _remove(self, held: Held) -> None:
        self.objects.pop((held.kind, held.metadata.get("namespace", ""), held.metadata["name"]), None)
        self._note(Op.DELETED, held)

    def drop_changes(self) -> None:
        """Nobody watches: what happened is to be seen by a list only."""
        self.changes.clear()

    # --- the user ------------------------------------------------------------------------------------------------

    def create_job(self, manifest: Json) -> Held:
        """The API server's part: uid, generation, and `spec.rules` by the version that was written (RULES §1)."""
        body = copy.deepcopy(manifest)
        key = ("TFJob", body["metadata"]["namespace"], body["metadata"]["name"])
        if key in self.objects:
            raise WrongStep(f"the job {key[2]} exists already")
        body["spec"].setdefault("rules", body["apiVersion"].rpartition("/")[2])
        body["apiVersion"] = "kubeflow.org/v1"
        held = self.add("TFJob", body)
        self.job_uids.add(held.uid)
        return held

    def edit_job(self, held: Held, patch: Json) -> None:
        """A merge patch (RFC 7386) by the user."""
        before = copy.deepcopy(held.body["spec"])
        merge(held.body, patch)
        if held.body["spec"] != before:
            held.metadata["generation"] += 1
        self._note(Op.MODIFIED, held)

    def delete_job(self, held: Held) -> None:
        """The job goes and what it owns is collected; pods that linger stay terminating."""
        self._remove(held)
        for owned in list(self.objects.values()):
            if owned.owner_uid == held.uid:
                if owned.kind == "Pod" and (owned.lingers or POD_FINALIZER in (owned.metadata.get("finalizers") or ())):
                    self._mark_terminating(owned)
                else:
                    self._remove(owned)

    # --- the kubelet and others -------------------------------------------------------------------------------------

    def report(self, held: Held, report: PodReport) -> None:
        """The kubelet writes a pod's status."""
        if held.phase in ("Succeeded", "Failed") and report.phase != held.phase:
            raise WrongStep(f"pod {held.metadata['name']} has ended {held.phase} and cannot become {report.phase}")
        if report.is_bound:
            held.body["spec"]["nodeName"] = "node-1"
        is_running = report.phase == "Running" and not report.waiting
        if is_running and held.started_at is None:
            held.started_at = self.now
        in_pod = held.body["spec"].get("restartPolicy", "Always") != "Never"
        held.body["status"] = status_of_report(report, self.now, held.started_at, in_pod)
        self._note(Op.MODIFIED, held)

    def delete_pod(self, held: Held) -> None:
        """Somebody else deletes a pod: one that has ended goes at once, another terminates until it is gone."""
        if held.phase in ("Succeeded", "Failed") and not held.lingers and not self._is_held(held):
            self._remove(held)
        else:
            held.lingers = held.lingers or held.phase not in ("Succeeded", "Failed")
            self._mark_terminating(held)

    def let_go(self) -> None:
        """Pods that the controller deleted are gone."""
        self.holds_deleted = False
        for held in self.of_kind("Pod"):
            if held.is_stopping and not held.lingers and not self._is_held(held):
                self._remove(held)

    def vanish(self, held: Held) -> None:
        """The object disappears, past any finalizer."""
        self._remove(held)

    def linger(self, job_name: str, slot: str, held: Held | None) -> None:
        if held is None:
            self.linger_next.add(f"{job_name}-{slot}")
        else:
            held.lingers = True

    def _mark_terminating(self, held: Held) -> None:
        if not held.is_terminating:
            held.metadata["deletionTimestamp"] = text_of(self.now + GRACE_SECONDS * SECOND)
            held.metadata["deletionGracePeriodSeconds"] = GRACE_SECONDS
            self._note(Op.MODIFIED, held)

    def _is_held(self, held: Held) -> bool:
        return bool(held.metadata.get("finalizers"))

    # --- the controller's actions -------------------------------------------------------------------------------------

    def carry_out(self, job: Held | None, uid: str, action: Action, status: Json, version: int) -> Outcome:
        """What the API server answers to one action of the job with this uid."""
        self.requests.append(action)
        if isinstance(action, actions.EmitNotice):
            self.notices.append(action.reason)
            return Outcome(Result.DONE, code=201)
        if job is None or job.uid != uid:
            return Outcome(Result.REFUSED, code=404, reason="NotFound", message="the job is gone")
        match action:
            case actions.CreatePod(type=kind, index=index):
                manifest = pod_manifest(job.body, SlotId(kind, index), self.settings)
                return self._create("Pod", "pods", manifest)
            case actions.CreateService(type=kind, index=index):
                return self._create("Service", "services", service_manifest(job.body, SlotId(kind, index)))
            case actions.DeletePod(name=name, uid=pod_uid):
                return self._delete_asked(self.find("Pod", job.metadata["namespace"], name), pod_uid)
            case actions.DeleteService(name=name, uid=service_uid):
                found = self.find("Service", job.metadata["namespace"], name)
                if found is not None and found.uid == service_uid:
                    self._remove(found)
                return Outcome(Result.DONE, code=200)
            case actions.DeleteOwned(kind=kind_name):
                for held in self.of_kind("Pod" if kind_name == "pods" else "Service"):
                    if (held.metadata.get("labels") or {}).get(JOB_UID_LABEL) == uid:
                        self._delete_asked(held, held.uid)
                return Outcome(Result.DONE, code=200)
            case actions.ReleasePod(name=name, uid=pod_uid):
                found = self.find("Pod", job.metadata["namespace"], name)
                if found is not None and found.uid == pod_uid:
                    self._release(found)
                return Outcome(Result.DONE, code=200)
            case actions.PatchStatus():
                return self._patch_status(job, status, version)
            case actions.DeleteJob():
                self.delete_job(job)
                return Outcome(Result.DONE, code=200)
            case _:
                return Outcome(Result.DONE, code=200)

    def _create(self, kind: str, plural: str, manifest: Json) -> Outcome:
        metadata = manifest["metadata"]
        if plural in self.refusals:
            return Outcome(Result.REFUSED, code=403, reason="Forbidden", message=self.refusals[plural])
        taken = self.find(kind, metadata["namespace"], metadata["name"])
        if taken is not None:
            references = taken.metadata.get("ownerReferences") or ()
            owner: Json = next((each for each in references if each.get("controller")), {})
            holder = Holder(
                uid=taken.uid,
                owner_uid=owner.get("uid"),
                owner_kind=owner.get("kind"),
                phase=taken.phase if kind == "Pod" else None,
                deletion_timestamp=taken.metadata.get("deletionTimestamp"),
            )
            return Outcome(Result.REFUSED, code=409, reason="AlreadyExists", holder=holder)
        manifest.setdefault("status", {"phase": "Pending"} if kind == "Pod" else {})
        held = self.add(kind, manifest)
        if kind == "Pod" and metadata["name"] in self.linger_next:
            self.linger_next.discard(metadata["name"])
            held.lingers = True
        return Outcome(Result.DONE, code=201, uid=held.uid, resource_version=str(held.version))

    def _delete_asked(self, held: Held | None, uid: str) -> Outcome:
        if held is None or held.uid != uid:
            return Outcome(Result.DONE, code=404)
        if held.kind == "Service":
            self._remove(held)
        else:
            held.is_stopping = True
            self._mark_terminating(held)
            if not (held.lingers or self._is_held(held) or self.holds_deleted):
                self._remove(held)
        return Outcome(Result.DONE, code=200)

    def _release(self, held: Held) -> None:
        held.metadata["finalizers"] = [each for each in held.metadata["finalizers"] if each != POD_FINALIZER]
        if held.is_terminating and not held.metadata["finalizers"] and not held.lingers:
            self._remove(held)
        else:
            self._note(Op.MODIFIED, held)

    def _patch_status(self, job: Held, status: Json, version: int) -> Outcome:
        if job.version != version:
            return Outcome(Result.REFUSED, code=409, reason="Conflict", resource_version=str(version))
        job.body["status"] = copy.deepcopy(status)
        self._note(Op.MODIFIED, job)
        return Outcome(
            Result.DONE, code=200, uid=job.uid, resource_version=str(job.version), status_digest=digest_of(status)
        )


def is_watched(held: Held) -> bool:
    """What the controller's watches show: all TFJobs, and pods and services with the job-name label."""
    return held.kind == "TFJob" or JOB_NAME_LABEL in (held.metadata.get("labels") or {})


def merge(target: Json, patch: Json) -> None:
    """RFC 7386, in place."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            child = target.get(key)
            if not isinstance(child, dict):
                child = target[key] = {}
            merge(child, value)
        else:
            target[key] = value


def slot_of_held(held: Held) -> SlotId | None:
    """The slot that a pod's or service's labels name."""
    labels = held.metadata.get("labels") or {}
    return slot_of(f"{labels.get(REPLICA_TYPE_LABEL, '').lower()}-{labels.get(REPLICA_INDEX_LABEL, '')}")


def typed(kind: type, body: Json) -> Any:
    """A plain object as the struct that decisions read."""
    return msgspec.convert(body, kind)
