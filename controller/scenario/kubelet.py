"""A pod's status as a real kubelet reports it, from a scenario's words.

In: a report, the time, what was reported before. Out: the status in Kubernetes' JSON shape. Never: a clock.
"""

from __future__ import annotations

from typing import Any

from controller.fold.spec import MAIN_CONTAINER
from controller.model.instants import Instant, text_of
from controller.scenario.model import PodReport

SIDECAR, INIT = "sidecar", "init"
Json = dict[str, Any]


def status_of_report(report: PodReport, now: Instant, started_at: Instant | None, restarts_in_pod: bool) -> Json:
    """The status subresource. `started_at` is when the main container began to run, as far as it was reported."""
    status: Json = {"phase": report.phase}
    began = text_of(started_at if started_at is not None else now)
    if report.phase == "Unknown":
        return {**status, "reason": "NodeLost", "message": "Node is not responding"}
    if report.unschedulable:
        status["conditions"] = [_condition("PodScheduled", "False", "Unschedulable", report.unschedulable, now)]
        return status
    if report.phase == "Pending" and not report.waiting and report.init is None:
        return status
    status["conditions"] = [_condition("PodScheduled", "True", "", "", now)]
    if report.pod_reason:
        status["reason"] = report.pod_reason
        if report.message:
            status["message"] = report.message
    if report.disruption:
        status["conditions"].append(_condition("DisruptionTarget", "True", report.disruption, "", now))
    if report.init is not None:
        code = report.init.get("exitCode", 0)
        status["initContainerStatuses"] = [_container(INIT, {"terminated": _ended(code, "", "", began, now)})]
        status["containerStatuses"] = [_container(MAIN_CONTAINER, {"waiting": {"reason": "PodInitializing"}})]
        return status
    main = _main(report, began, now, restarts_in_pod)
    if main is None:
        return status
    status["containerStatuses"] = [main]
    if report.sidecar is not None:
        status["containerStatuses"].append(_sidecar(report.sidecar, began, now))
    return status


def _main(report: PodReport, began: str, now: Instant, restarts_in_pod: bool) -> Json | None:
    code = report.exit_code
    reason = report.reason
    if report.main is not None:
        code = report.main.get("exitCode", code)
        reason = report.main.get("reason", reason)
    if code is None and report.phase == "Succeeded":
        code = 0
    if code is not None:
        state: Json = {"terminated": _ended(code, reason, report.message, began, now)}
        if report.main is not None and "finishedAt" in report.main and not report.main["finishedAt"]:
            del state["terminated"]["finishedAt"]
    elif report.waiting:
        waiting: Json = {"reason": report.waiting}
        if report.message:
            waiting["message"] = report.message
        state = {"waiting": waiting}
    elif report.phase == "Running":
        state = {"running": {"startedAt": began}}
    else:
        return None
    status = _container(MAIN_CONTAINER, state)
    status["restartCount"] = report.restart_count
    if report.restart_count or report.last_exit_code is not None:
        last = 1 if report.last_exit_code is None else report.last_exit_code
        status["lastState"] = {"terminated": _ended(last, report.reason, "", began, now)}
    return status


def _sidecar(report: Any, began: str, now: Instant) -> Json:
    if isinstance(report, dict) and "exitCode" in report:
        return _container(SIDECAR, {"terminated": _ended(report["exitCode"], report.get("reason", ""), "", began, now)})
    return _container(SIDECAR, {"running": {"startedAt": began}})


def _container(name: str, state: Json) -> Json:
    return {"name": name, "restartCount": 0, "ready": "running" in state, "state": state}


def _ended(code: int, reason: str, message: str, began: str, now: Instant) -> Json:
    ended: Json = {
        "exitCode": code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": began,
        "finishedAt": text_of(now),
    }
    if message:
        ended["message"] = message
    return ended


def _condition(kind: str, status: str, reason: str, message: str, now: Instant) -> Json:
    entry = {"type": kind, "status": status, "lastTransitionTime": text_of(now)}
    if reason:
        entry["reason"] = reason
    if message:
        entry["message"] = message
    return entry
