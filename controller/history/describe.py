"""One event in one line of words, for people who read a job's history.

In: an event. Out: (what it is about, what happened). Never: markup, or a control character that somebody else wrote.
"""

from __future__ import annotations

from typing import assert_never

from controller.model import actions, events
from controller.model.instants import text_of
from controller.model.objects import ContainerStatus, Pod, TFJob

SHORT = 200
"""Characters of somebody else's words that one line shows."""


def described(event: events.Event) -> tuple[str, str]:
    """(subject, what happened) of an event."""
    verb = _VERBS.get(event.op, event.op.value.lower())
    match event.fact:
        case events.JobObserved(job=job):
            return f"TFJob {event.name}", f"{verb}{_job(job)}"
        case events.PodObserved(pod=pod):
            return f"Pod {event.name}", f"{verb}: {_pod(pod)}"
        case events.ServiceObserved():
            return f"Service {event.name}", verb
        case events.PodGroupObserved(group=group):
            return f"PodGroup {event.name}", f"{verb}: {(group.status or {}).get('phase', 'no phase')}"
        case events.NoticeObserved(notice=notice):
            about = notice.involved_object
            return f"{about.kind} {about.name}", f"{notice.type} {notice.reason}: {plain(notice.message)}"
        case events.Decided(actions=asked):
            return "controller", "decided: " + ", ".join(_action(action) for action in asked)
        case events.ActionSettled(action=action, outcome=outcome):
            return "controller", f"{_action(action)}: {_outcome(outcome)}"
        case events.TimerFired(timer=timer, due_at=due_at, type=kind, index=index):
            slot = f" of {kind.label}-{index}" if kind is not None else ""
            return "controller", f"timer {timer.value}{slot}, due {text_of(due_at)}"
        case events.GapOpened(resources=resources, reason=reason, from_at=from_at):
            since = f" since {text_of(from_at)}" if from_at else ""
            return "watch", f"gap in {', '.join(resources)}{since}: {reason.value}; a relist follows"
        case events.Synced(resources=resources):
            return "watch", f"{', '.join(resources)} listed and in step again"
        case events.SettingsRecorded():
            return "controller", "settings recorded"
        case events.LeaderElected(holder=holder, epoch=epoch, code_version=code):
            return "controller", f"{holder} leads (epoch {epoch}, version {code})"
        case events.ClockJumped(offset_seconds=offset, is_bad=is_bad):
            return "controller", f"clock off by {offset:.1f} s" if is_bad else "clock right again"
        case _ as never:
            assert_never(never)


_VERBS = {
    events.Op.ADDED: "appeared",
    events.Op.MODIFIED: "changed",
    events.Op.DELETED: "gone",
    events.Op.SYNC_ADDED: "found by a relist",
    events.Op.SYNC_MODIFIED: "found changed by a relist",
    events.Op.SYNC_DELETED: "found gone by a relist",
}


def plain(text: str, limit: int = SHORT) -> str:
    """Somebody else's text on one line: control characters become spaces, what is too long is cut."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _job(job: TFJob) -> str:
    parts = []
    if job.metadata.deletion_timestamp:
        parts.append("being deleted")
    conditions = (job.status or {}).get("conditions") or []
    if conditions and isinstance(conditions[-1], dict):
        parts.append(f"status says {conditions[-1].get('type')}")
    return ": " + ", ".join(parts) if parts else ""


def _pod(pod: Pod) -> str:
    parts = [pod.status.phase]
    if pod.status.reason:
        parts.append(pod.status.reason)
    if pod.spec.node_name:
        parts.append(f"on {pod.spec.node_name}")
    for status in pod.status.container_statuses or ():
        parts += _container(status)
    if pod.metadata.deletion_timestamp:
        parts.append("terminating")
    return ", ".join(parts)


def _container(status: ContainerStatus) -> list[str]:
    parts = []
    state = status.state
    if state and state.waiting and state.waiting.reason:
        parts.append(f"{status.name} waits ({state.waiting.reason})")
    if state and state.terminated:
        ended = state.terminated
        reason = f" {ended.reason}" if ended.reason else ""
        words = f": {plain(ended.message)}" if ended.message else ""
        parts.append(f"{status.name} ended with {ended.exit_code}{reason}{words}")
    if status.restart_count:
        parts.append(f"{status.name} restarted {status.restart_count}×")
    return parts


def _action(action: actions.Action) -> str:
    match action:
        case actions.CreatePod(type=kind, index=index, attempt=attempt):
            return f"create pod {kind.label}-{index} (attempt {attempt})"
        case actions.CreateService(type=kind, index=index):
            return f"create service {kind.label}-{index}"
        case actions.DeletePod(name=name, because=because):
            return f"delete pod {name} ({because.value})"
        case actions.DeleteService(name=name, because=because):
            return f"delete service {name} ({because.value})"
        case actions.DeleteOwned(kind=kind, because=because):
            return f"delete all {kind} of the job ({because.value})"
        case actions.ReleasePod(name=name):
            return f"release pod {name}"
        case actions.PatchStatus():
            return "write status"
        case actions.DeleteJob(because=because):
            return f"delete the job ({because.value})"
        case actions.EmitNotice(reason=reason):
            return f"tell {reason}"
        case actions.CreatePodGroup(min_member=members):
            return f"create PodGroup (min {members})"
        case actions.UpdatePodGroup(min_member=members):
            return f"update PodGroup (min {members})"
        case actions.DeletePodGroup(because=because):
            return f"delete PodGroup ({because.value})"
        case _ as never:
            assert_never(never)


def _outcome(outcome: actions.Outcome) -> str:
    if outcome.result is actions.Result.DONE:
        return "done"
    why = " ".join(part for part in (str(outcome.code or ""), outcome.reason, plain(outcome.message)) if part)
    return f"{outcome.result.value} ({why})" if why else outcome.result.value
