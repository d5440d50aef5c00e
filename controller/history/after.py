"""What came after and beside a job's end: what the controller did then, what others warned of, what a gap hides.

In: a job's events. Out: lines. Never: I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from controller.fold import JobState
from controller.fold.endings import POD_DELETED, POD_LOST_DURING_GAP
from controller.history.describe import plain
from controller.history.ends import Ended
from controller.model import actions
from controller.model.actions import Result
from controller.model.events import ActionSettled, Decided, Event, GapOpened, GapReason, NoticeObserved, Transition
from controller.model.instants import text_of

MOST_NAMES = 8
MOST_WARNINGS = 6
MOST_GAPS = 3


def then_of(state: JobState, events: Sequence[Event], since: int) -> list[str]:
    """What the controller did after position `since`: the end, or what a job that goes on recovers from."""
    asked = [action for event in events if event.position > since for action in _decided(event)]
    groups: OrderedDict[str, list[str]] = OrderedDict()
    for action in asked:
        match action:
            case actions.DeletePod(name=name, because=because):
                groups.setdefault(f"deleted pods ({because.value})", []).append(name)
            case actions.DeleteOwned(kind=kind, because=because):
                groups.setdefault(f"deleted all {kind} of the job ({because.value})", [])
            case actions.DeleteService(because=because):
                groups.setdefault(f"deleted services of slots ({because.value})", [])
            case actions.DeleteJob(because=because):
                groups.setdefault(f"deleted the job ({because.value})", [])
            case actions.CreatePod(type=kind, index=index, attempt=attempt) if attempt > 1:
                groups.setdefault("created the next attempt of", []).append(f"{kind.label}-{index} (attempt {attempt})")
            case _:
                pass
    lines = [f"{what}: {_names(names)}" if names else what for what, names in groups.items()]
    kept = sorted(
        (slot.id.order(), slot.attempt.name)
        for slot in state.slots.values()
        if slot.attempt is not None and not slot.attempt.is_gone and not slot.attempt.stop_asked_at
    )
    if state.has_ended() and not state.is_deleted and kept:
        lines.append(f"kept pods: {_names([name for _, name in kept])}")
    return lines + _refused(events, since)


def _decided(event: Event) -> Iterable[actions.Action]:
    return event.fact.actions if isinstance(event.fact, Decided) else ()


def _refused(events: Sequence[Event], since: int) -> list[str]:
    found = [
        f"was refused {type(fact.action).__name__}: {fact.outcome.reason} {plain(fact.outcome.message)}"
        for event in events
        if event.position > since and isinstance(fact := event.fact, ActionSettled)
        if fact.outcome.result is Result.REFUSED and not isinstance(fact.action, actions.PatchStatus)
        if fact.outcome.reason not in ("NotFound", "NotWanted", "AlreadyExists")
    ]
    return list(dict.fromkeys(found))[-2:]


def _names(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    shown = ", ".join(names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def warnings_of(events: Iterable[Event]) -> list[str]:
    """What others warned of: scheduling, images, memory, evictions; the newest, each once."""
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event.fact, NoticeObserved) and event.fact.notice.type == "Warning":
            notice = event.fact.notice
            about = notice.involved_object
            line = f"{about.kind} {about.name}: {notice.reason}: {plain(notice.message)}"
            found.pop(line, None)
            found[line] = None
    return list(found)[-MOST_WARNINGS:]


def doubts_of(
    events: Iterable[Event], transitions: Iterable[Transition], focus: Ended | None, state: JobState
) -> list[str]:
    """What is only known with a gap, and what is not known at all."""
    doubts = []
    if focus is not None and focus.reason == POD_DELETED and focus.code is not None:
        doubts.append(f"what code {focus.code} of {focus.who()} means, and who deleted its pod: that is only in the API"
                      " server's audit log")  # fmt: skip
    elif focus is not None and focus.reason == POD_DELETED:
        doubts.append(f"the exit code of {focus.who()}: its pod was deleted before its end was seen; who did it is only"
                      " in the API server's audit log")  # fmt: skip
    elif focus is not None and focus.reason == POD_LOST_DURING_GAP:
        doubts.append(f"how {focus.who()} ended: its pod went while the watch had a gap")
    elif focus is not None and focus.by_gap:
        doubts.append(f"when {focus.who()} ended, and whether it was the first: a relist after a gap showed it")
    last = [each for each in transitions if each.status == "True" and each.type in ("Failed", "Succeeded")]
    if last and last[-1].by_gap and not doubts:
        doubts.append("the order of what happened: the end rests on a relist after a gap")
    until = state.completion_time
    gaps = [
        f"what happened from {text_of(fact.from_at)} to {text_of(fact.to_at)}: the watch of"
        f" {', '.join(fact.resources)} had a gap ({fact.reason.value})"
        for event in events
        if isinstance(fact := event.fact, GapOpened) and fact.reason is not GapReason.FIRST_SYNC
        if fact.from_at is not None and (until is None or fact.from_at <= until)
    ]
    return doubts + gaps[-MOST_GAPS:]
