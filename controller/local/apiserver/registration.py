"""What a CustomResourceDefinition's write or end does to what is served.

In: the version of a CRD that was just kept or removed. Out: the registry changed, the CRD's status written.
"""

from __future__ import annotations

from typing import Any

from controller.local.apiserver import crds
from controller.local.apiserver.failures import forbidden, not_implemented
from controller.local.apiserver.objects import Objects
from controller.local.apiserver.resources import Resource
from controller.local.apiserver.revisions import Stored

_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")


def refuse_webhooks(resource: Resource, body: dict[str, Any]) -> None:
    """`ApiFailure` 501 for a CRD that converts by webhook."""
    spec = body.get("spec")
    conversion = spec.get("conversion") if isinstance(spec, dict) else None
    if resource.key == _CRDS and isinstance(conversion, dict) and conversion.get("strategy") == "Webhook":
        raise not_implemented("conversion webhooks of a CustomResourceDefinition")


def warn_of_rules(objects: Objects, resource: Resource, body: dict[str, Any], warnings: list[str]) -> None:
    """Says of a CRD with CEL rules that they are not evaluated here, unless the kind has checks of its own."""
    if resource.key != _CRDS:
        return
    spec = body.get("spec") or {}
    kind = (spec.get("names") or {}).get("kind", "")
    if objects.validators.get((spec.get("group", ""), kind)):
        return
    if "x-kubernetes-validations" in str(spec.get("versions")):
        warnings.append(f"the local API server does not evaluate the x-kubernetes-validations of {kind}")


def refuse_terminating(objects: Objects, resource: Resource, body: dict[str, Any]) -> None:
    """`ApiFailure` 403 for a new object of a CRD that is being deleted."""
    if not resource.is_custom:
        return
    crd = objects.revisions.get(_CRDS, ("", resource.qualified))
    if crd is not None and crd.body["metadata"].get("deletionTimestamp"):
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why)


def after_write(objects: Objects, resource: Resource, stored: Stored) -> Stored:
    """Serves what a CRD declares, and gives the CRD its status; other kinds pass through."""
    body = stored.body
    if resource.key != _CRDS or body["metadata"].get("deletionTimestamp"):
        return stored
    served = crds.resource_of(body)
    if objects.registry.get(served.group, served.plural) is None:
        objects.revisions.shelf(served.key).horizon = objects.revisions.current
    objects.registry.put(served)
    status = crds.established_status(body, objects.now_text())
    if body.get("status") != status:
        written = body | {"metadata": dict(body["metadata"]), "status": status}
        objects.revisions.put(resource.key, ("", body["metadata"]["name"]), written)
    return stored


def after_delete(objects: Objects, resource: Resource, last: Stored) -> None:
    """Stops serving what a deleted CRD declared."""
    if resource.key == _CRDS:
        spec = last.body["spec"]
        objects.registry.remove(spec["group"], spec["names"]["plural"])
