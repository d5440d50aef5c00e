"""What is served: each resource with its names, versions, verbs and the habits that set it apart.

In: the built-in kinds of this file, and the CustomResourceDefinitions that crds.py turns into `Resource` values.
Out: `Registry`, asked by (group, version, plural).

The habits (what a DELETE answers, whether a PUT may create) are the strategies of k8s.io/kubernetes/pkg/registry 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from controller.local.apiserver.builtin import builtin_schema
from controller.local.apiserver.schema import Node

Json = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_NAME_FIELDS = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """One version of a resource: `schema` prunes and checks its bodies, `columns` are its printer columns."""

    name: str
    schema: Node
    served: bool = True
    columns: tuple[Json, ...] = ()
    deprecation_warning: str | None = None
    selectable: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One resource (pods, tfjobs.kubeflow.org, …); `versions` in the order of their priority in discovery."""

    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    namespaced: bool
    versions: tuple[ApiVersion, ...]
    storage_version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()
    # Subresources of a real server that are answered with 501 here.
    absent_subresources: tuple[str, ...] = ()
    is_custom: bool = False
    tracks_generation: bool = False
    deletes_gracefully: bool = False
    answers_deleted_object: bool = False
    may_create_on_update: bool = False
    needs_resource_version: bool = False
    field_paths: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(_NAME_FIELDS))

    @property
    def has_status(self) -> bool:
        """Whether status is a subresource of its own."""
        return "status" in self.subresources

    @property
    def qualified(self) -> str:
        """`plural` or `plural.group`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> tuple[str, str]:
        """What the store files its objects under: (group, plural)."""
        return self.group, self.plural

    def version_of(self, name: str) -> ApiVersion | None:
        """The version of that name, None where there is none."""
        return next((v for v in self.versions if v.name == name), None)

    def api_version_of(self, version_name: str) -> str:
        """What objects of that version carry as `apiVersion`."""
        return f"{self.group}/{version_name}" if self.group else version_name

    @property
    def storage(self) -> ApiVersion:
        """The version objects are kept in."""
        found = self.version_of(self.storage_version)
        assert found is not None, f"{self.qualified} has no version {self.storage_version}"
        return found


def _builtin(group: str, version_name: str, model: str, plural: str, kind: str, **habits: Any) -> Resource:
    version = ApiVersion(version_name, builtin_schema(model))
    extra = habits.pop("fields", {})
    return Resource(
        group=group,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        list_kind=f"{kind}List",
        namespaced=habits.pop("namespaced", True),
        versions=(version,),
        storage_version=version_name,
        field_paths=_NAME_FIELDS | extra,
        **habits,
    )


def _paths(*names: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(name.split(".")) for name in names}


def builtin_resources() -> list[Resource]:
    """The built-in kinds that the local server serves."""
    involved = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return [
        _builtin(
            "", "v1", "V1Namespace", "namespaces", "Namespace", namespaced=False, short_names=("ns",),
            subresources=("finalize", "status"), answers_deleted_object=True, fields=_paths("status.phase"),
            verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        ),
        _builtin(
            "", "v1", "V1Pod", "pods", "Pod", short_names=("po",), categories=("all",),
            subresources=("binding", "log", "status"), tracks_generation=True, deletes_gracefully=True,
            answers_deleted_object=True,
            absent_subresources=(
                "attach", "ephemeralcontainers", "eviction", "exec", "portforward", "proxy", "resize",
            ),
            fields=_paths(
                "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
                "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
            ),
        ),
        _builtin(
            "", "v1", "V1Service", "services", "Service", short_names=("svc",), categories=("all",),
            subresources=("status",), absent_subresources=("proxy",), answers_deleted_object=True,
            may_create_on_update=True,
            fields=_paths("spec.clusterIP", "spec.type"),
        ),
        _builtin("", "v1", "V1ConfigMap", "configmaps", "ConfigMap", short_names=("cm",)),
        _builtin(
            "", "v1", "CoreV1Event", "events", "Event", short_names=("ev",), may_create_on_update=True,
            fields=_paths("reason", "type", "reportingComponent", *(f"involvedObject.{name}" for name in involved))
            | {"source": ("source", "component")},
        ),
        _builtin(
            "coordination.k8s.io", "v1", "V1Lease", "leases", "Lease",
            may_create_on_update=True, needs_resource_version=True,
        ),
        _builtin(
            "apiextensions.k8s.io", "v1", "V1CustomResourceDefinition", "customresourcedefinitions",
            "CustomResourceDefinition", namespaced=False, short_names=("crd", "crds"),
            categories=("api-extensions",), subresources=("status",), tracks_generation=True,
            needs_resource_version=True,
        ),
    ]  # fmt: skip


# Kinds of a real cluster that are answered with 501, not 404: a request for one is right, only this server lacks it.
ABSENT_CORE = frozenset({
    "bindings", "componentstatuses", "endpoints", "limitranges", "nodes", "persistentvolumeclaims",
    "persistentvolumes", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts",
})  # fmt: skip
ABSENT_GROUPS = frozenset({"apps", "autoscaling", "batch", "policy"})


def is_absent_group(group: str) -> bool:
    """Whether `group` belongs to Kubernetes itself, so that its lack here is said with 501."""
    return group in ABSENT_GROUPS or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))


class Registry:
    """The resources served now. `changed` counts up whenever one is added, replaced or removed."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], Resource] = {}
        self.changed = 0
        for resource in builtin_resources():
            self.put(resource)

    def put(self, resource: Resource) -> None:
        """Adds or replaces a resource."""
        self._by_key[resource.key] = resource
        self.changed += 1

    def remove(self, group: str, plural: str) -> None:
        """Takes a resource off; nothing happens if it is not there."""
        if self._by_key.pop((group, plural), None):
            self.changed += 1

    def get(self, group: str, plural: str) -> Resource | None:
        """The resource of that name, None where it is not served."""
        return self._by_key.get((group, plural))

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """The resource whose objects have that kind."""
        return next((r for r in self._by_key.values() if r.group == group and r.kind == kind), None)

    def groups(self) -> list[str]:
        """The groups served, the core group first."""
        return sorted({group for group, _ in self._by_key})

    def of_group(self, group: str) -> list[Resource]:
        """The resources of one group, by name."""
        return sorted((r for r in self._by_key.values() if r.group == group), key=lambda r: r.plural)

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_key.values()))
