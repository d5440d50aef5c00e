"""Binding: the act that gives a pod its node, as a scheduler does.

In: a Binding's body. Out: the pod written with `spec.nodeName` and its PodScheduled condition.
"""

from __future__ import annotations

import copy
from typing import Any

from controller.local.apiserver.failures import conflict, internal
from controller.local.apiserver.store import Store

Json = dict[str, Any]


def bind(store: Store, namespace: str, name: str, binding: Any) -> None:
    """Binds a pod to the node `target.name`. `ApiFailure` 409 if it has a node or is being deleted."""
    node = ((binding.get("target") or {}) if isinstance(binding, dict) else {}).get("name")
    if not node:
        raise internal("target.name: Required value")
    pods = store.resource("pods")
    stored = store.get_stored(pods, namespace, name)
    metadata = stored.body["metadata"]
    if metadata.get("deletionTimestamp"):
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    held = stored.body["spec"].get("nodeName")
    if held:
        raise conflict("pods/binding", "", name, f"pod {name} is already assigned to node {json_text(held)}")
    body = copy.deepcopy(stored.body)
    body["spec"]["nodeName"] = node
    conditions = [c for c in body["status"].get("conditions") or [] if c["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    body["status"]["conditions"] = [*conditions, scheduled | {"lastTransitionTime": store.now_text()}]
    store.revisions.put(pods.key, (namespace, name), body)


def json_text(text: str) -> str:
    """The text in double quotes."""
    return f'"{text}"'
