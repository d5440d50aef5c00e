"""The Helm chart: the same objects as templates, values with a schema, and the settings as values.

Out: path below deploy/helm/tfjob-controller → text. `image` has no default: whoever installs says which.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from controller.settings import Settings
from source.monitoring import dashboard_text
from source.parts import OWN_NAMESPACE, PARTS
from source.words import DATABASE_KEY, DATABASE_SECRET, MIGRATION, NAME, RELEASE, ROOT, Json, literal
from source.workload import RESOURCES
from source.yaml_text import MADE, NAMESPACE, plain, template

NOT_VALUES = {
    "database_url": "from a Secret: database.secretName",
    "kubeconfig": "a pod has a service account",
    "context": "a pod has a service account",
}
"""Settings that are no values of the chart, and why."""
CLUSTER_SCOPED = {
    "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration"
}  # fmt: skip
HOOK = {
    "helm.sh/hook": "pre-install,pre-upgrade",
    "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
}
"""The schema is migrated before the roll-out; a failed Job stays, to be read."""
TYPES = {"bool": "boolean", "int": "integer", "float": "number"}


def value_name(setting: str) -> str:
    """`api_qps` → `apiQps`."""
    first, *rest = setting.split("_")
    return first + "".join(each.title() for each in rest)


def values() -> list[tuple[str, str, Json, Any]]:
    """Name, what it is for, its schema, its default (of `settings` apart); the image has none."""
    listed = {"type": "array", "items": {"type": "object"}}
    mapped = {"type": "object"}
    flag = {"type": "boolean"}
    port = {"type": "integer", "minimum": 1, "maximum": 65535}
    name = {"type": "string", "minLength": 1}
    database = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"secretName": name, "secretKey": name, "port": port},
    }
    secret = {"secretName": DATABASE_SECRET, "secretKey": DATABASE_KEY, "port": 5432}
    return [
        ("replicas", "One leads, the others stand by", {"type": "integer", "minimum": 1}, 2),
        ("namespaced", "Look after the release's namespace only, with a Role", flag, False),
        ("crd", "Install the CRD; it stays when the release goes", flag, True),
        ("userRoles", "TFJobs in Kubernetes' and Kubeflow's admin, edit and view", flag, True),
        ("flowControl", "A lane of its own for the Lease at the API server", flag, True),
        ("monitoring", "ServiceMonitor, PrometheusRule (Prometheus operator), dashboard", flag, False),
        ("database", "The Secret with the Postgres URL, and Postgres' port for the NetworkPolicy", database, secret),
        ("resources", "Of the controller", mapped, RESOURCES),
        ("priorityClassName", "Of the controller's pods", {"type": "string"}, ""),
        ("imagePullSecrets", "", listed, []),
        ("nodeSelector", "", mapped, {}),
        ("tolerations", "", listed, []),
        ("volumes", "For a redaction key, or a certificate of Postgres", listed, []),
        ("volumeMounts", "", listed, []),
    ]


def files() -> Iterator[tuple[str, str]]:
    """Every file of the chart."""
    chart = {
        "apiVersion": "v2",
        "name": NAME,
        "description": "A controller for Kubeflow's TFJob that keeps everything it saw",
        "type": "application",
        "version": RELEASE,
        "appVersion": RELEASE,
        "kubeVersion": ">=1.29.0-0",
    }
    yield "Chart.yaml", MADE + plain(chart)
    yield "values.yaml", _values_text()
    yield "values.schema.json", json.dumps(_schema(), indent=2) + "\n"
    yield "files/tfjobs.json", dashboard_text()
    yield "files/tfjob-crd.yaml", (ROOT / "deploy/crd/tfjob.yaml").read_text()
    yield "templates/_settings.tpl", _settings_template()
    yield "templates/crd.yaml", _crd_template()
    for part in PARTS:
        yield f"templates/{part.name}.yaml", template([_placed(each) for each in part.objects], part.condition)


def _placed(found: Json) -> Json:
    """With the release's namespace wherever one is named, and the migration as a hook."""
    placed = _with_namespace(found)
    if found["kind"] not in CLUSTER_SCOPED:
        placed["metadata"] = {**placed["metadata"], "namespace": NAMESPACE}
    if found["metadata"]["name"] == MIGRATION:
        placed["metadata"]["annotations"] = dict(HOOK)
    return placed


