"""Which objects belong together, and when an installation has them: the table from which both layouts are made.

Out: `PARTS`. The condition is Helm's; kustomize chooses by naming components in an overlay.
"""

from __future__ import annotations

from typing import NamedTuple

from source import access, monitoring, workload
from source.flow_control import flow_control
from source.words import NAME, Expression, Json, metadata

GANG = "not (empty .Values.settings.gangScheduler)"
FINALIZER = 'eq (toString .Values.settings.podFinalizer) "true"'
POSTGRES = "tfjob-postgres"


class Part(NamedTuple):
    """Objects that come and go together. `condition`: Helm's; empty: always."""

    name: str
    objects: list[Json]
    condition: str = ""
    patches: tuple[Json, ...] = ()
    """What a kustomize component changes in the base; in the chart the settings do that."""


def env_patch(*entries: Json) -> Json:
    """A patch that adds to the controller's environment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {"template": {"spec": {"containers": [{"name": "controller", "env": list(entries)}]}}},
    }


def _gang(scheduler: str) -> list[Part]:
    name, rules = f"{NAME}-gang", access.gang_rules(access.GANG_GROUPS[scheduler])
    chosen = f'eq (toString .Values.settings.gangScheduler) "{scheduler}"'
    patch = env_patch({"name": "TFJOB_GANG_SCHEDULER", "value": scheduler})
    everywhere = access.cluster_role(name, [*rules, *access.PRIORITY_RULES])
    return [
        Part(f"gang-{scheduler}", everywhere, f"and (not .Values.namespaced) ({chosen})", (patch,)),
        Part(f"gang-{scheduler}-namespaced", access.role(name, rules), f"and .Values.namespaced ({chosen})", (patch,)),
    ]


def _finalizer() -> list[Part]:
    name, rules = f"{NAME}-pod-finalizer", access.FINALIZER_RULES
    patch = env_patch({"name": "TFJOB_POD_FINALIZER", "value": "true"})
    everywhere = access.cluster_role(name, rules)
    return [
        Part("pod-finalizer", everywhere, f"and (not .Values.namespaced) ({FINALIZER})", (patch,)),
        Part("pod-finalizer-namespaced", access.role(name, rules), f"and .Values.namespaced ({FINALIZER})", (patch,)),
    ]


def _base() -> list[Json]:
    return [
        access.account(),
        *access.role(f"{NAME}-lease", access.LEASE_RULES),
        workload.service(),
        workload.disruption_budget(),
        workload.network_policy(),
        workload.migration(),
        workload.deployment(),
    ]


OWN_NAMESPACE: Json = {"name": "TFJOB_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
PARTS: list[Part] = [
    Part("base", _base()),
    Part(
        "all-namespaces", access.cluster_role(NAME, [*access.JOB_RULES, *access.PEER_RULES]), "not .Values.namespaced"
    ),
    Part("one-namespace", access.role(NAME, access.JOB_RULES), ".Values.namespaced", (env_patch(OWN_NAMESPACE),)),
    Part("user-roles", access.user_roles(), ".Values.userRoles"),
    Part("flow-control", flow_control(), ".Values.flowControl"),
    Part(
        "monitoring",
        [
            monitoring.service_monitor(),
            monitoring.prometheus_rule(),
            monitoring.dashboard(Expression('.Files.Get "files/tfjobs.json" | toJson', monitoring.dashboard_text())),
        ],
        ".Values.monitoring",
    ),
    *_gang("volcano"),
    *_gang("scheduler-plugins"),
    *_finalizer(),
]


def postgres() -> Json:
    """Three instances of CloudNativePG; a commit is on two before it counts: the log is the truth."""
    return {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "metadata": metadata(POSTGRES),
        "spec": {
            "instances": 3,
            "bootstrap": {"initdb": {"database": "tfjob", "owner": "tfjob"}},
            "postgresql": {"synchronous": {"method": "any", "number": 1}},
            "storage": {"size": "20Gi"},
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        },
    }


def database_patches() -> tuple[Json, ...]:
    """Take the URL from the Secret that CloudNativePG makes for the owner of the database."""
    reference = {"secretKeyRef": {"name": f"{POSTGRES}-app", "key": "uri"}}
    entry = {"name": "TFJOB_DATABASE_URL", "valueFrom": reference}
    job = workload.migration()
    containers = [{"name": "migrate", "env": [entry]}]
    return (
        env_patch(entry),
        {
            "apiVersion": job["apiVersion"],
            "kind": "Job",
            "metadata": {"name": job["metadata"]["name"]},
            "spec": {"template": {"spec": {"containers": containers}}},
        },
    )
