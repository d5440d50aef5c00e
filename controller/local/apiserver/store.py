"""The verbs of the Kubernetes API over the kept objects: create, get, list, update, patch, delete.

In: decoded bodies and patches, names, options. Out: `Stored` versions; `ApiFailure` for what is refused.
Never: HTTP, encodings of responses, waiting. Every verb is one synchronous step, so it is atomic under asyncio.

Order of checks as in k8s.io/apiserver 1.36: read the body (400), the namespace (404, 403), rules (422), name (409).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

from controller.local.apiserver import deletion, kinds, listing, registration
from controller.local.apiserver.failures import (
    MODIFIED,
    ApiFailure,
    Cause,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal,
    invalid,
    invalid_value,
    not_found,
)
from controller.local.apiserver.managers import same_but_times, with_managers
from controller.local.apiserver.metadata import causes_of, keep_server_fields, update_causes
from controller.local.apiserver.objects import Objects, Validators, random_uid, system_clock
from controller.local.apiserver.reading import WriteOptions, read_body, schema_causes, storage_form
from controller.local.apiserver.resources import ApiVersion, Resource
from controller.local.apiserver.revisions import Stored

Json = dict[str, Any]
# From the current body (in the request's version, free to change) to the wanted one.
Maker = Callable[[Json], Any]

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Store(Objects):
    """All objects of one local cluster, and the verbs that write them."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = system_clock,
        uid_source: Callable[[], str] = random_uid,
        window: int | None = 20_000,
        first_revision: int = 100,
    ) -> None:
        super().__init__(clock=clock, uid_source=uid_source, window=window, first_revision=first_revision)
        self._addresses = 1
        for name in _FIRST_NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}})

    # --- create ------------------------------------------------------------------------------------------------

    def create(
        self,
        resource: Resource | str,
        body: Json,
        namespace: str = "",
        *,
        version_name: str | None = None,
        options: WriteOptions | None = None,
    ) -> Stored:
        """Creates an object from a copy of `body`. `ApiFailure` 400, 403, 404, 409 or 422 as the API answers."""
        known = self.resource(resource)
        version = self._version(known, version_name or body.get("apiVersion", "").rpartition("/")[2])
        return self.create_from(known, version, namespace, self.copy_of(body), options or WriteOptions())

    def _version(self, resource: Resource, name: str) -> ApiVersion:
        return resource.version_of(name) or resource.storage

    def create_from(
        self,
        resource: Resource,
        version: ApiVersion,
        namespace: str,
        body: Any,
        options: WriteOptions,
        *,
        applied: bool = False,
    ) -> Stored:
        """Creates an object from a body that nobody else holds; `applied`: its managedFields are already right."""
        body = read_body(resource, version, body, options)
        registration.refuse_webhooks(resource, body)
        registration.warn_of_rules(self, resource, body, options.warnings)
        registration.refuse_terminating(self, resource, body)
        metadata = body["metadata"]
        self._check_namespace(resource, namespace, metadata, creating=True)
        if "resourceVersion" in metadata:
            raise internal("resourceVersion should not be set on objects to be created")
        if "name" not in metadata and metadata.get("generateName"):
            metadata["name"] = self._generated_name(resource, namespace, metadata["generateName"])
        for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(key, None)
        metadata |= {"uid": self.uid_source(), "creationTimestamp": self.now_text()}
        kinds.prepare_create(resource, body)
        name = metadata.get("name", "")
        if not applied:
            with_managers(resource, version, body, None, options.manager, self.now_text())
        kinds.complete(resource, body)
        causes = causes_of(metadata, kinds.name_form(resource), namespaced=resource.namespaced)
        causes += kinds.create_causes(resource, body)
        causes += schema_causes(resource, version, body, None, self._validators(resource))
        if causes:
            raise invalid(body["kind"], resource.group, name, causes)
        if self.revisions.get(resource.key, (namespace, name)) is not None:
            raise already_exists(resource.plural, resource.group, name)
        body = storage_form(resource, version.name, body)
        if resource.key == ("", "services"):
            self._give_address(body)
        if options.dry_run:
            return Stored(body, self.revisions.current)
        stored = self.revisions.put(resource.key, (namespace, name), body)
        return registration.after_write(self, resource, stored)

    def _validators(self, resource: Resource) -> Validators:
        return self.validators.get((resource.group, resource.kind), [])

    def _check_namespace(self, resource: Resource, namespace: str, metadata: Json, *, creating: bool) -> None:
        if not resource.namespaced:
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not creating:
            return
        found = self.revisions.get(("", "namespaces"), ("", namespace))
        if found is None:
            raise not_found("namespaces", "", namespace)
        if found.body["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated")
            raise forbidden(resource.plural, resource.group, metadata.get("name", ""), why, [cause])

    def _generated_name(self, resource: Resource, namespace: str, base: str) -> str:
        # 63 is the longest generated name: the API server cuts the base, never the random part.
        while True:
            suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
            name = base[: 63 - len(suffix)] + suffix
            if self.revisions.get(resource.key, (namespace, name)) is None:
                return name

    def _give_address(self, service: Json) -> None:
        spec = service["spec"]
        if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
            self._addresses += 1
            spec["clusterIP"] = f"10.0.{self._addresses // 256}.{self._addresses % 256}"
            spec["clusterIPs"] = [spec["clusterIP"]]

    # --- update ------------------------------------------------------------------------------------------------

    def replace(
        self,
        resource: Resource | str,
        namespace: str,
        name: str,
        body: Json,
        *,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> Stored:
        """Replaces an object (or its status) by a copy of `body`, as PUT does."""
        known = self.resource(resource)
        version = self._version(known, body.get("apiVersion", "").rpartition("/")[2])
        asked = options or WriteOptions()
        stored, _ = self.put(known, version, namespace, name, self.copy_of(body), asked, subresource)
        return stored

    def put(
        self,
        resource: Resource,
        version: ApiVersion,
        namespace: str,
        name: str,
        body: Any,
        options: WriteOptions,
        subresource: str = "",
    ) -> tuple[Stored, bool]:
        """PUT with a body that nobody else holds; the second value says whether the object was created."""
        wanted = read_body(resource, version, body, options)
        metadata = wanted["metadata"]
        if "name" not in metadata:
            text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            raise bad_request(text)
        if metadata["name"] != name:
            text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            raise bad_request(text)
        self._check_namespace(resource, namespace, metadata, creating=False)
        old = self.revisions.get(resource.key, (namespace, name))
        if old is None and resource.may_create_on_update and not subresource:
            metadata.pop("resourceVersion", None)
            return self.create_from(resource, version, namespace, wanted, options), True
        if old is None:
            raise not_found(resource.plural, resource.group, name)
        uid = old.body["metadata"]["uid"]
        if metadata.get("uid", uid) != uid:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {uid}"
            raise conflict(resource.plural, resource.group, name, why)
        return self.write_over(resource, version, old, wanted, options, subresource), False

    def patch(
        self,
        resource: Resource,
        version: ApiVersion,
        namespace: str,
        name: str,
        make: Maker,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> Stored:
        """PATCH: `make` turns a copy of the current body into the wanted one, which is then written as by PUT."""
        old = self.get_stored(resource, namespace, name)
        current = self.copy_of(self.body_in(old, resource, version))
        wanted = read_body(resource, version, make(current), options, is_patched=True)
        metadata = wanted["metadata"]
        if metadata.setdefault("name", name) != name:
            text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            raise bad_request(text)
        self._check_namespace(resource, namespace, metadata, creating=False)
        return self.write_over(resource, version, old, wanted, options, subresource)

    def write_over(
        self,
        resource: Resource,
        version: ApiVersion,
        old: Stored,
        wanted: Json,
        options: WriteOptions,
        subresource: str = "",
        *,
        applied: bool = False,
    ) -> Stored:
        """Writes a cleaned body over `old`: the optimistic lock, what may not change, rules, generation."""
        registration.refuse_webhooks(resource, wanted)
        registration.warn_of_rules(self, resource, wanted, options.warnings)
        before = self.body_in(old, resource, version)
        metadata, old_metadata = wanted["metadata"], before["metadata"]
        name, namespace = old_metadata["name"], old_metadata.get("namespace", "")
        given = metadata.get("resourceVersion")
        given = None if given == "0" else given
        if given is None and resource.needs_resource_version:
            text = "must be specified for an update"
            cause = invalid_value("metadata.resourceVersion", "0", text)
            raise invalid(resource.plural, resource.group, name, [cause])
        if given is not None and given != str(old.revision):
            if not given.isdecimal():
                raise internal(f'strconv.ParseUint: parsing "{given}": invalid syntax')
            raise conflict(resource.plural, resource.group, name, MODIFIED)
        metadata["resourceVersion"] = str(old.revision)
        keep_server_fields(metadata, old_metadata)
        wanted = kinds.prepare_update(resource, wanted, before, subresource)
        if kinds.is_new_generation(resource, wanted, before):
            wanted["metadata"]["generation"] = old_metadata.get("generation", 0) + 1
        causes = causes_of(wanted["metadata"], kinds.name_form(resource), namespaced=resource.namespaced)
        # twice, as the real server has it from the common update and from the kind's own
        causes += 2 * update_causes(wanted["metadata"], old_metadata)
        causes += kinds.update_causes(resource, wanted, before, subresource)
        causes += schema_causes(resource, version, wanted, before, self._validators(resource))
        if causes:
            raise invalid(wanted["kind"], wanted["apiVersion"].rpartition("/")[0], name, causes)
        if not applied:
            with_managers(resource, version, wanted, before, options.manager, self.now_text(), subresource)
        wanted = storage_form(resource, version.name, wanted)
        if same_but_times(wanted, old.body) or options.dry_run:
            return old if not options.dry_run else Stored(wanted, old.revision)
        if deletion.is_released(wanted, old.body):
            self.revisions.remove(resource.key, (namespace, name))
            registration.after_delete(self, resource, old)
            return Stored(wanted, old.revision)
        stored = self.revisions.put(resource.key, (namespace, name), wanted)
        return registration.after_write(self, resource, stored)

    # --- delete ------------------------------------------------------------------------------------------------

    def delete(
        self,
        resource: Resource | str,
        namespace: str,
        name: str,
        options: deletion.DeleteOptions | None = None,
    ) -> deletion.Deleted:
        """Deletes an object, or marks it where finalizers or a grace period hold it."""
        known = self.resource(resource)
        asked = options or deletion.DeleteOptions()
        outcome = deletion.delete(self.revisions, known, self.get_stored(known, namespace, name), asked, self.clock())
        if outcome.is_gone and not asked.dry_run:
            registration.after_delete(self, known, outcome.last)
        return outcome

    def delete_collection(
        self,
        resource: Resource,
        version: ApiVersion,
        namespace: str,
        asked: listing.ListParameters,
        options: deletion.DeleteOptions,
    ) -> listing.Page:
        """Deletes what a list with these parameters gives, each object as `delete` does; answers that list."""

        def body_of(stored: Stored) -> Json:
            return self.body_in(stored, resource, version)

        selects = listing.predicate_of(resource, version, asked.labels, asked.fields)
        page = listing.page_of(self.revisions, resource, namespace, asked, selects, body_of)
        for stored in page.items:
            metadata = stored.body["metadata"]
            try:
                self.delete(resource, metadata.get("namespace", ""), metadata["name"], options)
            except ApiFailure as failure:
                if failure.code != 404:
                    raise
        return page
