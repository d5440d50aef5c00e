"""What sets the kinds apart when they are written: defaults, checks, what an update leaves alone.

In: a pruned body, and the old one for an update. Out: the body completed in place; causes for what breaks rules.
Never: storage, revisions or metadata that is common to all kinds (store.py, metadata.py).

Rules: the strategies under k8s.io/kubernetes/pkg/registry and apiextensions-apiserver of 1.36.
"""

from __future__ import annotations

from typing import Any

from controller.local.apiserver import crds
from controller.local.apiserver.failures import Cause, forbidden_field, invalid_value, required
from controller.local.apiserver.metadata import name_problem
from controller.local.apiserver.pods import (
    admit_pod,
    apply_pod_defaults,
    complete_status,
    initial_status,
    pod_causes,
    pod_update_causes,
)
from controller.local.apiserver.resources import Resource
from controller.local.apiserver.violations import shown

Json = dict[str, Any]

_NAME_FORMS = {"namespaces": "label", "services": "label"}
PROTOCOLS = ("SCTP", "TCP", "UDP")


def name_form(resource: Resource) -> str:
    """The form that names of this resource must have (metadata.name_problem)."""
    return "subdomain" if resource.group else _NAME_FORMS.get(resource.plural, "subdomain")


def prepare_create(resource: Resource, body: Json) -> None:
    """Gives a new object its defaults and the first generation: what counts as set by its writer."""
    if resource.is_custom or resource.tracks_generation:
        body["metadata"]["generation"] = 1
    if resource.is_custom:
        if resource.has_status:
            body.pop("status", None)
        return
    match resource.plural:
        case "pods":
            apply_pod_defaults(body)
            body.pop("status", None)
        case "services":
            _apply_service_defaults(body)
            body.pop("status", None)
        case "namespaces":
            body.pop("spec", None)
            body.pop("status", None)
            labels = body["metadata"].setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = body["metadata"].get("name", "")
        case "customresourcedefinitions":
            crds.apply_crd_defaults(body)
            body.pop("status", None)
        case "leases":
            body.setdefault("spec", {})


def complete(resource: Resource, body: Json) -> None:
    """Adds to a new object what the server sets itself: its first status, and what admission fills in."""
    if resource.is_custom:
        return
    match resource.plural:
        case "pods":
            admit_pod(body)
            body["status"] = initial_status(body)
        case "services":
            _complete_service(body)
            body["status"] = {"loadBalancer": {}}
        case "namespaces":
            body["spec"] = {"finalizers": ["kubernetes"]}
            body["status"] = {"phase": "Active"}
        case "customresourcedefinitions":
            body["status"] = crds.first_status(body)
        case "events":
            body.setdefault("source", {})
            for key in ("reportingComponent", "reportingInstance"):
                body.setdefault(key, "")
            for key in ("eventTime", "firstTimestamp", "lastTimestamp"):
                body.setdefault(key, None)


def _apply_service_defaults(body: Json) -> None:
    spec = body.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port") or 0)
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")


def _complete_service(body: Json) -> None:
    spec = body["spec"]
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def create_causes(resource: Resource, body: Json) -> list[Cause]:
    """What is wrong with a new built-in object, apart from its metadata and its fields' types."""
    if resource.is_custom:
        return []
    match resource.plural:
        case "pods":
            return pod_causes(body)
        case "services":
            return _service_causes(body.get("spec") or {})
        case "events":
            return _event_causes(body)
        case "leases":
            return _lease_causes(body.get("spec") or {})
        case "customresourcedefinitions":
            return crds.crd_causes(body)
        case "configmaps":
            return _config_map_causes(body)
    return []


def _service_causes(spec: Json) -> list[Cause]:
    found: list[Cause] = []
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        found.append(required("spec.ports"))
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name") or ""
        if not name and len(ports) > 1:
            found.append(required(f"{path}.name"))
        elif name and (problem := name_problem(name, "label")):
            found.append(invalid_value(f"{path}.name", shown(name), problem))
        elif name in names:
            found.append(Cause(f"{path}.name", "FieldValueDuplicate", f"Duplicate value: {shown(name)}"))
        names.add(name)
        number = port.get("port")
        if not isinstance(number, int) or not 1 <= number <= 65535:
            text = "must be between 1 and 65535, inclusive"
            found.append(invalid_value(f"{path}.port", shown(number or 0), text))
        target = port.get("targetPort")
        if isinstance(target, int) and not 1 <= target <= 65535:
            text = "must be between 1 and 65535, inclusive"
            found.append(invalid_value(f"{path}.targetPort", shown(target), text))
        if port.get("protocol") not in PROTOCOLS:
            listed = ", ".join(shown(option) for option in PROTOCOLS)
            text = f"Unsupported value: {shown(port.get('protocol'))}: supported values: {listed}"
            found.append(Cause(f"{path}.protocol", "FieldValueNotSupported", text))
    return found