def _with_namespace(value: Any) -> Any:
    match value:
        case dict():
            is_place = value.get("kind") == "ServiceAccount" or "namespace" in value
            return {
                key: NAMESPACE if is_place and key == "namespace" and each == "default" else _with_namespace(each)
                for key, each in value.items()
            }
        case list():
            return [_with_namespace(each) for each in value]
        case _:
            return value


def _settings() -> Iterator[tuple[str, Any]]:
    for each in fields(Settings):
        if each.name not in NOT_VALUES:
            yield each.name, each


def _default_of(setting: str) -> Any:
    return "json" if setting == "log_format" else None


def _values_text() -> str:
    lines = [
        MADE.rstrip(),
        "# Which image to run, by tag or digest; required, it has no default.",
        "# image: registry.example/tfjob-controller:" + RELEASE,
    ]
    for name, meaning, _, default in values():
        lines += [f"# {meaning}."] if meaning else []
        lines.append(plain({name: literal(default)}).rstrip())
    lines += ["# The controller's settings (docs/OPERATIONS.md); null: its own default.", "settings:"]
    for setting, each in _settings():
        lines.append(f"  # {each.metadata['unit']}. {each.metadata['reason']}.")
        lines.append(f"  {value_name(setting)}: {json.dumps(_default_of(setting))}")
    return "\n".join(lines) + "\n"


def _schema() -> Json:
    settings: Json = {}
    for setting, each in _settings():
        kind = TYPES.get(str(each.type).split(" | ")[0], "string")
        settings[value_name(setting)] = {
            "type": [kind, "null"],
            "description": f"{each.metadata['unit']}. {each.metadata['reason']}",
        }
    properties: Json = {"image": {"type": "string", "minLength": 1, "description": "Which image to run"}}
    properties |= {name: {**schema, "description": meaning} for name, meaning, schema, _ in values()}
    properties["settings"] = {"type": "object", "additionalProperties": False, "properties": settings}
    # Helm puts `global` into every chart's values.
    properties["global"] = {"type": "object"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["image"],
        "additionalProperties": False,
        "properties": properties,
    }


def _settings_template() -> str:
    own = plain([OWN_NAMESPACE]).rstrip()
    lines = ['{{- define "tfjob-controller.settings" -}}', "{{- if .Values.namespaced }}", own, "{{- end }}"]
    for setting, _ in _settings():
        value = f".Values.settings.{value_name(setting)}"
        is_set = f'not (kindIs "invalid" {value})'
        if setting == "namespace":
            is_set = f"and (not .Values.namespaced) ({is_set})"
        lines += [
            f"{{{{- if {is_set} }}}}",
            f"- name: TFJOB_{setting.upper()}",
            # toJson: large numbers come from YAML as floats and would be written with an exponent.
            f'  value: {{{{ {value} | toJson | trimAll "\\"" | quote }}}}',
            "{{- end }}",
        ]
    return "\n".join([*lines, "{{- end -}}"]) + "\n"


def _crd_template() -> str:
    """The CRD as it is (its rules hold braces), with an annotation that keeps it, and so all jobs, on uninstall."""
    keep = '(dict "helm.sh/resource-policy" "keep")'
    return (
        f"{MADE}{{{{- if .Values.crd }}}}\n"
        '{{- $crd := .Files.Get "files/tfjob-crd.yaml" | fromYaml }}\n'
        f'{{{{- $_ := set $crd.metadata "annotations" {keep} }}}}\n'
        "{{ toYaml $crd }}\n{{- end }}\n"
    )
