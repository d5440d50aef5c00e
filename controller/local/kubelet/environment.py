"""A container's command, arguments and environment, as its process gets them. Pure.

In: the container and pod as API objects, the ConfigMaps and Secrets that they name, where their mounts really lie.
Out: words and variables with every reference resolved. Never: this process's own environment.

Rules: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables and, for
$(NAME), k8s.io/kubernetes/third_party/forked/golang/expansion.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from controller.local.kubelet.status import HOST_IP

__all__ = ["MissingReference", "Sources", "environment_of", "expanded", "field_of", "rewritten", "sources_named_by"]

Json = dict[str, Any]
Sources = Mapping[tuple[str, str], Json | None]
"""(plural, name) → the ConfigMap or Secret; None if the API server has none of that name."""

_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
# A path in a word ends where a letter of a file's name cannot go on, and does not begin inside another path.
_BEFORE_A_PATH, _AFTER_A_PATH = r"(?<![\w./-])", r"(?![\w.-])"


class MissingReference(Exception):
    """Something that the container refers to is not there; the words are those of a kubelet."""


def sources_named_by(container: Json) -> set[tuple[str, str]]:
    """The ConfigMaps and Secrets that the container's environment refers to, as (plural, name)."""
    named = set()
    for variable in container.get("env") or []:
        value_from = variable.get("valueFrom") or {}
        for key, plural in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
            if value_from.get(key):
                named.add((plural, value_from[key]["name"]))
    for source in container.get("envFrom") or []:
        for key, plural in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if source.get(key):
                named.add((plural, source[key]["name"]))
    return named


def environment_of(container: Json, pod: Json, sources: Sources) -> dict[str, str]:
    """The variables that `envFrom` and `env` define, in order, with $(NAME) expanded by those before.

    Raises MissingReference for a ConfigMap, Secret, key or field that is not there and is not optional.
    """
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        key, plural = ("configMapRef", "configmaps") if source.get("configMapRef") else ("secretRef", "secrets")
        reference = source.get(key) or {}
        data = _data_of(plural, reference, pod, sources)
        variables.update({source.get("prefix", "") + name: value for name, value in data.items()})
    for variable in container.get("env") or []:
        value_from = variable.get("valueFrom")
        if not value_from:
            variables[variable["name"]] = expanded(variable.get("value") or "", variables)
        elif (value := _referred_value(value_from, pod, sources)) is not None:
            variables[variable["name"]] = value
    return variables


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`text` with each $(NAME) replaced; $$ stands for $; a name that is not defined stays as it is written."""

    def value_of(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value_of, text)


def rewritten(text: str, places: Mapping[str, str]) -> str:
    """`text` with each path at or below a mount path (a key of `places`) led to where the mount really lies."""
    mounts = sorted((mount.rstrip("/") for mount in places if mount.rstrip("/")), key=len, reverse=True)
    if not mounts:
        return text
    by_mount = {mount.rstrip("/"): real for mount, real in places.items()}
    pattern = _BEFORE_A_PATH + "(" + "|".join(map(re.escape, mounts)) + ")" + _AFTER_A_PATH
    return re.sub(pattern, lambda match: by_mount[match[1]], text)


def field_of(pod: Json, path: str) -> str:
    """The value of a `fieldRef` path. Raises MissingReference for a path that a pod does not offer."""
    metadata, spec = pod["metadata"], pod["spec"]
    if (keyed := _KEYED_FIELD.fullmatch(path)) is not None:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": HOST_IP,
        "status.hostIPs": HOST_IP,
        "status.podIP": HOST_IP,
        "status.podIPs": HOST_IP,
    }
    if path not in values:
        raise MissingReference(f"field {path!r} of a pod is not offered")
    return str(values[path])


def _referred_value(value_from: Json, pod: Json, sources: Sources) -> str | None:
    """The value, or None for an optional one that is not there (the variable is then not set)."""
    if value_from.get("fieldRef"):
        return field_of(pod, value_from["fieldRef"]["fieldPath"])
    for key, plural, kind in (
        ("configMapKeyRef", "configmaps", "ConfigMap"),
        ("secretKeyRef", "secrets", "Secret"),
    ):
        if reference := value_from.get(key):
            data = _data_of(plural, reference, pod, sources)
            if reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            namespace = pod["metadata"]["namespace"]
            raise MissingReference(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
    # resourceFieldRef: there is no limit to tell of, and what a process cannot honour is said elsewhere.
    return None


def _data_of(plural: str, reference: Json, pod: Json, sources: Sources) -> dict[str, str]:
    source = sources.get((plural, reference["name"]))
    if source is None:
        if reference.get("optional"):
            return {}
        raise MissingReference(f'{plural.removesuffix("s")} "{reference["name"]}" not found')
    data: dict[str, str] = source.get("data") or {}
    if plural == "secrets":
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
    return data
