"""What a player sees of its job between two steps: the world, and the history of the controller.

In: a world and a history that a player keeps up to date. Out: what `compare` asks, in the same words for every way of
running. Never: a step, a request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from controller.fold import JobState
from controller.history import Answer, why_of
from controller.model.replicas import SlotId
from controller.scenario.history import History
from controller.scenario.model import Scenario
from controller.scenario.parse import DEFAULT_NAME, DEFAULT_NAMESPACE
from controller.scenario.which import OwnObjects
from controller.scenario.world import Held, World

SETUP = ("stop", "refuse", "foreign", "linger", "submit")
"""Verbs that may stand before a `create_job` without the job being created in front of them."""


class Seen(ABC):
    """One scenario's job as it is now. `world` and `history` are the player's to renew."""

    world: World
    history: History

    def __init__(self, scenario: Scenario) -> None:
        metadata = scenario.job.get("metadata") or {}
        self.scenario = scenario
        self.manifest = scenario.job
        self.name: str = metadata.get("name", DEFAULT_NAME)
        self.namespace: str = metadata.get("namespace", DEFAULT_NAMESPACE)

    @property
    def begins_with_job(self) -> bool:
        """The job is created before the first step."""
        first = next((step.verb for step in self.scenario.steps if step.verb not in SETUP), "")
        return bool(self.manifest) and first != "create_job"

    def job(self) -> Held | None:
        """The scenario's job in the world."""
        return self.world.find("TFJob", self.namespace, self.name)

    def job_body(self) -> dict[str, Any] | None:
        """The scenario's job as it is on the API server."""
        held = self.job()
        return held.body if held else None

    def state(self) -> JobState | None:
        """What the core knows of it; of a job that is gone, what it knew last."""
        held = self.job()
        if held is None:
            gone = [uid for uid, place in self.world.jobs.items() if place == (self.namespace, self.name)]
            return self.history.state(gone[-1]) if gone else None
        return self.history.state(held.uid)

    def why(self) -> Answer | None:
        """The answer of `tfjob why` for it; None while no job of that name was seen."""
        state = self.state()
        evidence = self.history.evidence(state.uid) if state else None
        return why_of(evidence) if evidence else None

    def objects(self, kind: str) -> dict[SlotId, dict[str, Any]]:
        """Pods or services of the job (of any job that had its name), by slot; terminating ones left out."""
        return {slot: held.body for slot, held in self.own().not_terminating(kind).items()}

    def newest_pod(self, slot: SlotId) -> dict[str, Any] | None:
        """The newest pod of a slot, terminating or not."""
        held = self.own().newest_pod(slot)
        return held.body if held else None

    def notices(self) -> list[str]:
        """Reasons of the Events on the job so far."""
        return self.world.notices

    def status(self) -> dict[str, Any] | None:
        """The job's status on the API server; of a job that is gone, the last that stood there."""
        held = self.job()
        return held.body.get("status") if held else self.world.last_status

    @abstractmethod
    def admission(self, manifest: Any) -> list[str]:
        """What admission says to a manifest: its refusals, empty when it is accepted."""

    def own(self) -> OwnObjects:
        """The job's pods and services."""
        return OwnObjects(self.world, self.namespace, self.name)
