"""The pure player: a scenario's steps against the core, in virtual time (RULES §11).

In: a scenario. Out: what each `expect` gave. Never: a server, a clock, or a second opinion on the rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from controller.fold import JobState
from controller.fold.admission import problems_of
from controller.model.replicas import SlotId
from controller.model.settings import PolicySettings
from controller.scenario.model import Scenario, Step, WrongStep
from controller.scenario.parse import DEFAULT_NAME, DEFAULT_NAMESPACE, microseconds_of, report_of, with_defaults
from controller.scenario.virtual import VirtualController
from controller.scenario.which import OwnObjects, slots_of, slots_wanted
from controller.scenario.world import Held

_SETUP = ("stop", "refuse", "foreign", "linger", "submit")
"""Verbs that may stand before a `create_job` without the job being created in front of them."""


class PurePlayer(VirtualController):
    """Plays one scenario: `run` plays its steps; between them it answers what `compare` asks."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(msgspec.convert(scenario.settings, PolicySettings))
        self.scenario = scenario
        self.manifest = scenario.job
        self.name = (scenario.job.get("metadata") or {}).get("name", DEFAULT_NAME)
        self.namespace = (scenario.job.get("metadata") or {}).get("namespace", DEFAULT_NAMESPACE)

    # --- what `compare` asks ----------------------------------------------------------------------------------------

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

    def objects(self, kind: str) -> dict[SlotId, dict[str, Any]]:
        """Pods or services of the job (of any job that had its name), by slot; terminating ones left out."""
        return {slot: held.body for slot, held in self._own().not_terminating(kind).items()}

    def newest_pod(self, slot: SlotId) -> dict[str, Any] | None:
        """The newest pod of a slot, terminating or not."""
        held = self._own().newest_pod(slot)
        return held.body if held else None

    def notices(self) -> list[str]:
        """Reasons of the Events on the job so far."""
        return self.world.notices

    @staticmethod
    def admission(manifest: Any) -> list[str]:
        """What admission says to a manifest: its refusals, empty when it is accepted."""
        return [str(problem) for problem in problems_of(manifest)]

    def status(self) -> dict[str, Any] | None:
        """The job's status on the API server; of a job that is gone, the last that stood there."""
        held = self.job()
        return held.body.get("status") if held else self.world.last_status

    # --- playing -----------------------------------------------------------------------------------------------------

    def run(self, on_expect: Callable[[Step], None], on_step: Callable[[Step], None] = lambda step: None) -> None:
        """Plays all steps; `on_expect` is called at each `expect` and `submit`, `on_step` after every other one.

        Raises WrongStep (a mistake of the file, with its place) and AssertionError (the core does not come to rest).
        """
        first = next((step.verb for step in self.scenario.steps if step.verb not in _SETUP), "")
        if self.manifest and first != "create_job":
            try:
                self._create(self.manifest)
            except WrongStep as wrong:
                wrong.path = "job"
                raise
            self._settle()
        for step in self.scenario.steps:
            self._play(step, on_expect, on_step)

    def _play(self, step: Step, on_expect: Callable[[Step], None], on_step: Callable[[Step], None]) -> None:
        if step.verb in ("expect", "submit"):
            on_expect(step)
            return
        try:
            if step.verb == "gap":
                self._play_gap(step, on_expect, on_step)
            else:
                self._do(step.verb, step.value)
            self._settle()
        except WrongStep as wrong:
            if not wrong.path:
                wrong.path = f"{step.path}.{step.verb}"
            raise
        on_step(step)

    def _play_gap(self, step: Step, on_expect: Callable[[Step], None], on_step: Callable[[Step], None]) -> None:
        """The watch is cut while the inner steps happen; within an outage or another gap it is cut already."""
        is_cut_here = self.is_watching
        if is_cut_here:
            self._cut()
        for inner in step.value:
            self._play(inner, on_expect, on_step)
        if is_cut_here:
            self._relist()

    def _do(self, verb: str, value: Any) -> None:
        match verb:
            case "pods":
                self._pods(value)
            case "delete":
                for held in self._pods_of(value):
                    self.world.delete_pod(held)
            case "gone":
                for held in self._pods_of(value):
                    self.world.vanish(held)
            case "linger":
                self._linger(value)
            case "after":
                self._pass(microseconds_of(value))
            case "edit":
                self.world.edit_job(self._job_needed(), value)
            case "delete_job":
                self.world.delete_job(self._job_needed())
            case "create_job":
                self._create(self._same() if value == "same" else with_defaults(value))
            case "restart":
                self.history.restart()
            case "stop":
                self._cut()
            case "start":
                self.history.restart()
                self._relist()
            case "refuse":
                self.world.refusals = dict(value)
            case "foreign":
                self._foreign(value)
            case _:
                raise AssertionError(verb)

    def _same(self) -> dict[str, Any]:
        if not self.manifest:
            raise WrongStep("same as what? The file has no job")
        return self.manifest

    def _create(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        self.name, self.namespace = metadata["name"], metadata["namespace"]
        self.world.create_job(manifest)

    def _pods(self, reports: dict[str, Any]) -> None:
        """Reports come one after another. The controller answers each; a pod that it deletes is gone after the step."""
        self.world.holds_deleted = True
        for which, state in reports.items():
            report, own = report_of(state), self._own()
            slots = slots_of(which, own.slots_with_pods())
            if not slots:
                raise WrongStep(f"{which} names no pod to report {_shown(state)} of")
            for slot in slots:
                held = own.newest_pod(slot)
                if held is None:
                    raise WrongStep(f"{slot} has no pod to report {_shown(state)} of")
                self.world.report(held, report)
                self._settle()
        self.world.let_go()

    def _linger(self, which: str) -> None:
        own = self._own()
        known = own.slots_with_pods() | slots_wanted(self.job_body() or self.manifest)
        for slot in slots_of(which, known):
            self.world.linger(self.name, str(slot), own.newest_pod(slot))

    def _foreign(self, what: dict[str, Any]) -> None:
        job = self.job()
        owner = what.get("owner", "none")
        metadata: dict[str, Any] = {
            "name": what["name"],
            "namespace": what.get("namespace", self.namespace),
            "labels": dict(what.get("labels") or {}),
        }
        if owner != "none":
            uid = job.uid if owner == "self" and job else "uid-of-another"
            metadata["ownerReferences"] = [
                {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": self.name, "uid": uid, "controller": True}
            ]
        body: dict[str, Any] = {"metadata": metadata, "spec": {}}
        if what["kind"] == "Pod":
            body["status"] = {"phase": "Pending"}
        held = self.world.add(what["kind"], body)
        self._settle()
        is_there = any(each is held for each in self.world.objects.values())
        if "state" in what and what["kind"] == "Pod" and is_there and what["state"] != "Pending":
            self.world.report(held, report_of(what["state"]))

    def _job_needed(self) -> Held:
        job = self.job()
        if job is None:
            raise WrongStep(f"there is no job {self.name}")
        return job

    def _own(self) -> OwnObjects:
        return OwnObjects(self.world, self.namespace, self.name)

    def _pods_of(self, which: str) -> list[Held]:
        """The newest pod of each slot that is named. Raises WrongStep where there is none."""
        own = self._own()
        slots = slots_of(which, own.slots_with_pods())
        if not slots:
            raise WrongStep(f"{which} names no pod: there is none")
        found = []
        for slot in slots:
            held = own.newest_pod(slot)
            if held is None:
                raise WrongStep(f"{slot} has no pod")
            found.append(held)
        return found


def _shown(state: Any) -> str:
    return state if isinstance(state, str) else json.dumps(state)
