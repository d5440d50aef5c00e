"""Who waits for whom at the API server: the Lease has its own lane, our bursts have another and queue there.

Source: kubernetes.io/docs/concepts/cluster-administration/flow-control. The Lease goes to `leader-election`, the
priority level that every cluster has for that; by default only kube-system's accounts do.
"""

from __future__ import annotations

from typing import Any

from source.words import LABELS, NAME, Json

API = "flowcontrol.apiserver.k8s.io/v1"


def flow_control() -> list[Json]:
    """One priority level, and two FlowSchemas that come before the one of all service accounts (9000)."""
    level = {
        "apiVersion": API,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": NAME, "labels": dict(LABELS)},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 20,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 100},
                },
            },
        },
    }
    lease = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"], "namespaces": ["*"]}]
    rest = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "clusterScope": True}]
    return [level, _schema(f"{NAME}-lease", "leader-election", 500, lease), _schema(NAME, NAME, 600, rest)]


def _schema(name: str, level: str, precedence: int, rules: list[dict[str, Any]]) -> Json:
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": "default"}}
    return {
        "apiVersion": API,
        "kind": "FlowSchema",
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByNamespace"},
            "rules": [{"subjects": [account], "resourceRules": rules}],
        },
    }
