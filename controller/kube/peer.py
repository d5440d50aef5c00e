"""Edge to the API server: looks for training-operator's pods and webhook entries (peer_rules.py says what they mean).

In: a client. Out: `Seen`. Never: a write. A role that may read one namespace only is enough: it sees less.
"""

from __future__ import annotations

from controller.kube.client import KubeClient
from controller.kube.errors import ApiError, Forbidden
from controller.kube.peer_rules import POD_SELECTOR, Json, Seen

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NOT_SERVED = (404, 501)
"""Of an API server without admission webhooks, as the local one."""


async def look_for_peer(client: KubeClient, namespace: str | None) -> Seen:
    """Lists what may be listed; `namespace` is ours, None: all. Raises ApiError when the server gave no answer."""
    pods, sees_all_pods = await _items(client, "/api/v1/pods", POD_SELECTOR), True
    if pods is None:
        sees_all_pods = False
        pods = await _items(client, f"/api/v1/namespaces/{namespace}/pods", POD_SELECTOR) if namespace else None
    webhooks = await _items(client, WEBHOOKS, None)
    return Seen(pods or (), webhooks or (), sees_all_pods)


async def _items(client: KubeClient, path: str, selector: str | None) -> list[Json] | None:
    """The list's items; None when we may not see them."""
    try:
        found = (await client.request("GET", path, query={"labelSelector": selector})).json()
    except Forbidden:
        return None
    except ApiError as error:
        if error.status.code in NOT_SERVED:
            return []
        raise
    items: list[Json] = found.get("items") or []
    return items
