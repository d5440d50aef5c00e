"""Actions → API server → outcomes: each request once, each answer a value (DESIGN §2).

In: a request whose decision is committed. Out: an `Outcome`. Never: a decision, a retry, an exception of the client.
Everything is safe to repeat: creations answer AlreadyExists, deletions carry a uid, a status tests the version that it
rests on, an Event's name says which decision it is of.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from controller.act.gang import create_group, update_group
from controller.act.groups import groups_path
from controller.act.manifests import pod_manifest, service_manifest, template_hash
from controller.act.paths import job_path, namespaced
from controller.act.request import Request
from controller.decide import digest_of
from controller.kube import (
    JSON_PATCH,
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    KubeClient,
    NotFound,
    NotLeading,
    Response,
    Status,
    TooLarge,
)
from controller.kube.live import Live
from controller.model import actions
from controller.model.actions import Holder, Outcome, Result
from controller.model.instants import Instant, text_of
from controller.model.names import GROUP, JOB_UID_LABEL, OPERATOR_NAME, POD_FINALIZER
from controller.model.replicas import SlotId
from controller.model.settings import PolicySettings

REQUEST_SECONDS = 10.0
"""Shorter than a lease, and cut to what is left of it: nothing of an old leader is under way when a new one begins
(DESIGN §6)."""

Json = dict[str, Any]


class Actor:
    """Sends requests. `live` is shared with the watch: what it has seen need not be asked for."""

    def __init__(self, client: KubeClient, settings: PolicySettings, live: Live | None = None) -> None:
        self._client = client
        self._settings = settings
        self._live = live or Live()
        self._looking: dict[str, asyncio.Future[Json]] = {}

    async def carry_out(self, request: Request, now: Instant) -> Outcome:
        """Sends one action and says what came of it. `now` is the time for an Event."""
        try:
            return await self._send(request, now)
        except ApiError as error:
            return _refused(error)

    async def _send(self, request: Request, now: Instant) -> Outcome:
        namespace = request.namespace
        match request.action:
            case actions.CreatePod(type=kind, index=index):
                job = await self._live_job(request)
                manifest = pod_manifest(job, SlotId(kind, index), self._settings)
                return await self._create(namespace, "pods", manifest, template_hash(job, kind))
            case actions.CreateService(type=kind, index=index):
                job = await self._live_job(request)
                return await self._create(namespace, "services", service_manifest(job, SlotId(kind, index)))
            case actions.DeletePod(name=name, uid=uid):
                return await self._delete(namespaced(namespace, "pods", name), uid)
            case actions.DeleteService(name=name, uid=uid):
                return await self._delete(namespaced(namespace, "services", name), uid)
            case actions.DeleteOwned(kind=plural):
                query = {"labelSelector": f"{JOB_UID_LABEL}={request.job_uid}"}
                answer = await self._request("DELETE", namespaced(namespace, plural), query=query)
                self._live.note_deleted(_gone_of(answer.json().get("items") or ()))
                return _done(answer)
            case actions.ReleasePod(name=name, uid=uid):
                return await self._release(namespace, name, uid)
            case actions.PatchStatus():
                return await self._patch_status(request)
            case actions.DeleteJob():
                path = job_path(namespace, request.name)
                return await self._delete(path, request.job_uid, propagation="Background")
            case actions.EmitNotice() as notice:
                return await self._emit(request, notice, now)
            case actions.CreatePodGroup() as action:
                return await create_group(self._request, await self._live_job(request), action)
            case actions.UpdatePodGroup() as action:
                return await update_group(self._request, await self._live_job(request), action)
            case actions.DeletePodGroup(uid=uid, scheduler=scheduler):
                return await self._delete(groups_path(scheduler, namespace, request.name), uid)
            case _ as never:
                assert_never(never)

    async def _request(self, method: str, path: str, **options: Any) -> Response:
        return await self._client.request(method, path, timeout_seconds=REQUEST_SECONDS, **options)

    async def _live_job(self, request: Request) -> Json:
        """The job as the API server has it: the log is redacted, so no pod is made from it. The creations of one burst
        share one GET where the watch has not shown it."""
        uid = request.job_uid
        held = self._live.job(uid, request.generation)
        if held is not None:
            return held
        looking = self._looking.get(uid)
        if looking is None:
            looking = self._looking[uid] = asyncio.ensure_future(self._fetched(request))
            looking.add_done_callback(lambda _: self._looking.pop(uid, None))
        return await asyncio.shield(looking)

    async def _fetched(self, request: Request) -> Json:
        answer = await self._request("GET", job_path(request.namespace, request.name))
        job: Json = answer.json()
        if job["metadata"]["uid"] != request.job_uid:
            raise NotFound(Status(404, "NotFound", "another TFJob has this name now"))
        self._live.see_job(request.job_uid, job["metadata"].get("generation", 0), answer.body)
        return job

    async def _create(self, namespace: str, plural: str, manifest: Json, spec_hash: str | None = None) -> Outcome:
        try:
            answer = await self._request("POST", namespaced(namespace, plural), body=manifest)
        except AlreadyExists as error:
            return await self._held(namespaced(namespace, plural, manifest["metadata"]["name"]), error)
        return _done(answer, spec_hash=spec_hash)

    async def _held(self, path: str, error: AlreadyExists) -> Outcome:
        """Who holds the name that a creation was refused for."""
        try:
            found = (await self._request("GET", path)).json()
        except NotFound:
            # Gone in between: the next try will find the name free.
            return _refused(error)
        metadata = found["metadata"]
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        holder = Holder(
            uid=metadata["uid"],
            owner_uid=owner["uid"] if owner else None,
            owner_kind=owner["kind"] if owner else None,
            phase=(found.get("status") or {}).get("phase"),
            deletion_timestamp=metadata.get("deletionTimestamp"),
        )
        return Outcome(Result.REFUSED, code=409, reason="AlreadyExists", message=error.status.message, holder=holder)

    async def _delete(self, path: str, uid: str, *, propagation: str | None = None) -> Outcome:
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        if propagation:
            body["propagationPolicy"] = propagation
        try:
            answer = await self._request("DELETE", path, body=body)
            self._live.note_deleted(_gone_of([answer.json()], uid))
            return _done(answer)
        except NotFound:
            return Outcome(Result.DONE, code=404)
        except Conflict as error:
            # Another object has the name: the one that was meant is gone.
            return Outcome(Result.DONE, code=409, message=error.status.message)

    async def _release(self, namespace: str, name: str, uid: str) -> Outcome:
        path = namespaced(namespace, "pods", name)
        try:
            pod = (await self._request("GET", path)).json()
            metadata = pod["metadata"]
            finalizers = metadata.get("finalizers") or []
            if metadata["uid"] != uid or POD_FINALIZER not in finalizers:
                return Outcome(Result.DONE, code=200)
            index = finalizers.index(POD_FINALIZER)
            patch = [
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "test", "path": f"/metadata/finalizers/{index}", "value": POD_FINALIZER},
                {"op": "remove", "path": f"/metadata/finalizers/{index}"},
            ]
            return _done(await self._request("PATCH", path, body=patch, content_type=JSON_PATCH))
        except NotFound:
            return Outcome(Result.DONE, code=404)

    async def _patch_status(self, request: Request) -> Outcome:
        """One JSON patch: only on this very job, only on the version that the status rests on."""
        status = request.status or {}
        digest = digest_of(status)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": request.job_uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": request.resource_version},
            {"op": "add", "path": "/status", "value": status},
        ]
        path = job_path(request.namespace, request.name, "status")
        try:
            answer = await self._request("PATCH", path, body=patch, content_type=JSON_PATCH)
        except Invalid as error:
            if error.causes:
                refused = _refused(error)
                return Outcome(
                    Result.REFUSED, code=422, reason="Invalid", message=refused.message, status_digest=digest
                )
            # No cause is named where a `test` failed.
            return Outcome(Result.REFUSED, code=409, reason="Conflict", resource_version=request.resource_version)
        except TooLarge as error:
            # As lasting as an invalid one: the same content would be refused again.
            message = error.status.message
            return Outcome(Result.REFUSED, code=413, reason="Invalid", message=message, status_digest=digest)
        except (Conflict, NotFound) as error:
            return Outcome(
                Result.REFUSED,
                code=error.status.code,
                reason=error.status.reason,
                message=error.status.message,
                resource_version=request.resource_version,
            )
        done = _done(answer)
        return Outcome(
            Result.DONE, code=done.code, uid=done.uid, resource_version=done.resource_version, status_digest=digest
        )

    async def _emit(self, request: Request, notice: actions.EmitNotice, now: Instant) -> Outcome:
        """A core/v1 Event on the job. Its name is made from the decision, so that a repeat is no second Event."""
        identity = f"{request.job_uid}/{request.decided_position}/{request.ordinal}"
        suffix = hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()
        at = text_of(now)
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{request.name}.{suffix}", "namespace": request.namespace},
            "involvedObject": {
                "apiVersion": f"{GROUP}/v1",
                "kind": "TFJob",
                "name": request.name,
                "namespace": request.namespace,
                "uid": request.job_uid,
            },
            "type": notice.type,
            "reason": notice.reason,
            "message": notice.message,
            "source": {"component": OPERATOR_NAME},
            "reportingComponent": OPERATOR_NAME,
            "reportingInstance": "",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        try:
            return _done(await self._request("POST", namespaced(request.namespace, "events"), body=body))
        except AlreadyExists:
            return Outcome(Result.DONE, code=409)


def _gone_of(answered: Iterable[Json], uid: str = "") -> Iterator[str]:
    """The uids of what a deletion's answer says is gone: objects that nothing holds, or a Status for the one asked."""
    for each in answered:
        metadata = each.get("metadata") or {}
        if each.get("kind") == "Status" and uid:
            yield uid
        elif metadata.get("uid") and not metadata.get("finalizers") and not metadata.get("deletionTimestamp"):
            yield metadata["uid"]


def _done(answer: Response, spec_hash: str | None = None) -> Outcome:
    metadata = answer.json().get("metadata") or {}
    return Outcome(
        Result.DONE,
        code=answer.status,
        uid=metadata.get("uid"),
        resource_version=metadata.get("resourceVersion"),
        spec_hash=spec_hash,
    )


def _refused(error: ApiError) -> Outcome:
    status = error.status
    if isinstance(error, NotLeading):
        return Outcome(Result.NOT_SENT, reason=status.reason)
    retry_after = getattr(error, "retry_after_seconds", 0.0)
    return Outcome(
        Result.UNKNOWN if error.may_have_taken_effect else Result.REFUSED,
        code=status.code,
        reason=status.reason or type(error).__name__,
        message=status.message,
        retry_after_seconds=retry_after or None,
    )
