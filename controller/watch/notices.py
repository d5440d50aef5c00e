"""API server → observations: which job a core/v1 Event is about; the others are no concern of ours.

In: notices, and the known objects. Out: the notice with its job, now or when its pod is first seen.
Never: an input of a decision; a notice of our own (it stands in the log as an action).
"""

from __future__ import annotations

import re
from collections import OrderedDict

import msgspec

from controller.model.events import NoticeObserved
from controller.model.names import OPERATOR_NAME
from controller.watch.heads import Heads
from controller.watch.normalise import Owner
from controller.watch.observation import Observation

HELD_NOTICES = 256
"""The scheduler can speak of a pod before the pod's own watch has shown it; other people's pods are held as well,
until so many newer ones came."""

_OURS = re.compile(rb'"kind":\s*"(?:Pod|TFJob)"')


def may_concern_us(line: bytes) -> bool:
    """False for a watch line that is about neither a pod nor a TFJob: it is not even decoded."""
    return _OURS.search(line) is not None or b'"BOOKMARK"' in line or b'"ERROR"' in line


class Notices:
    """Finds the job of each notice."""

    def __init__(self, pods: Heads) -> None:
        self._pods = pods
        self._held: OrderedDict[str, Observation] = OrderedDict()
        """By the notice's own uid, oldest first."""

    def routed(self, seen: Observation) -> Observation | None:
        """The notice with its job; None when it is not ours, or not yet."""
        if not isinstance(seen.fact, NoticeObserved):
            return None
        notice = seen.fact.notice
        about = notice.involved_object
        if notice.type != "Warning" or notice.reporting_component == OPERATOR_NAME:
            return None
        if about.kind == "TFJob":
            return msgspec.structs.replace(seen, job_uid=about.uid or None, job_name=about.name or None)
        if about.kind != "Pod" or not about.uid:
            return None
        owner = self._pods.owner(about.uid)
        if owner is not None:
            return _with(seen, owner)
        self._held[seen.uid] = seen
        self._held.move_to_end(seen.uid)
        if len(self._held) > HELD_NOTICES:
            self._held.popitem(last=False)
        return None

    def released(self, pod: Observation) -> list[Observation]:
        """The held notices about a pod that has just been seen."""
        if not self._held:
            return []
        found = [
            each
            for each in self._held.values()
            if isinstance(each.fact, NoticeObserved) and each.fact.notice.involved_object.uid == pod.uid
        ]
        for each in found:
            del self._held[each.uid]
        return [_with(each, Owner(pod.job_uid, pod.job_name)) for each in found]


def _with(seen: Observation, owner: Owner) -> Observation:
    return msgspec.structs.replace(seen, job_uid=owner.job_uid, job_name=owner.job_name)
