"""Who may do what: the controller's own rights, exactly the requests that its code sends, and its users' roles.

Sources: controller/act, controller/watch, controller/kube (lease.py, peer.py). tests/deploy/test_rbac.py compares
these rules with the API server's audit log. Never: Secrets, a wildcard.
"""

from __future__ import annotations

from source.words import LABELS, NAME, Json, metadata

RBAC = "rbac.authorization.k8s.io"

JOB_RULES: list[Json] = [
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["get", "list", "watch", "delete"]},
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/status"], "verbs": ["patch"]},
    # Asked by the admission plugin OwnerReferencesPermissionEnforcement: our pods block their job's deletion.
    {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/finalizers"], "verbs": ["update"]},
    {
        "apiGroups": [""],
        "resources": ["pods", "services"],
        "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch", "create"]},
]
"""Where TFJobs are looked after: in all namespaces, or in one."""
PEER_RULES: list[Json] = [
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "verbs": ["list"],
    },
]
"""To find a training-operator that acts on the same jobs; in one namespace it does without."""
LEASE_RULES: list[Json] = [
    # A creation has no name yet that a rule could test.
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [NAME],
        "verbs": ["get", "update"],
    },
]
GANG_GROUPS = {"volcano": "scheduling.volcano.sh", "scheduler-plugins": "scheduling.x-k8s.io"}
PRIORITY_RULES: list[Json] = [
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["get"]},
]
"""Cluster-wide, with `--gang-scheduler`; without it each PriorityClass counts as 0 in minResources."""
FINALIZER_RULES: list[Json] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
"""With `--pod-finalizer`."""
EVERY_VERB = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def gang_rules(group: str) -> list[Json]:
    """With `--gang-scheduler`: the PodGroups of its API group."""
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    return [{"apiGroups": [group], "resources": ["podgroups"], "verbs": verbs}]


def account() -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME)}


def role(name: str, rules: list[Json]) -> list[Json]:
    """A Role in the installation's namespace, bound to the account."""
    return _bound("Role", name, rules)


def cluster_role(name: str, rules: list[Json]) -> list[Json]:
    """A ClusterRole, bound to the account for all namespaces."""
    return _bound("ClusterRole", name, rules)


def user_roles() -> list[Json]:
    """What Kubernetes' and Kubeflow's admin, edit and view gain: without it a profile's owner cannot make a TFJob.

    `edit` is part of `admin`, and `view` of both, in Kubernetes' own roles and in Kubeflow's.
    """
    edit = [
        {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": EVERY_VERB},
        {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs/status"], "verbs": ["get"]},
    ]
    view = [
        {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs", "tfjobs/status"], "verbs": ["get", "list", "watch"]}
    ]
    return [_aggregated("tfjob-edit", "edit", edit), _aggregated("tfjob-view", "view", view)]


def _aggregated(name: str, into: str, rules: list[Json]) -> Json:
    labels = {
        **LABELS,
        f"{RBAC}/aggregate-to-{into}": "true",
        f"rbac.authorization.kubeflow.org/aggregate-to-kubeflow-{into}": "true",
    }
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": rules,
    }


def _bound(kind: str, name: str, rules: list[Json]) -> list[Json]:
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata(name), "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata(name),
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}],
        },
    ]
