"""Where the suite's objects live: paths of the API, by namespace."""

from __future__ import annotations

from tests.conformance.objects import GROUP


def core(namespace: str, plural: str, name: str = "", sub: str = "") -> str:
    """A path of the core group."""
    return "/".join(part for part in (f"/api/v1/namespaces/{namespace}/{plural}", name, sub) if part)


def widgets(namespace: str, name: str = "", sub: str = "", api_version: str = "v1") -> str:
    """A path of the suite's own kind."""
    head = f"/apis/{GROUP}/{api_version}/namespaces/{namespace}/widgets"
    return "/".join(part for part in (head, name, sub) if part)


def leases(namespace: str, name: str = "") -> str:
    """A path of leases."""
    head = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return f"{head}/{name}" if name else head
