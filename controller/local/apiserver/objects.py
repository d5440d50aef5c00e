"""The reading side of the store: names, kept objects and their past, and how each version of a kind shows them.

In: names and selectors. Out: copies of objects, `Stored` versions, changes; `ApiFailure` 404 for what is not there.
Never: a write (store.py), HTTP, waiting.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.local.apiserver import listing
from controller.local.apiserver.failures import not_found
from controller.local.apiserver.reading import Validator
from controller.local.apiserver.resources import ApiVersion, Registry, Resource
from controller.local.apiserver.revisions import Change, Revisions, Stored
from controller.local.apiserver.schema import apply_defaults, prune

Json = dict[str, Any]
# `list` is a verb of the class below.
Bodies = list[Json]
Changes = list[Change]
Validators = list[Validator]


def system_clock() -> datetime:
    """The machine's time."""
    return datetime.fromtimestamp(time.time(), UTC)


def random_uid() -> str:
    """A uid as the API server makes them."""
    return str(uuid.uuid4())


class Objects:
    """All objects of one local cluster. `clock` and `uid_source` can be given for simulations.

    `window` is how many changes of each resource are kept (None: all), `first_revision` where the counter starts.
    `validators` maps (group, kind) to checks beyond the schema, as admission plugins are on a real server.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = system_clock,
        uid_source: Callable[[], str] = random_uid,
        window: int | None = 20_000,
        first_revision: int = 100,
    ) -> None:
        self.clock = clock
        self.uid_source = uid_source
        self.registry = Registry()
        self.revisions = Revisions(window, first_revision)
        self.validators: dict[tuple[str, str], Validators] = {}

    # --- names -------------------------------------------------------------------------------------------------

    def resource(self, resource: Resource | str) -> Resource:
        """The resource of a name as `pods` or `tfjobs.kubeflow.org`; `ApiFailure` 404 where none is served."""
        if isinstance(resource, Resource):
            return resource
        plural, _, group = resource.partition(".")
        found = self.registry.get(group, plural)
        if found is None:
            raise not_found(plural, group, resource)
        return found

    def now_text(self) -> str:
        """The clock's time as objects carry it: whole seconds, UTC."""
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def fresh(self, resource: Resource) -> Resource:
        """The resource as it is served now: a CRD may have been updated since `resource` was looked up."""
        return self.registry.get(resource.group, resource.plural) or resource

    # --- reading -----------------------------------------------------------------------------------------------

    def get_stored(self, resource: Resource, namespace: str, name: str) -> Stored:
        """The kept version of an object; `ApiFailure` 404 if there is none."""
        found = self.revisions.get(resource.key, (namespace, name))
        if found is None:
            raise not_found(resource.plural, resource.group, name)
        return found

    def get(self, resource: Resource | str, namespace: str, name: str) -> Json:
        """A copy of one object in its storage version; `ApiFailure` 404 if there is none."""
        known = self.resource(resource)
        return self.copy_of(self.get_stored(known, namespace, name).body)

    def list(self, resource: Resource | str, namespace: str = "", labels: str = "", fields: str = "") -> Bodies:
        """Copies of the objects that are selected, by namespace and name."""
        known = self.resource(resource)
        selects = listing.predicate_of(known, known.storage, labels, fields)
        found = listing.selected(self.revisions.shelf(known.key).objects, namespace, "", selects, lambda s: s.body)
        return [self.copy_of(stored.body) for stored in found]

    def history(self, resource: Resource | str, namespace: str | None = None, name: str | None = None) -> Changes:
        """Every kept change of a resource, or of one object of it, oldest first."""
        known = self.resource(resource)
        key = None if name is None else (namespace or "", name)
        return self.revisions.history(known.key, key)

    def subscribe(self, observer: Callable[[Change], None]) -> Callable[[], None]:
        """Calls `observer` with every change from now on, in order; gives the function that ends it."""
        self.revisions.observers.append(observer)
        return lambda: self.revisions.observers.remove(observer)

    def compact(self) -> int:
        """Forgets the past, so that older watches and continue tokens get 410; gives the current revision."""
        return self.revisions.compact()

    @staticmethod
    def copy_of(body: Json) -> Json:
        """A body that shares nothing with `body`."""
        copied: Json = msgspec.json.decode(msgspec.json.encode(body))
        return copied

    def body_in(self, stored: Stored, resource: Resource, version: ApiVersion) -> Json:
        """The object as a version of its resource shows it. Not to be changed."""
        if not resource.is_custom:
            return stored.body
        key = (id(resource), version.name)
        body: Json | None = stored.encodings.get(key)
        if body is None:
            body = msgspec.json.decode(stored.raw)
            assert body is not None
            apply_defaults(body, resource.storage.schema)
            if version is not resource.storage:
                body["apiVersion"] = resource.api_version_of(version.name)
                prune(body, version.schema)
            if body == stored.body:
                body = stored.body
            stored.encodings[key] = body
        return body
