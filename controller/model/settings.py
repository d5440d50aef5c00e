"""The words for settings that decisions read; they stand in the log, so a replay decides with the same (RULES §11)."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class CleanPodPolicy(StrEnum):
    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class GangScheduler(StrEnum):
    NONE = ""
    VOLCANO = "volcano"
    SCHEDULER_PLUGINS = "scheduler-plugins"


class PolicySettings(msgspec.Struct, frozen=True):
    """Every setting that a decision reads. A field that an old SETTINGS event lacks has the default that stands here,
    and a default, once released, never changes (DESIGN §3)."""

    default_clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """cleanPodPolicy of a v1 job that names none (RULES §6)."""
    gang_scheduler: GangScheduler = GangScheduler.NONE
    pod_finalizer: bool = False
    """Hold ended pods until their end is in the log (DESIGN §6)."""
    cluster_domain: str = ""
    """Suffix of the addresses in TF_CONFIG (RULES §10)."""
