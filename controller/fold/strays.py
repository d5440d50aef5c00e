"""Pods of the job that have no slot, or whose slot has an older live pod: they are to go (RULES §9).

In: a pod event. Out: strays in the draft.
"""

from __future__ import annotations

import msgspec

from controller.fold.draft import Draft
from controller.fold.state import Stray
from controller.model.actions import Because
from controller.model.events import DELETIONS, Event
from controller.model.names import JOB_UID_LABEL, POD_FINALIZER, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from controller.model.objects import Pod

_replace = msgspec.structs.replace


def add_stray(draft: Draft, event: Event, pod: Pod, because: Because) -> None:
    """Takes note of a pod that is to go; of one without a slot its user is told."""
    metadata = pod.metadata
    draft.own("strays")[event.uid] = Stray(
        event.name,
        because,
        has_uid_label=JOB_UID_LABEL in (metadata.labels or {}),
        is_delete_asked=bool(metadata.deletion_timestamp),
        has_finalizer=POD_FINALIZER in (metadata.finalizers or ()),
    )
    if because is Because.INVALID_INDEX:
        labels = pod.metadata.labels or {}
        named = f"{labels.get(REPLICA_TYPE_LABEL, '?')}-{labels.get(REPLICA_INDEX_LABEL, '?')}"
        draft.notify("Warning", "InvalidReplicaIndex", f"Pod {event.name} has no slot ({named[:80]}): it is deleted")


def observe_stray(draft: Draft, event: Event, pod: Pod) -> None:
    """Folds a later observation of such a pod."""
    strays = draft.own("strays")
    if event.op in DELETIONS:
        strays.pop(event.uid, None)
    elif pod.metadata.deletion_timestamp:
        strays[event.uid] = _replace(draft.state.strays[event.uid], is_delete_asked=True)
