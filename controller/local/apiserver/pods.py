"""What a pod gets when it says nothing, and what it may not say or change.

In: a pod's body after pruning. Out: defaults written in place; causes with field paths.

Rules: k8s.io/kubernetes/pkg/apis/core/v1/defaults.go and …/validation/validation.go of 1.36, as far as a controller
that creates pods can meet them. What is not checked here is accepted.
"""

from __future__ import annotations

from typing import Any

from controller.local.apiserver.failures import Cause, forbidden_field, invalid_value, required
from controller.local.apiserver.metadata import LABEL, name_problem
from controller.local.apiserver.violations import shown

Json = dict[str, Any]

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
# What the DefaultTolerationSeconds admission adds.
_TOLERATIONS = [
    {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def apply_pod_defaults(pod: Json) -> None:
    """Fills in a new pod's defaults."""
    spec = pod.setdefault("spec", {})
    for key, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
        ("enableServiceLinks", True),
        ("securityContext", {}),
    ):
        if spec.get(key) is None or spec.get(key) == "":
            spec[key] = dict(value) if isinstance(value, dict) else value
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        if isinstance(container, dict):
            _apply_container_defaults(container)
    for volume in spec.get("volumes") or []:
        _apply_volume_defaults(volume)


def admit_pod(pod: Json) -> None:
    """Adds what the Priority and DefaultTolerationSeconds admission plugins add."""
    spec = pod["spec"]
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for toleration in _TOLERATIONS:
        if not any(_tolerates(have, str(toleration["key"])) for have in tolerations):
            tolerations.append(dict(toleration))


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key", key) == key and toleration.get("effect", "NoExecute") in ("", "NoExecute")


def _apply_container_defaults(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        tag = container.get("image", "").rpartition("/")[2].partition("@")
        latest = not tag[1] and tag[0].partition(":")[2] in ("", "latest")
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or []:
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10)):
                probe[key] = probe.get(key) or value
            probe["successThreshold"] = probe.get("successThreshold") or 1
            probe["failureThreshold"] = probe.get("failureThreshold") or 3
            if "httpGet" in probe:
                probe["httpGet"].setdefault("scheme", "HTTP")
                probe["httpGet"].setdefault("path", "/")
    requests = container["resources"].get("limits")
    if requests:
        container["resources"]["requests"] = requests | (container["resources"].get("requests") or {})


def _apply_volume_defaults(volume: Json) -> None:
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", 420)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    if len(volume) == 1:
        volume["emptyDir"] = {}


def initial_status(pod: Json) -> Json:
    """The status of a pod that has just been created."""
    return {"phase": "Pending", "qosClass": _qos_class(pod["spec"])}


def _qos_class(spec: Json) -> str:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    asked = [c.get("resources") or {} for c in containers]
    if not any(r.get("requests") or r.get("limits") for r in asked):
        return "BestEffort"
    guaranteed = all(
        (r.get("limits") or {}).get(kind) and (r.get("requests") or {}).get(kind) == (r.get("limits") or {}).get(kind)
        for r in asked
        for kind in ("cpu", "memory")
    )
    return "Guaranteed" if guaranteed else "Burstable"


