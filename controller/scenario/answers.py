"""What the API server of a pure run answers to the controller.

In: the world, one action of one job. Out: the outcome; the world is changed by it. Never: a view of the rules.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.act.groups import group_manifest, group_patch
from controller.act.manifests import pod_manifest, service_manifest
from controller.decide import digest_of
from controller.model import actions
from controller.model.actions import Action, Holder, Outcome, Result
from controller.model.events import Op
from controller.model.names import JOB_UID_LABEL, POD_FINALIZER
from controller.model.replicas import SlotId
from controller.scenario.bodies import Json, merged
from controller.scenario.model import WrongStep
from controller.scenario.world import Held, World

_KINDS = {"pods": "Pod", "services": "Service", "podgroups": "PodGroup"}


class Sender(NamedTuple):
    """The job for which something is asked, and its status and resourceVersion as they were folded."""

    namespace: str
    name: str
    uid: str
    status: Json
    resource_version: int


def answer(world: World, sender: Sender, action: Action) -> Outcome:
    """Carries one action out as an API server would."""
    world.requests.append(action)
    match action:
        case actions.EmitNotice(reason=reason):
            world.notices.append(reason)
            return Outcome(Result.DONE, code=201)
        case actions.DeletePod(name=name, uid=uid):
            return _delete(world, world.find("Pod", sender.namespace, name), uid)
        case actions.DeleteService(name=name, uid=uid):
            return _delete(world, world.find("Service", sender.namespace, name), uid)
        case actions.DeleteOwned(kind=plural):
            for held in world.of_kind(_KINDS[plural]):
                if (held.metadata.get("labels") or {}).get(JOB_UID_LABEL) == sender.uid:
                    _delete(world, held, held.uid)
            return Outcome(Result.DONE, code=200)
        case actions.ReleasePod(name=name, uid=uid):
            return _release(world, world.find("Pod", sender.namespace, name), uid)
        case actions.DeletePodGroup(uid=uid):
            return _delete(world, world.find("PodGroup", sender.namespace, sender.name), uid)
    job = world.find("TFJob", sender.namespace, sender.name)
    if job is None or job.uid != sender.uid:
        return Outcome(Result.REFUSED, code=404, reason="NotFound", message=f"tfjobs {sender.name} not found")
    match action:
        case actions.CreatePod(type=kind, index=index):
            return _create(world, "pods", pod_manifest(job.body, SlotId(kind, index), world.settings))
        case actions.CreateService(type=kind, index=index):
            return _create(world, "services", service_manifest(job.body, SlotId(kind, index)))
        case actions.CreatePodGroup(min_member=members, scheduler=scheduler):
            # The scheduler lets it in at once: no capacity is played here.
            manifest = {**group_manifest(job.body, scheduler, members, {}), "status": {"phase": "Inqueue"}}
            return _create(world, "podgroups", manifest)
        case actions.UpdatePodGroup(min_member=members, scheduler=scheduler):
            return _update_group(world, job, group_manifest(job.body, scheduler, members, {}))
        case actions.PatchStatus():
            return _patch_status(world, job, sender)
        case actions.DeleteJob():
            world.delete_job(job)
            return Outcome(Result.DONE, code=200)


def _create(world: World, plural: str, manifest: Json) -> Outcome:
    """Admission (quota) comes before the name: it refuses first."""
    kind, metadata = _KINDS[plural], manifest["metadata"]
    if plural in world.refusals:
        return Outcome(Result.REFUSED, code=403, reason="Forbidden", message=world.refusals[plural])
    taken = world.find(kind, metadata["namespace"], metadata["name"])
    if taken is not None:
        return Outcome(Result.REFUSED, code=409, reason="AlreadyExists", holder=_holder(taken))
    manifest.setdefault("status", {"phase": "Pending"} if kind == "Pod" else {})
    try:
        held = world.add(kind, manifest)
    except WrongStep as wrong:
        return Outcome(Result.REFUSED, code=422, reason="Invalid", message=str(wrong))
    if kind == "Pod" and metadata["name"] in world.linger_next:
        world.linger_next.discard(metadata["name"])
        held.lingers = True
    return Outcome(Result.DONE, code=201, uid=held.uid, resource_version=str(held.version))


def _update_group(world: World, job: Held, wanted: Json) -> Outcome:
    held = world.find("PodGroup", job.metadata["namespace"], job.metadata["name"])
    patch = group_patch(held.body, wanted) if held else None
    if held is not None and patch is not None:
        held.body = merged(held.body, patch)
        world.note(Op.MODIFIED, held)
    return Outcome(Result.DONE, code=200, uid=held.uid if held else None)


def _holder(taken: Held) -> Holder:
    references = taken.metadata.get("ownerReferences") or ()
    owner: Json = next((each for each in references if each.get("controller")), {})
    return Holder(
        uid=taken.uid,
        owner_uid=owner.get("uid"),
        owner_kind=owner.get("kind"),
        phase=taken.phase if taken.kind == "Pod" else None,
        deletion_timestamp=taken.metadata.get("deletionTimestamp"),
    )


def _delete(world: World, held: Held | None, uid: str) -> Outcome:
    """A deletion with the uid as precondition; another uid under the name is as good as gone."""
    if held is None or held.uid != uid:
        return Outcome(Result.DONE, code=404)
    world.stop(held)
    return Outcome(Result.DONE, code=200)


def _release(world: World, held: Held | None, uid: str) -> Outcome:
    if held is None or held.uid != uid:
        return Outcome(Result.DONE, code=404)
    held.metadata["finalizers"] = [each for each in held.metadata.get("finalizers") or () if each != POD_FINALIZER]
    if held.is_terminating and not held.is_held and not held.lingers:
        world.remove(held)
    else:
        world.note(Op.MODIFIED, held)
    return Outcome(Result.DONE, code=200)


def _patch_status(world: World, job: Held, sender: Sender) -> Outcome:
    """A JSON patch with `test` on the resourceVersion that was folded; equal content makes no new version."""
    if job.version != sender.resource_version:
        return Outcome(Result.REFUSED, code=409, reason="Conflict", resource_version=str(sender.resource_version))
    if job.body.get("status") != sender.status:
        job.body["status"] = sender.status
        world.note(Op.MODIFIED, job)
    version = str(job.version)
    return Outcome(Result.DONE, code=200, uid=job.uid, resource_version=version, status_digest=digest_of(sender.status))
