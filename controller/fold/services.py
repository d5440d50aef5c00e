"""Services as observed: the slot's own, or the holder of its name (RULES §9, §10).

In: a service event. Out: the slot's service in the draft.
"""

from __future__ import annotations

from controller.fold.draft import Draft, replace_slot
from controller.fold.pods import observe_bystander, slot_of_labels
from controller.fold.state import ServiceSeen
from controller.fold.whose import slot_of_service
from controller.model.events import DELETIONS, Event, Op
from controller.model.names import JOB_UID_LABEL
from controller.model.objects import Service


def observe_service(draft: Draft, event: Event, service: Service) -> None:
    """Folds one observation of a service that belongs to the job, or carries its name."""
    owner = service.metadata.controller()
    if event.op is Op.SYNC_DELETED and owner is None:
        _observe_lost(draft, event, service)
        return
    if owner is None or owner.uid != draft.state.uid:
        observe_bystander(draft, event, "service", service.metadata, None)
        return
    slot_id = slot_of_labels(service.metadata)
    if slot_id is None or (slot_id not in draft.state.slots and slot_id.index >= draft.state.spec.count(slot_id.type)):
        return
    slot = draft.slot(slot_id)
    known = slot.service
    if event.op in DELETIONS:
        if known and known.uid == event.uid:
            draft.put(replace_slot(slot, service=None))
        return
    draft.put(
        replace_slot(
            slot,
            service=ServiceSeen(
                uid=event.uid,
                has_uid_label=JOB_UID_LABEL in (service.metadata.labels or {}),
                is_seen=True,
                is_delete_asked=bool(service.metadata.deletion_timestamp)
                or bool(known and known.uid == event.uid and known.is_delete_asked),
            ),
            is_creating_service=False,
            service_refusal=None,
        )
    )


def lose_unlisted_services(draft: Draft, since: int) -> None:
    """Services that were created before a relist began and that neither it nor the watch ever showed are gone."""
    for slot in list(draft.state.slots.values()):
        if slot.service and not slot.service.is_seen and slot.service.created_at <= since:
            draft.put(replace_slot(slot, service=None))


def _observe_lost(draft: Draft, event: Event, service: Service) -> None:
    """A service that a relist found gone: nothing is known of it but its name and uid."""
    slot = slot_of_service(draft.state, event.name, event.uid)
    if slot is not None:
        draft.put(replace_slot(slot, service=None))
        return
    observe_bystander(draft, event, "service", service.metadata, None)