def _event_causes(body: Json) -> list[Cause]:
    involved = body.get("involvedObject") or {}
    namespace = involved.get("namespace", "")
    own = body["metadata"].get("namespace", "")
    if namespace != own and not (not namespace and own == "default"):
        text = "does not match event.namespace"
        return [invalid_value("involvedObject.namespace", shown(namespace), text)]
    return []


def _lease_causes(spec: Json) -> list[Cause]:
    found = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.append(invalid_value("spec.leaseDurationSeconds", shown(duration), "must be greater than 0"))
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        found.append(invalid_value("spec.leaseTransitions", shown(transitions), text))
    return found


def _config_map_causes(body: Json) -> list[Cause]:
    found = []
    for field in ("data", "binaryData"):
        for key in body.get(field) or {}:
            if not key or len(key) > 253 or not all(c.isalnum() or c in "-._" for c in key):
                text = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  "
                    "or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                )
                found.append(invalid_value(f"{field}[{key}]", shown(key), text))
    return found


# --- updates -----------------------------------------------------------------------------------------------------


def prepare_update(resource: Resource, new: Json, old: Json, subresource: str) -> Json:
    """The body that an update really writes: what this request may not touch is taken from the old object."""
    if subresource == "status":
        return _status_update(resource, new, old)
    if resource.has_status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    if not resource.is_custom:
        _complete_update(resource, new, old)
    return new


def _status_update(resource: Resource, new: Json, old: Json) -> Json:
    if resource.is_custom or resource.plural == "customresourcedefinitions":
        metadata = dict(old["metadata"])
        if "managedFields" in new["metadata"]:
            metadata["managedFields"] = new["metadata"]["managedFields"]
        body = {key: value for key, value in old.items() if key != "status"} | {"metadata": metadata}
        if "status" in new:
            body["status"] = new["status"]
        return body
    if "spec" in old:
        new["spec"] = old["spec"]
    if resource.plural == "pods":
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
        status = new.setdefault("status", {})
        if "qosClass" in old["status"]:
            status.setdefault("qosClass", old["status"]["qosClass"])
        complete_status(status)
    return new


def _complete_update(resource: Resource, new: Json, old: Json) -> None:
    match resource.plural:
        case "pods":
            apply_pod_defaults(new)
            admit_pod(new)
        case "services":
            spec = new.setdefault("spec", {})
            for key in ("clusterIP", "clusterIPs"):
                if not spec.get(key) and key in old["spec"]:
                    spec[key] = old["spec"][key]
            _apply_service_defaults(new)
            _complete_service(new)
        case "namespaces":
            new["spec"] = old["spec"]
        case "customresourcedefinitions":
            crds.apply_crd_defaults(new)


def is_new_generation(resource: Resource, new: Json, old: Json) -> bool:
    """Whether an update changed what `generation` counts: all but metadata, and status where it is a subresource."""
    if not (resource.is_custom or resource.tracks_generation):
        return False
    ignored = {"metadata", "apiVersion", "kind", *(["status"] if resource.has_status else [])}
    return {k: v for k, v in new.items() if k not in ignored} != {k: v for k, v in old.items() if k not in ignored}


def update_causes(resource: Resource, new: Json, old: Json, subresource: str) -> list[Cause]:
    """What a built-in object's update breaks, apart from its metadata."""
    if resource.is_custom or subresource == "status":
        return []
    if resource.plural == "pods":
        return pod_update_causes(new, old)
    found = create_causes(resource, new)
    if resource.plural == "services":
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before != after and "ExternalName" not in (old["spec"].get("type"), new["spec"].get("type")):
            text = "may not change once set"
            found.append(invalid_value("spec.clusterIPs[0]", shown([after]), text))
    if resource.plural == "configmaps" and old.get("immutable"):
        if not new.get("immutable"):
            found.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
        found += [
            forbidden_field(field, "field is immutable when `immutable` is set")
            for field in ("data", "binaryData")
            if new.get(field) != old.get(field)
        ]
    return found
