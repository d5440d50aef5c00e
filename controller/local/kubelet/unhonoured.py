"""What a pod asks for and a process of this machine cannot have: in plain words, to be said once a job. Pure."""

from __future__ import annotations

from typing import Any

__all__ = ["unhonoured_by_process"]

Json = dict[str, Any]

_HONOURED_VOLUMES = ("configMap", "emptyDir", "hostPath", "secret")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOST_SHARING = ("hostNetwork", "hostPID", "hostIPC")


def unhonoured_by_process(pod: Json) -> list[str]:
    """One phrase for each wish of the pod's spec that is not carried out, in the order of the spec."""
    spec = pod["spec"]
    phrases = []
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        name = container["name"]
        limits = (container.get("resources") or {}).get("limits") or {}
        if limits:
            words = ", ".join(f"{resource}={amount}" for resource, amount in sorted(limits.items()))
            phrases.append(f"limits of container {name} ({words}): the process may use all that the machine has")
        probes = [probe for probe in _PROBES if container.get(probe)]
        if probes:
            phrases.append(f"{', '.join(probes)} of container {name}: ready means running")
        if container.get("lifecycle"):
            phrases.append(f"lifecycle hooks of container {name}")
        if container.get("securityContext"):
            phrases.append(f"securityContext of container {name}: it runs as this user")
        if container.get("volumeDevices"):
            phrases.append(f"volumeDevices of container {name}")
        if container.get("restartPolicy"):
            phrases.append(f"restartPolicy of container {name}: the pod's own holds")
    for volume in spec.get("volumes") or []:
        kinds = [key for key in volume if key != "name"]
        if "persistentVolumeClaim" in kinds:
            claim = volume["persistentVolumeClaim"]["claimName"]
            phrases.append(f"volume {volume['name']} (claim {claim}): an empty folder that the job's pods share")
        elif kinds and kinds[0] not in _HONOURED_VOLUMES:
            phrases.append(f"volume {volume['name']} ({kinds[0]}): an empty folder")
    phrases.extend(f"{key}: there are no namespaces between processes" for key in _HOST_SHARING if spec.get(key))
    if any(value for value in (spec.get("securityContext") or {}).values()):
        phrases.append("securityContext of the pod: it runs as this user")
    phrases.extend(f"{key}: there is one node" for key in ("nodeSelector", "affinity") if spec.get(key))
    if spec.get("activeDeadlineSeconds"):
        phrases.append("activeDeadlineSeconds of the pod (that of the job is honoured)")
    return phrases
