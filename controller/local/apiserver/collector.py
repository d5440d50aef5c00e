"""What goes because something else went: dependents of deleted owners, contents of deleted namespaces and CRDs.

In: the store's changes. Out: deletes through the store, as kube-controller-manager does them.

Rules: https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from controller.local.apiserver.deletion import CRD_FINALIZER, FOREGROUND, ORPHAN, DeleteOptions
from controller.local.apiserver.failures import ApiFailure
from controller.local.apiserver.reading import WriteOptions
from controller.local.apiserver.resources import Resource
from controller.local.apiserver.revisions import Change, ObjectKey, ResourceKey, Stored
from controller.local.apiserver.store import Store

Json = dict[str, Any]
Place = tuple[ResourceKey, ObjectKey]

PAUSE_SECONDS = 0.02
_NAMESPACES = ("", "namespaces")
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")


class Collector:
    """Runs beside the store; each change may leave it something to do. `run()` until cancelled."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._dependents: dict[str, set[Place]] = {}
        self._live: set[str] = set()
        self._todo: dict[str, Place] = {}
        self._emptied: set[Place] = set()
        self._wake = asyncio.Event()
        for resource in store.registry:
            for stored in store.revisions.shelf(resource.key).objects.values():
                self._live.add(stored.body["metadata"]["uid"])
        self._end = store.subscribe(self._hear)

    def _hear(self, change: Change) -> None:
        metadata = change.now.body["metadata"]
        place = (change.resource, change.key)
        uid = metadata["uid"]
        if change.kind == "DELETED":
            self._live.discard(uid)
            for dependent in self._dependents.pop(uid, ()):
                self._queue(dependent)
            for owner in metadata.get("ownerReferences") or ():
                self._dependents.get(owner["uid"], set()).discard(place)
                self._recheck_owner(owner["uid"])
        else:
            self._live.add(uid)
            owners = metadata.get("ownerReferences") or ()
            for owner in owners:
                self._dependents.setdefault(owner["uid"], set()).add(place)
            if owners or metadata.get("deletionTimestamp"):
                self._queue(place)
        if self._emptied:
            self._wake.set()

    def _recheck_owner(self, uid: str) -> None:
        if uid in self._live:
            for place in [p for p in self._emptied if self._uid_at(p) == uid]:
                self._queue(place)

    def _uid_at(self, place: Place) -> str:
        stored = self._store.revisions.get(*place)
        return stored.body["metadata"]["uid"] if stored else ""

    def _queue(self, place: Place) -> None:
        self._todo[f"{place}"] = place
        self._wake.set()

    async def run(self) -> None:
        """Collects until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self.run_once()
                # What is held by finalizers or grace periods is looked at again after the next changes; a pause lets
                # them gather, since each look goes through all that is left.
                if self._emptied:
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._end()

    def run_once(self) -> None:
        """Does what there is to do now."""
        todo, self._todo = list(self._todo.values()), {}
        for place in dict.fromkeys([*todo, *self._emptied]):
            resource = self._store.registry.get(*place[0])
            stored = self._store.revisions.get(*place)
            if resource is None or stored is None:
                self._emptied.discard(place)
                continue
            if stored.body["metadata"].get("deletionTimestamp"):
                self._finish(resource, place, stored)
            elif stored.body["metadata"].get("ownerReferences"):
                self._collect_orphaned(resource, place, stored)

    def _collect_orphaned(self, resource: Resource, place: Place, stored: Stored) -> None:
        metadata = stored.body["metadata"]
        owners = metadata["ownerReferences"]
        solid = [owner for owner in owners if self._is_solid(owner, metadata.get("namespace", ""))]
        if not solid:
            self._delete(resource, place, metadata["uid"], "Background")
        elif len(solid) < len(owners):
            self._rewrite(resource, place, stored, {"ownerReferences": solid})

    def _is_solid(self, owner: Json, namespace: str) -> bool:
        if owner["uid"] not in self._live:
            return False
        # An owner of another namespace does not count: such a reference is looked up by name in the own namespace.
        group = owner["apiVersion"].rpartition("/")[0]
        resource = self._store.registry.of_kind(group, owner["kind"])
        if resource is None:
            return True
        key = (namespace if resource.namespaced else "", owner["name"])
        found = self._store.revisions.get(resource.key, key)
        return found is not None and found.body["metadata"]["uid"] == owner["uid"]

    def _finish(self, resource: Resource, place: Place, stored: Stored) -> None:
        finalizers = stored.body["metadata"].get("finalizers") or []
        if resource.key == _NAMESPACES:
            self._empty_namespace(place, stored)
        if CRD_FINALIZER in finalizers and resource.key == _CRDS:
            self._empty_crd(resource, place, stored)
        if ORPHAN in finalizers:
            self._orphan_dependents(stored)
            self._release(resource, place, stored, ORPHAN)
        elif FOREGROUND in finalizers:
            self._delete_dependents(resource, place, stored)

    def _orphan_dependents(self, owner: Stored) -> None:
        uid = owner.body["metadata"]["uid"]
        for place in list(self._dependents.get(uid, ())):
            resource, stored = self._store.registry.get(*place[0]), self._store.revisions.get(*place)
            if resource and stored:
                owners = [o for o in stored.body["metadata"].get("ownerReferences") or [] if o["uid"] != uid]
                self._rewrite(resource, place, stored, {"ownerReferences": owners})
        self._dependents.pop(uid, None)

    def _delete_dependents(self, resource: Resource, place: Place, owner: Stored) -> None:
        uid = owner.body["metadata"]["uid"]
        blocking = False
        for dependent in list(self._dependents.get(uid, ())):
            known, stored = self._store.registry.get(*dependent[0]), self._store.revisions.get(*dependent)
            if known is None or stored is None:
                continue
            metadata = stored.body["metadata"]
            mine = next((o for o in metadata.get("ownerReferences") or [] if o["uid"] == uid), None)
            if mine is None:
                continue
            if not metadata.get("deletionTimestamp"):
                self._delete(known, dependent, metadata["uid"], "Foreground" if known.is_custom else None)
            still = self._store.revisions.get(*dependent)
            blocking = blocking or (still is not None and bool(mine.get("blockOwnerDeletion")))
        if blocking:
            self._emptied.add(place)
        else:
            self._emptied.discard(place)
            self._release(resource, place, owner, FOREGROUND)

    def _empty_namespace(self, place: Place, stored: Stored) -> None:
        name = stored.body["metadata"]["name"]
        if self._delete_all(lambda other: other.namespaced, name) or stored.body["metadata"].get("finalizers"):
            self._emptied.add(place)
            return
        self._emptied.discard(place)
        self._store.revisions.remove(*place)

    def _empty_crd(self, resource: Resource, place: Place, stored: Stored) -> None:
        spec = stored.body["spec"]
        key = (spec["group"], spec["names"]["plural"])
        if self._delete_all(lambda other: other.key == key, ""):
            self._emptied.add(place)
            return
        self._emptied.discard(place)
        self._release(resource, place, stored, CRD_FINALIZER)

    def _delete_all(self, is_meant: Callable[[Resource], bool], namespace: str) -> bool:
        """Deletes every object of the meant resources; whether some are left (held by finalizers or a grace period)."""
        left = False
        for resource in self._store.registry:
            if not is_meant(resource):
                continue
            objects = self._store.revisions.shelf(resource.key).objects
            for key in [key for key in objects if not namespace or key[0] == namespace]:
                metadata = objects[key].body["metadata"]
                if not metadata.get("deletionTimestamp"):
                    self._delete(resource, (resource.key, key), metadata["uid"], "Background")
                left = left or key in objects
        return left

    def _delete(self, resource: Resource, place: Place, uid: str, policy: str | None) -> None:
        options = DeleteOptions(uid=uid, propagation_policy=policy)
        try:
            self._store.delete(resource, place[1][0], place[1][1], options)
        except ApiFailure as failure:
            if failure.code not in (404, 409):
                raise

    def _release(self, resource: Resource, place: Place, stored: Stored, finalizer: str) -> None:
        current = self._store.revisions.get(*place)
        if current is not None:
            left = [f for f in current.body["metadata"].get("finalizers") or [] if f != finalizer]
            self._rewrite(resource, place, current, {"finalizers": left})

    def _rewrite(self, resource: Resource, place: Place, stored: Stored, metadata: Json) -> None:
        version = resource.storage
        options = WriteOptions(manager="kube-controller-manager")
        name = stored.body["metadata"]["name"]

        def changed(body: Json) -> Json:
            body["metadata"] |= metadata
            return body

        self._store.patch(resource, version, place[1][0], name, changed, options)
