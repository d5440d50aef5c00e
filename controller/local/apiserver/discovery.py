"""What the server says of itself: its API's groups, versions and resources, for clients that ask before they act.

In: the registry. Out: the discovery documents, the old form (one per group version) and the aggregated one.

Forms: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

from __future__ import annotations

from typing import Any

from controller.local.apiserver.resources import ApiVersion, Registry, Resource

Json = dict[str, Any]

AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+tfjob-local",
    "gitCommit": "",
    "gitTreeState": "clean",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "local",
}
# What a subresource's requests carry, where it is not the resource's own kind: (group, version, kind).
_SUBRESOURCE_KINDS = {"binding": ("", "v1", "Binding")}
_SUBRESOURCE_VERBS = {"binding": ["create"], "log": ["get"], "finalize": ["update"]}
_STATUS_VERBS = ["get", "patch", "update"]


def api_versions(address: str) -> Json:
    """/api in its old form."""
    served_at = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": served_at}


def _served(registry: Registry, group: str) -> list[str]:
    names: dict[str, None] = {}
    for resource in registry.of_group(group):
        names |= dict.fromkeys(version.name for version in resource.versions if version.served)
    return list(names)


def group_document(registry: Registry, group: str) -> Json | None:
    """/apis/{group} as a document of its own; None where the group is not served."""
    found = api_group(registry, group)
    return None if found is None else {"kind": "APIGroup", "apiVersion": "v1"} | found


def api_group(registry: Registry, group: str) -> Json | None:
    """One group's entry in /apis; None where the group is not served."""
    versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in _served(registry, group)]
    if not versions:
        return None
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def api_group_list(registry: Registry) -> Json:
    """/apis in its old form."""
    groups = [found for group in registry.groups() if group and (found := api_group(registry, group))]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_resource_list(registry: Registry, group: str, version_name: str) -> Json | None:
    """/api/v1 and /apis/{group}/{version}; None where that version is not served."""
    if version_name not in _served(registry, group):
        return None
    entries: list[Json] = []
    for resource in registry.of_group(group):
        version = resource.version_of(version_name)
        if version is None or not version.served:
            continue
        entry: Json = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        entries.append(entry)
        for name in resource.subresources:
            entries.append({
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": _SUBRESOURCE_KINDS.get(name, ("", "", resource.kind))[2],
                "verbs": _SUBRESOURCE_VERBS.get(name, _STATUS_VERBS),
            })  # fmt: skip
    full_name = f"{group}/{version_name}" if group else version_name
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full_name, "resources": entries}


def _aggregated_resource(resource: Resource, version: ApiVersion) -> Json:
    kind = {"group": resource.group, "version": version.name, "kind": resource.kind}
    entry: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": dict(zip(("group", "version", "kind"), _SUBRESOURCE_KINDS[name], strict=True))
                if name in _SUBRESOURCE_KINDS
                else kind,
                "verbs": _SUBRESOURCE_VERBS.get(name, _STATUS_VERBS),
            }
            for name in resource.subresources
        ]
    return entry


def aggregated(registry: Registry, *, core: bool) -> Json:
    """/api (`core`) or /apis as APIGroupDiscoveryList."""
    items = []
    for group in [""] if core else [group for group in registry.groups() if group]:
        versions = []
        for name in _served(registry, group):
            found = [
                _aggregated_resource(resource, version)
                for resource in registry.of_group(group)
                if (version := resource.version_of(name)) is not None and version.served
            ]
            versions.append({"version": name, "resources": found, "freshness": "Current"})
        if versions:
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
