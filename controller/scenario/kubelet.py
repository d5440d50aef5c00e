"""A pod's status as a real kubelet reports it, from a scenario's words and what it reported before.

In: a report, the time, the status before. Out: the status in Kubernetes' JSON shape. Never: a clock.
"""

from __future__ import annotations

from typing import Any

from controller.fold.spec import MAIN_CONTAINER
from controller.model.instants import Instant, text_of
from controller.scenario.model import PodReport

SIDECAR, INIT = "sidecar", "init"
SIGTERM_CODE = 143
Json = dict[str, Any]


def status_of_report(report: PodReport, now: Instant, before: Json) -> Json:
    """The status subresource. What the words do not say stays as a kubelet would have kept it: `restartCount` and
    `lastState` go on from `before`, a container that runs on keeps its `startedAt`."""
    if report.phase == "Unknown":
        # The node's controller sets the phase; the containers stay as the kubelet reported them last.
        return {**before, "phase": "Unknown", "reason": "NodeLost", "message": "Node is not responding"}
    status: Json = {"phase": report.phase}
    if report.unschedulable:
        status["conditions"] = [_condition("PodScheduled", "False", "Unschedulable", report.unschedulable, now)]
        return status
    if not report.is_bound:
        return status
    status["conditions"] = [_condition("PodScheduled", "True", "", "", now)]
    if report.pod_reason:
        status["reason"] = report.pod_reason
        if report.message:
            status["message"] = report.message
    if report.disruption:
        status["conditions"].append(_condition("DisruptionTarget", "True", report.disruption, "", now))
    if report.init is not None:
        code, reason, message = _words_of(report.init)
        state = {"terminated": _ended(0 if code is None else code, reason, message, now, now)}
        status["initContainerStatuses"] = [_container(INIT, state)]
        status["containerStatuses"] = [_container(MAIN_CONTAINER, {"waiting": {"reason": "PodInitializing"}})]
        return status
    main = _main(report, now, _main_before(before))
    if main is None:
        return status
    status["containerStatuses"] = [main]
    if report.sidecar is not None:
        status["containerStatuses"].append(_container(SIDECAR, _sidecar(report.sidecar, now)))
    return status


def stopped_status(before: Json, now: Instant) -> Json:
    """How a pod ends whose running containers a kubelet stops: by SIGTERM, like a program that does not handle it."""
    report = PodReport(phase="Failed", exit_code=SIGTERM_CODE)
    main = _main_before(before).get("state") or {}
    if "terminated" in main:
        report = report._replace(main={"exitCode": main["terminated"]["exitCode"]})
    return status_of_report(report, now, before)


def _main_before(before: Json) -> Json:
    statuses = before.get("containerStatuses") or ()
    return next((each for each in statuses if each["name"] == MAIN_CONTAINER), {})


def _main(report: PodReport, now: Instant, before: Json) -> Json | None:
    """The main container's status; None when the kubelet knows nothing of it."""
    said = before.get("restartCount", 0)
    count = said if report.restart_count is None else report.restart_count
    began = _began(before, now) if count == said else text_of(now)
    state = _main_state(report, began, now)
    if state is None:
        return None
    ended, known = state.get("terminated"), (before.get("state") or {}).get("terminated")
    if ended and known and count == said and ended["exitCode"] == known["exitCode"]:
        # It ended when it ended: a later report of the same end does not move it.
        ended |= {key: known[key] for key in ("startedAt", "finishedAt") if key in known and key in ended}
    status = _container(MAIN_CONTAINER, state)
    status["restartCount"] = count
    last = _last_end(report, count, said, now, before)
    if last is not None:
        status["lastState"] = {"terminated": last}
    return status


def _main_state(report: PodReport, began: str, now: Instant) -> Json | None:
    main = report.main or {}
    code, reason, message = _words_of(main)
    code = report.exit_code if code is None else code
    if code is None and report.phase == "Succeeded":
        code = 0
    if code is not None:
        ended = _ended(code, reason or report.reason, message or report.message, began, now)
        if "finishedAt" in main and not main["finishedAt"]:
            del ended["finishedAt"]
        return {"terminated": ended}
    if report.waiting:
        waiting = {"reason": report.waiting}
        if report.message:
            waiting["message"] = report.message
        return {"waiting": waiting}
    if report.phase == "Running":
        return {"running": {"startedAt": began}}
    if report.phase == "Pending":
        return {"waiting": {"reason": "ContainerCreating"}}
    return None


def _began(before: Json, now: Instant) -> str:
    """When the container began that was reported before; now when none was."""
    state = before.get("state") or {}
    known = state.get("running") or state.get("terminated") or {}
    return str(known.get("startedAt") or text_of(now))


def _last_end(report: PodReport, count: int, said: int, now: Instant, before: Json) -> Json | None:
    """`lastState.terminated`: kept while nothing restarts, else the end that the restart followed."""
    kept = (before.get("lastState") or {}).get("terminated")
    code = report.last_exit_code
    if count == said and kept is not None and code in (None, kept["exitCode"]):
        return dict(kept)
    if not count and code is None and report.waiting != "CrashLoopBackOff":
        return None
    ended = (before.get("state") or {}).get("terminated")
    if ended is not None and code in (None, ended["exitCode"]):
        return dict(ended)
    return _ended(1 if code is None else code, report.reason, "", _began(before, now), now)


def _sidecar(report: Any, now: Instant) -> Json:
    if isinstance(report, dict) and "exitCode" in report:
        code, reason, message = _words_of(report)
        return {"terminated": _ended(0 if code is None else code, reason, message, now, now)}
    return {"running": {"startedAt": text_of(now)}}


def _words_of(container: Json) -> tuple[int | None, str, str]:
    return container.get("exitCode"), container.get("reason", ""), container.get("message", "")


def _container(name: str, state: Json) -> Json:
    return {"name": name, "restartCount": 0, "ready": "running" in state, "state": state}


def _ended(code: int, reason: str, message: str, began: str | Instant, now: Instant) -> Json:
    ended: Json = {
        "exitCode": code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": began if isinstance(began, str) else text_of(began),
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
