"""Bodies that the conformance suite sends: the smallest that a server accepts, and its own CRD."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

GROUP = "conformance.example.com"
WIDGETS_CRD = f"widgets.{GROUP}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def pod(name: str, **metadata: Any) -> Json:
    """A pod with one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name} | metadata,
        "spec": {"containers": [{"name": "main", "image": "example.com/image:1"}]},
    }


def config_map(name: str, data: Json | None = None, **metadata: Any) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name} | metadata, "data": data or {"a": "1"}}


def service(name: str, **spec: Any) -> Json:
    """A headless service with one port."""
    default = {"clusterIP": "None", "ports": [{"name": "main", "port": 2222}], "selector": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": default | spec}


def lease(name: str, holder: str = "me") -> Json:
    """A Lease."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def notice(namespace: str, **more: Any) -> Json:
    """A core Event about a pod."""
    involved = {"kind": "Pod", "namespace": namespace, "name": "some-pod", "uid": "some-uid", "apiVersion": "v1"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "some-pod."},
        "involvedObject": involved,
        "reason": "Tested",
        "message": "a message",
        "type": "Normal",
        "source": {"component": "conformance"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    } | more


def widget(name: str, api_version: str = "v1", spec: Json | None = None, **metadata: Any) -> Json:
    """An object of the suite's own kind."""
    return {
        "apiVersion": f"{GROUP}/{api_version}",
        "kind": "Widget",
        "metadata": {"name": name} | metadata,
        "spec": {"size": 1} if spec is None else spec,
    }


def _spec_schema(**more: Any) -> Json:
    return {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "label": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
            "port": {"x-kubernetes-int-or-string": True},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "embedded": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
            "maybe": {"type": "string", "nullable": True},
            "never": {"type": "string"},
            "replicas": {
                "type": "object",
                "maxProperties": 2,
                "additionalProperties": {
                    "type": "object",
                    "properties": {"count": {"type": "integer", "default": 1}, "image": {"type": "string"}},
                },
            },
            "parts": {
                "type": "array",
                "maxItems": 3,
                "minItems": 1,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                },
            },
        }
        | more,
    }


_STATUS_SCHEMA = {
    "type": "object",
    "properties": {
        "phase": {"type": "string", "enum": ["New", "Old"]},
        "conditions": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
}


def _version(name: str, spec: Json, **more: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": spec, "status": _STATUS_SCHEMA}}
    return {
        "name": name,
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    } | more


def widgets_crd() -> Json:
    """A CRD with two served versions that differ in fields and defaults; v1 is stored."""
    columns = [
        {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    v1 = _spec_schema(color={"type": "string", "enum": ["red", "blue"], "default": "red"})
    old = _spec_schema(color={"type": "string", "default": "blue"}, legacy={"type": "string", "default": "yes"})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS_CRD},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wdg"], "categories": ["all"]},
            "versions": [
                _version("v1", v1, storage=True, additionalPrinterColumns=columns),
                _version("v1alpha2", old),
            ],
        },
    }


def small_crd(plural: str, kind: str, scope: str = "Namespaced") -> Json:
    """A CRD whose objects may hold anything, without a status subresource."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
