"""One event folded: dispatch over all kinds of facts.

In: a draft, an event, the context. Out: the draft with what the event says. Conditions are decide's.
"""

from __future__ import annotations

from typing import assert_never

from controller.fold.context import Context
from controller.fold.draft import Draft
from controller.fold.groups import lose_unlisted_group, observe_group
from controller.fold.jobs import observe_job
from controller.fold.outcomes import decided, settled
from controller.fold.pods import lose_unlisted_pods, observe_pod
from controller.fold.services import lose_unlisted_services, observe_service
from controller.fold.timers import timer_fired
from controller.model import events
from controller.model.events import Event, GapReason


def apply(draft: Draft, event: Event, context: Context) -> None:
    """Folds an event into the draft."""
    draft.state.position = event.position
    match event.fact:
        case events.PodObserved(pod=pod):
            observe_pod(draft, event, pod, context)
        case events.JobObserved(job=job):
            observe_job(draft, event, job)
        case events.ServiceObserved(service=service):
            observe_service(draft, event, service)
        case events.PodGroupObserved(group=group):
            observe_group(draft, event, group, context.settings.gang_scheduler)
        case events.ActionSettled() as fact:
            settled(draft, event, fact)
        case events.Decided() as fact:
            decided(draft, event, fact)
        case events.TimerFired() as fact:
            timer_fired(draft, fact)
        case events.GapOpened(resources=resources, reason=reason, to_at=since):
            draft.own("relists").update(dict.fromkeys(resources, since))
            if reason is GapReason.CLUSTER_RESTORED:
                # The API server's copy is of another time: the status is written anew (RULES §11).
                draft.state.written_digest = ""
                draft.state.awaits_version_above = 0
                draft.state.is_status_dirty = True
        case events.Synced():
            _listed(draft, event)
        case events.SettingsRecorded() | events.LeaderElected() | events.ClockJumped() | events.NoticeObserved():
            pass
        case _ as never:
            assert_never(never)


def _listed(draft: Draft, event: Event) -> None:
    """All relists are through: what was created before them and was never shown is gone (RULES §11)."""
    relists = draft.state.relists
    if "pods" in relists:
        lose_unlisted_pods(draft, event, relists["pods"])
    if "services" in relists:
        lose_unlisted_services(draft, relists["services"])
    if "podgroups" in relists:
        lose_unlisted_group(draft, relists["podgroups"])
    draft.state.relists = {}
