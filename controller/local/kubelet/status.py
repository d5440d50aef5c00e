"""From the records of a pod's containers to the pod status that a real kubelet would report. Pure.

In: records, the pod's restart policy, the conditions reported before. Out: the status' fields that a kubelet owns.
Never: a clock; instants are handed in.

Rules: getPhase and convertToAPIContainerStatuses in k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go of 1.36, the
conditions in pkg/kubelet/status/generate.go, the last status of a deleted pod in status_manager.go (TerminatePod).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from controller.local.kubelet.records import ContainerRecord, ContainerState, Running, Terminated, Waiting
from controller.model.instants import Instant, text_of

__all__ = ["HOST_IP", "OWN_CONDITIONS", "lost_containers_ended", "phase_of", "status_of"]

Json = dict[str, Any]

HOST_IP = "127.0.0.1"
OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
# A real kubelet writes this end when it is asked to remove a container that it cannot find.
_LOST_CODE, _LOST_REASON = 137, "ContainerStatusUnknown"
_LOST_MESSAGE = "The container could not be located when the pod was terminated"


def phase_of(
    restart_policy: str,
    init_records: Sequence[ContainerRecord],
    records: Sequence[ContainerRecord],
    *,
    is_terminal: bool = False,
) -> str:
    """Pending, Running, Succeeded or Failed. `is_terminal`: nothing of the pod will run again (it was deleted)."""
    init_failed = any(record.end is not None and record.end.exit_code != 0 for record in init_records)
    if init_failed and (restart_policy == "Never" or is_terminal):
        return "Failed"
    is_initialized = all(isinstance(r.state, Terminated) and r.state.exit_code == 0 for r in init_records)
    ends = [record.end for record in records]
    if not is_terminal:
        has_not_started = any(isinstance(record.state, Waiting) and record.last is None for record in records)
        if not is_initialized or has_not_started:
            return "Pending"
        if any(end is None for end in ends) or restart_policy == "Always":
            return "Running"
    if all(end is not None and end.exit_code == 0 for end in ends):
        return "Succeeded"
    return "Failed" if is_terminal or restart_policy == "Never" else "Running"


def lost_containers_ended(records: Sequence[ContainerRecord], finished_at: Instant) -> list[ContainerRecord]:
    """The same records, where each container that is neither running nor ended is ended as the kubelet says it of
    one that it cannot find. For the last status of a deleted pod."""
    return [
        replace(
            record,
            state=record.last
            if record.last is not None
            else Terminated(_LOST_CODE, _LOST_REASON, _LOST_MESSAGE, 0, finished_at, ""),
            last=None,
        )
        if isinstance(record.state, Waiting)
        else record
        for record in records
    ]


def status_of(
    restart_policy: str,
    conditions: Sequence[Json],
    init_records: Sequence[ContainerRecord],
    records: Sequence[ContainerRecord],
    *,
    started_at: Instant,
    now: Instant,
    is_terminal: bool = False,
) -> Json:
    """The fields of a pod's status that a kubelet writes.

    `conditions` are those reported before: those of other writers stay, and one of ours whose status stays keeps its
    lastTransitionTime.
    """
    phase = phase_of(restart_policy, init_records, records, is_terminal=is_terminal)
    address = {"hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}], "podIP": HOST_IP, "podIPs": [{"ip": HOST_IP}]}
    status = {
        **address,
        "phase": phase,
        "startTime": text_of(started_at),
        "conditions": _conditions(conditions, phase, init_records, records, now),
        "containerStatuses": [_container_status(record, is_init=False) for record in records],
    }
    if init_records:
        status["initContainerStatuses"] = [_container_status(record, is_init=True) for record in init_records]
    return status


def _container_status(record: ContainerRecord, *, is_init: bool) -> Json:
    is_running = isinstance(record.state, Running)
    is_done = isinstance(record.state, Terminated) and record.state.exit_code == 0
    latest = record.state if isinstance(record.state, Running | Terminated) else record.last
    return {
        "name": record.name,
        "image": record.image,
        "imageID": "",
        "containerID": latest.container_id if latest is not None else "",
        "ready": is_done if is_init else is_running,
        "started": is_running and not is_init,
        "restartCount": record.restart_count,
        "state": _state(record.state),
        "lastState": _state(record.last) if record.last is not None else {},
    }


def _state(state: ContainerState) -> Json:
    match state:
        case Waiting():
            waiting = {"reason": state.reason}
            if state.message:
                waiting["message"] = state.message
            return {"waiting": waiting}
        case Running():
            return {"running": {"startedAt": text_of(state.started_at)}}
        case Terminated():
            terminated: Json = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": text_of(state.started_at),
                "finishedAt": text_of(state.finished_at),
            }
            if state.container_id:
                terminated["containerID"] = state.container_id
            if state.message:
                terminated["message"] = state.message
            return {"terminated": terminated}
        case _:
            assert_never(state)


def _conditions(
    before: Sequence[Json],
    phase: str,
    init_records: Sequence[ContainerRecord],
    records: Sequence[ContainerRecord],
    now: Instant,
) -> list[Json]:
    not_initialized = [r.name for r in init_records if not (isinstance(r.state, Terminated) and r.state.exit_code == 0)]
    unready = [record.name for record in records if not isinstance(record.state, Running)]
    readiness: Json = {"status": "True"}
    if phase in ("Succeeded", "Failed"):
        readiness = {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready:
        words = f"containers with unready status: [{' '.join(unready)}]"
        readiness = {"status": "False", "reason": "ContainersNotReady", "message": words}
    initialized: Json = {"status": "True"}
    if phase == "Succeeded":
        initialized = {"status": "True", "reason": "PodCompleted"}
    elif not_initialized:
        words = f"containers with incomplete status: [{' '.join(not_initialized)}]"
        initialized = {"status": "False", "reason": "ContainersNotInitialized", "message": words}
    ours: dict[str, Json] = {
        "PodReadyToStartContainers": {"status": "True" if phase in ("Pending", "Running") else "False"},
        "Initialized": initialized,
        "Ready": readiness,
        "ContainersReady": readiness,
        "PodScheduled": {"status": "True"},
    }
    known = {condition["type"]: condition for condition in before}
    result = []
    for kind in OWN_CONDITIONS:
        condition = ours[kind]
        old = known.get(kind)
        is_same = old is not None and old["status"] == condition["status"] and old.get("lastTransitionTime")
        transition = old["lastTransitionTime"] if old is not None and is_same else text_of(now)
        result.append({"type": kind, **condition, "lastProbeTime": None, "lastTransitionTime": transition})
    return [*result, *(condition for condition in before if condition["type"] not in OWN_CONDITIONS)]
