"""PodGroups on the API server: made, brought to what the job says, deleted.

In: an action of one job, the live job. Out: an `Outcome`, or the client's error. Never: a write where nothing differs,
or a change of somebody else's PodGroup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from controller.act.groups import group_manifest, group_patch, groups_path, priority_classes
from controller.kube import MERGE_PATCH, AlreadyExists, Forbidden, NotFound, Response
from controller.model.actions import CreatePodGroup, Holder, Outcome, Result, UpdatePodGroup

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

log = structlog.get_logger("gang")
Json = dict[str, Any]
Send = Callable[..., Awaitable[Response]]


async def create_group(send: Send, job: Json, action: CreatePodGroup) -> Outcome:
    """Makes the PodGroup. One that this job has already is brought to what is wanted; the outcome says its phase."""
    wanted = await _wanted(send, job, action)
    metadata = wanted["metadata"]
    try:
        answer = await send("POST", groups_path(action.scheduler, metadata["namespace"]), body=wanted)
        return _outcome(answer.json(), answer.status)
    except AlreadyExists as error:
        path = groups_path(action.scheduler, metadata["namespace"], metadata["name"])
        try:
            found = (await send("GET", path)).json()
        except NotFound:
            # Gone in between: the next try will find the name free.
            raise error from None
        holder = _holder(found)
        if holder.owner_uid != job["metadata"]["uid"] or holder.deletion_timestamp:
            words = error.status.message
            return Outcome(Result.REFUSED, code=409, reason="AlreadyExists", message=words, holder=holder)
        return await _brought(send, path, found, wanted)


async def update_group(send: Send, job: Json, action: UpdatePodGroup) -> Outcome:
    """Brings the PodGroup to what is wanted. One that is gone, or another by now, is as good as done: the watch says
    what becomes of it."""
    wanted = await _wanted(send, job, action)
    metadata = wanted["metadata"]
    path = groups_path(action.scheduler, metadata["namespace"], metadata["name"])
    try:
        found = (await send("GET", path)).json()
        if found["metadata"]["uid"] == action.uid:
            return await _brought(send, path, found, wanted)
    except NotFound:
        pass
    return Outcome(Result.DONE, code=404, uid=action.uid)


async def _brought(send: Send, path: str, found: Json, wanted: Json) -> Outcome:
    patch = group_patch(found, wanted)
    if patch is None:
        return _outcome(found, 200)
    answer = await send("PATCH", path, body=patch, content_type=MERGE_PATCH)
    return _outcome(answer.json(), answer.status)


async def _wanted(send: Send, job: Json, action: CreatePodGroup | UpdatePodGroup) -> Json:
    named = sorted(priority_classes(job, action.min_member))
    values = await asyncio.gather(*(_priority(send, name) for name in named))
    return group_manifest(job, action.scheduler, action.min_member, dict(zip(named, values, strict=True)))


async def _priority(send: Send, name: str) -> int:
    """A PriorityClass's value; one that is not there, or may not be read, counts as 0, as for a pod without one."""
    try:
        answer = await send("GET", f"{PRIORITY_CLASSES}/{name}")
    except (NotFound, Forbidden) as error:
        log.warning("the PriorityClass counts as 0 in minResources", name=name, error=error.status.message)
        return 0
    return int(answer.json().get("value") or 0)


def _outcome(found: Json, code: int) -> Outcome:
    metadata = found["metadata"]
    return Outcome(
        Result.DONE,
        code=code,
        uid=metadata["uid"],
        resource_version=metadata.get("resourceVersion"),
        holder=_holder(found),
    )


def _holder(found: Json) -> Holder:
    metadata = found["metadata"]
    owner: Json = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), {})
    return Holder(
        uid=metadata["uid"],
        owner_uid=owner.get("uid"),
        owner_kind=owner.get("kind"),
        phase=(found.get("status") or {}).get("phase"),
        deletion_timestamp=metadata.get("deletionTimestamp"),
    )
