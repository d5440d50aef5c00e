"""How an object goes: preconditions, grace periods of pods, finalizers, and the marks for the garbage collector.

In: the object's kept version and the request's options. Out: what was done (`Deleted`), written to `Revisions`.
Never: the dependents of what is deleted (collector.py).

Rules: k8s.io/apiserver/pkg/registry/rest/delete.go, …/generic/registry/store.go, and the pod strategy of 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.local.apiserver.crds import terminating
from controller.local.apiserver.failures import (
    ApiFailure,
    Cause,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
)
from controller.local.apiserver.resources import Resource
from controller.local.apiserver.revisions import Revisions, Stored

Json = dict[str, Any]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
# What the API server itself holds: a CRD until its objects are gone (a namespace is held by its spec.finalizers).
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_NAMESPACES = ("", "namespaces")
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
_KEPT_NAMESPACES = ("default", "kube-public", "kube-system")
POLICIES = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of one DELETE; the grace period in seconds, None where the object's own holds."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    @classmethod
    def of(cls, body: Json, query: dict[str, str]) -> DeleteOptions:
        """Options from a DELETE's body and query; the body holds where both speak. `ApiFailure` 400 if unreadable."""
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        policy = body.get("propagationPolicy", query.get("propagationPolicy"))
        orphan = body.get("orphanDependents")
        if policy is not None and orphan is not None:
            text = "orphanDependents and deletionPropagation cannot be both set"
            raise _refused(invalid_value("propagationPolicy", f'"{policy}"', text))
        if policy is None and orphan is not None:
            policy = "Orphan" if orphan else "Background"
        if policy is not None and policy not in POLICIES:
            text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
            raise _refused(Cause("propagationPolicy", "FieldValueNotSupported", text))
        conditions = body.get("preconditions") or {}
        try:
            seconds = None if grace is None else int(grace)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from None
        return cls(
            grace_period_seconds=seconds,
            propagation_policy=policy,
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
            dry_run="All" in (body.get("dryRun") or []) or query.get("dryRun") == "All",
        )


def _refused(cause: Cause) -> ApiFailure:
    return invalid("DeleteOptions", "meta.k8s.io", "", [cause])


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a DELETE did: `last` is the object's newest version; it is gone, or marked and held."""

    last: Stored
    is_gone: bool


def is_released(wanted: Json, old: Json) -> bool:
    """Whether an update took the last finalizer off an object that waits for just that."""
    before = old["metadata"]
    return (
        "deletionTimestamp" in before
        and not before.get("deletionGracePeriodSeconds")
        and not wanted["metadata"].get("finalizers")
    )


def delete(revisions: Revisions, resource: Resource, stored: Stored, options: DeleteOptions, now: datetime) -> Deleted:
    """Deletes or marks an object. `ApiFailure` 409 if a precondition does not hold."""
    _check_preconditions(resource, stored, options)
    if resource.key == _NAMESPACES and stored.body["metadata"]["name"] in _KEPT_NAMESPACES:
        raise forbidden("namespaces", "", stored.body["metadata"]["name"], "this namespace may not be deleted")
    metadata = stored.body["metadata"]
    key = (metadata.get("namespace", ""), metadata["name"])
    marked = dict(metadata)
    grace = _grace_of(resource, stored.body, options)
    if "deletionTimestamp" in metadata and resource.deletes_gracefully:
        pending = metadata.get("deletionGracePeriodSeconds") or 0
        if options.grace_period_seconds is None or not pending or grace >= pending:
            return _settled(revisions, resource, key, stored, options)
        shift = timedelta(seconds=grace - pending)
        marked["deletionTimestamp"] = _text(_time_of(metadata["deletionTimestamp"]) + shift)
        marked["deletionGracePeriodSeconds"] = grace
    elif resource.deletes_gracefully:
        marked["deletionTimestamp"] = _text(now + timedelta(seconds=grace))
        marked["deletionGracePeriodSeconds"] = grace
        _next_generation(marked)
    finalizers = _finalizers_of(metadata, options)
    if resource.key == _CRDS and "deletionTimestamp" not in metadata:
        finalizers = [*finalizers, CRD_FINALIZER]
    if finalizers:
        marked["finalizers"] = finalizers
    else:
        marked.pop("finalizers", None)
    is_held = bool(finalizers) or resource.key == _NAMESPACES
    if is_held and not resource.deletes_gracefully and "deletionTimestamp" not in metadata:
        marked["deletionTimestamp"] = _text(now)
        if resource.key not in (_NAMESPACES, _CRDS):
            marked["deletionGracePeriodSeconds"] = 0
            _next_generation(marked)
    is_held = is_held or (resource.deletes_gracefully and grace > 0)
    if options.dry_run:
        return Deleted(Stored(stored.body | {"metadata": marked}, stored.revision), not is_held)
    if marked != metadata and (is_held or resource.deletes_gracefully):
        body = stored.body | {"metadata": marked}
        if resource.key == _NAMESPACES:
            body["status"] = (body.get("status") or {}) | {"phase": "Terminating"}
        elif resource.key == _CRDS and is_held:
            body["status"] = terminating(body.get("status") or {}, _text(now))
        stored = revisions.put(resource.key, key, body)
    if is_held:
        return Deleted(stored, False)
    return Deleted(revisions.remove(resource.key, key), True)


def _settled(
    revisions: Revisions, resource: Resource, key: tuple[str, str], stored: Stored, options: DeleteOptions
) -> Deleted:
    """A second DELETE that brings nothing new, unless nothing holds the object any more."""
    metadata = stored.body["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or options.dry_run:
        return Deleted(stored, False)
    return Deleted(revisions.remove(resource.key, key), True)


def _check_preconditions(resource: Resource, stored: Stored, options: DeleteOptions) -> None:
    metadata = stored.body["metadata"]
    name, uid = metadata["name"], metadata["uid"]
    why = ""
    if options.uid is not None and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
    elif options.resource_version is not None and options.resource_version != str(stored.revision):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({stored.revision}). The object might have been modified"
        )
    if why:
        # here the real server names the kind, not the resource
        raise conflict(resource.kind, resource.group, name, why)


def _grace_of(resource: Resource, body: Json, options: DeleteOptions) -> int:
    if not resource.deletes_gracefully:
        return 0
    spec, phase = body["spec"], body["status"].get("phase")
    asked = options.grace_period_seconds
    grace = int(spec.get("terminationGracePeriodSeconds") or 0) if asked is None else asked
    if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
        return 0
    return 1 if grace < 0 else grace


def _finalizers_of(metadata: Json, options: DeleteOptions) -> list[str]:
    finalizers = [f for f in metadata.get("finalizers") or [] if f not in (FOREGROUND, ORPHAN)]
    match options.propagation_policy:
        case "Foreground":
            return [*finalizers, FOREGROUND]
        case "Orphan":
            return [*finalizers, ORPHAN]
        case "Background":
            return finalizers
    return list(metadata.get("finalizers") or [])


def _next_generation(metadata: Json) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _time_of(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _text(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