def pod_causes(pod: Json) -> list[Cause]:
    """What is wrong with a new pod's spec."""
    spec = pod.get("spec") or {}
    found: list[Cause] = []
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    containers = spec.get("containers") or []
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or []):
        found += _name_causes(volume, f"spec.volumes[{index}].name", seen)
    seen = set()
    if not containers:
        found.append(required("spec.containers"))
    for index, container in enumerate(containers):
        found += _container_causes(container, f"spec.containers[{index}]", volumes, seen)
    for index, container in enumerate(spec.get("initContainers") or []):
        found += _container_causes(container, f"spec.initContainers[{index}]", volumes, seen)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        found.append(_unsupported("spec.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES))
    for key in ("hostname", "subdomain"):
        if spec.get(key) and (problem := name_problem(spec[key], "label")):
            found.append(invalid_value(f"spec.{key}", shown(spec[key]), problem))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        text = "must be between 1 and 2147483647, inclusive"
        found.append(invalid_value("spec.activeDeadlineSeconds", shown(deadline), text))
    return found


def _unsupported(path: str, value: Any, options: tuple[str, ...]) -> Cause:
    listed = ", ".join(shown(option) for option in options)
    return Cause(path, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}")


def _name_causes(named: Json, path: str, seen: set[str]) -> list[Cause]:
    name = named.get("name") or ""
    if not name:
        return [required(path)]
    if problem := name_problem(name, "label"):
        return [invalid_value(path, shown(name), problem)]
    if name in seen:
        return [Cause(path, "FieldValueDuplicate", f"Duplicate value: {shown(name)}")]
    seen.add(name)
    return []


def _container_causes(container: Json, path: str, volumes: set[Any], seen: set[str]) -> list[Cause]:
    found = _name_causes(container, f"{path}.name", seen)
    if not container.get("image"):
        found.append(required(f"{path}.image"))
    elif container["image"] != container["image"].strip():
        text = "must not have leading or trailing whitespace"
        found.append(invalid_value(f"{path}.image", shown(container["image"]), text))
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        found.append(_unsupported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES))
    port_names: set[str] = set()
    for index, port in enumerate(container.get("ports") or []):
        found += _port_causes(port, f"{path}.ports[{index}]", port_names)
    for index, variable in enumerate(container.get("env") or []):
        if not variable.get("name"):
            found.append(required(f"{path}.env[{index}].name"))
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if not mount.get("name"):
            found.append(required(f"{path}.volumeMounts[{index}].name"))
        elif mount["name"] not in volumes:
            text = f"Not found: {shown(mount['name'])}"
            found.append(Cause(f"{path}.volumeMounts[{index}].name", "FieldValueNotFound", text))
        if not mount.get("mountPath"):
            found.append(required(f"{path}.volumeMounts[{index}].mountPath"))
    return found


def _port_causes(port: Json, path: str, seen: set[str]) -> list[Cause]:
    found = []
    name = port.get("name")
    if name:
        if not (LABEL.fullmatch(name) and len(name) <= 15 and any(c.isalpha() for c in name)):
            found.append(invalid_value(f"{path}.name", shown(name), "must be no more than 15 characters"))
        elif name in seen:
            found.append(Cause(f"{path}.name", "FieldValueDuplicate", f"Duplicate value: {shown(name)}"))
        seen.add(name)
    number = port.get("containerPort")
    if not number:
        found.append(required(f"{path}.containerPort"))
    elif not 1 <= number <= 65535:
        text = "must be between 1 and 65535, inclusive"
        found.append(invalid_value(f"{path}.containerPort", shown(number), text))
    return found


def complete_status(status: Json) -> None:
    """Adds what a pod's conditions and containers always show, if empty."""
    for condition in status.get("conditions") or []:
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(kind) or []:
            for key, value in (("lastState", {}), ("state", {}), ("image", ""), ("imageID", "")):
                container.setdefault(key, dict(value) if isinstance(value, dict) else value)
            container.setdefault("ready", False)
            container.setdefault("restartCount", 0)


def _deadline_causes(new: int | None, old: int | None) -> list[Cause]:
    path = "spec.activeDeadlineSeconds"
    if old is not None and new is None:
        return [invalid_value(path, "null", "must not update from a positive integer to nil value")]
    if old is not None and new is not None and new > old:
        return [invalid_value(path, shown(new), "must be less than or equal to previous value")]
    return []


def pod_update_causes(new: Json, old: Json) -> list[Cause]:
    """What a pod's update may not change: nearly all of its spec."""

    def frozen(spec: Json) -> Json:
        rest = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")}
        for key in ("containers", "initContainers"):
            if rest.get(key):
                rest[key] = [{k: v for k, v in c.items() if k != "image"} for c in rest[key]]
        if (old["spec"].get("terminationGracePeriodSeconds") or 0) < 0 and rest["terminationGracePeriodSeconds"] == 1:
            rest["terminationGracePeriodSeconds"] = old["spec"]["terminationGracePeriodSeconds"]
        return rest

    for kind in ("containers", "initContainers"):
        if len(new["spec"].get(kind) or []) != len(old["spec"].get(kind) or []):
            text = "pod updates may not add or remove containers"
            return [*pod_causes(new), forbidden_field(f"spec.{kind}", text)]
    found = _deadline_causes(new["spec"].get("activeDeadlineSeconds"), old["spec"].get("activeDeadlineSeconds"))
    kept = old["spec"].get("tolerations") or []
    if any(toleration not in (new["spec"].get("tolerations") or []) for toleration in kept):
        text = "existing toleration can not be modified except its tolerationSeconds"
        found.append(forbidden_field("spec.tolerations", text))
    if frozen(new["spec"]) != frozen(old["spec"]):
        found.append(forbidden_field("spec", _UPDATE_TEXT))
    return found
