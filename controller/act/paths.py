"""Where things are on the API server."""

from __future__ import annotations

from controller.model.names import GROUP


def namespaced(namespace: str, plural: str, name: str = "") -> str:
    """The path of a core/v1 resource."""
    return f"/api/v1/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def job_path(namespace: str, name: str, subresource: str = "") -> str:
    """The path of a TFJob."""
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/tfjobs/{name}"
    return f"{path}/{subresource}" if subresource else path
