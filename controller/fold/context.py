"""What cluster-wide facts leave behind: settings, rules number, whether a relist is under way (DESIGN §3).

In: events in order. Out: the context that a job's events are folded in.
"""

from __future__ import annotations

import msgspec

from controller.model.events import (
    RULES_NUMBER,
    Event,
    GapOpened,
    LeaderElected,
    SettingsRecorded,
    Synced,
)
from controller.model.settings import PolicySettings


class Context(msgspec.Struct, frozen=True):
    """`gap` names the resources that are being listed again; while it is not empty a job's events fold as one."""

    settings: PolicySettings = PolicySettings()
    rules_number: int = RULES_NUMBER
    gap: frozenset[str] = frozenset()

    @property
    def gap_open(self) -> bool:
        return bool(self.gap)


def context_after(context: Context, event: Event) -> Context:
    """The context after an event; the same object where the event says nothing to all jobs."""
    match event.fact:
        case SettingsRecorded(settings=settings):
            return msgspec.structs.replace(context, settings=settings)
        case LeaderElected(rules_number=number):
            return msgspec.structs.replace(context, rules_number=number)
        case GapOpened(resources=resources):
            return msgspec.structs.replace(context, gap=context.gap | set(resources))
        case Synced():
            return msgspec.structs.replace(context, gap=frozenset())
        case _:
            return context
