"""What runs: the controller's Deployment and what stands around it, and the Job that migrates the database before.

Out: objects without a namespace. Sources: Pod Security Standards, restricted; DESIGN §6.
"""

from __future__ import annotations

from source.words import (
    CONTROLLER_LABELS,
    DATABASE_KEY,
    DATABASE_SECRET,
    IMAGE,
    LABELS,
    METRICS_PORT,
    MIGRATION,
    NAME,
    Block,
    Expression,
    Json,
    metadata,
)

NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""A sidecar would keep the Job from ending, and would stand between the controller and the API server."""
USER = 65532
"""The image's own user (Dockerfile)."""
LOG_FORMAT: Json = {"name": "TFJOB_LOG_FORMAT", "value": "json"}
RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
"""Memory: the inbox (64 MiB), the state of some thousand jobs and their watches. No limit on CPU: a throttled leader
loses its Lease."""
MIGRATION_RESOURCES: Json = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}


def deployment() -> Json:
    """Two replicas: one leads, the other stands by. One more is started before one is taken away."""
    spread = {
        "weight": 100,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": dict(CONTROLLER_LABELS)},
            "topologyKey": "kubernetes.io/hostname",
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(NAME),
        "spec": {
            "replicas": Expression(".Values.replicas", 2),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": dict(CONTROLLER_LABELS)},
            "template": {
                "metadata": {"labels": {**LABELS, **CONTROLLER_LABELS, **NO_SIDECAR}},
                "spec": {
                    "serviceAccountName": NAME,
                    "imagePullSecrets": Expression(".Values.imagePullSecrets | toJson", []),
                    "nodeSelector": Expression(".Values.nodeSelector | toJson", {}),
                    "tolerations": Expression(".Values.tolerations | toJson", []),
                    "volumes": Expression(".Values.volumes | toJson", []),
                    "priorityClassName": Expression(".Values.priorityClassName | toJson", ""),
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}},
                    "securityContext": pod_security(),
                    # Longer than a drain: what is committed goes out, and the Lease is given back.
                    "terminationGracePeriodSeconds": 30,
                    "containers": [_controller()],
                },
            },
        },
    }


def migration() -> Json:
    """`tfjob db upgrade`: no API access, ended once the schema is this image's; old controllers run on with it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(MIGRATION),
        "spec": {
            "backoffLimit": 10,
            # A Job cannot be changed: gone by itself, it is not in the next installation's way.
            "ttlSecondsAfterFinished": 600,
            "template": {
                "metadata": {"labels": {**LABELS, "app.kubernetes.io/component": "migration", **NO_SIDECAR}},
                "spec": {
                    "restartPolicy": "OnFailure",
                    "automountServiceAccountToken": False,
                    "imagePullSecrets": Expression(".Values.imagePullSecrets | toJson", []),
                    "securityContext": pod_security(),
                    "containers": [
                        {
                            "name": "migrate",
                            "image": image(),
                            "args": ["db", "upgrade"],
                            "env": [database_url()],
                            "resources": MIGRATION_RESOURCES,
                            "securityContext": container_security(),
                        }
                    ],
                },
            },
        },
    }


def service() -> Json:
    """Where metrics are scraped, of every replica."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "labels": {**LABELS, "app.kubernetes.io/component": "controller"}},
        "spec": {
            "clusterIP": "None",
            "selector": dict(CONTROLLER_LABELS),
            "ports": [{"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"}],
        },
    }


def disruption_budget() -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(NAME),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(CONTROLLER_LABELS)}},
    }


def network_policy() -> Json:
    """In: probes and metrics. Out: names, the API server, Postgres. By port: where they are, the site knows."""
    ports = [("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443), ("TCP", Expression(".Values.database.port", 5432))]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(NAME),
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": METRICS_PORT}]}],
            "egress": [{"ports": [{"protocol": protocol, "port": port} for protocol, port in ports]}],
        },
    }


def image() -> Expression:
    return Expression(".Values.image | toJson", IMAGE)


def database_url() -> Json:
    """The kubelet reads the Secret; the controller's account may not."""
    key = {
        "name": Expression(".Values.database.secretName | toJson", DATABASE_SECRET),
        "key": Expression(".Values.database.secretKey | toJson", DATABASE_KEY),
    }
    return {"name": "TFJOB_DATABASE_URL", "valueFrom": {"secretKeyRef": key}}


def pod_security() -> Json:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Json:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _controller() -> Json:
    return {
        "name": "controller",
        "image": image(),
        "args": ["controller"],
        "env": [database_url(), Block('include "tfjob-controller.settings" .', [LOG_FORMAT])],
        "volumeMounts": Expression(".Values.volumeMounts | toJson", []),
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        # A first start reads the log back, which may take its time; a dead one is replaced.
        "startupProbe": _probe("/livez", periodSeconds=5, failureThreshold=60),
        "livenessProbe": _probe("/livez", periodSeconds=10, failureThreshold=6),
        # /readyz waits two seconds for the log.
        "readinessProbe": _probe("/readyz", periodSeconds=5, failureThreshold=3),
        "resources": Expression(".Values.resources | toJson", RESOURCES),
        "securityContext": container_security(),
    }


def _probe(path: str, **how: int) -> Json:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5, **how}
