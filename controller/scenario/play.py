"""The pure player: a scenario's steps against the core, in virtual time (RULES §11).

In: a scenario. Out: what each `expect` gave. Never: a server, a clock, or a second opinion on the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from controller.fold.admission import problems_of
from controller.model.settings import PolicySettings
from controller.scenario.choose import foreign_body, job_needed, manifest_needed, pods_needed, reports_of
from controller.scenario.model import Scenario, Step, WrongStep
from controller.scenario.parse import microseconds_of, report_of, with_defaults
from controller.scenario.seen import Seen
from controller.scenario.virtual import VirtualController
from controller.scenario.which import slots_of, slots_wanted


class PurePlayer(VirtualController, Seen):
    """Plays one scenario: `run` plays its steps; between them it answers what `compare` asks."""

    def __init__(self, scenario: Scenario) -> None:
        VirtualController.__init__(self, msgspec.convert(scenario.settings, PolicySettings))
        Seen.__init__(self, scenario)

    def admission(self, manifest: Any) -> list[str]:
        """What admission says to a manifest: its refusals, empty when it is accepted."""
        return [str(problem) for problem in problems_of(manifest)]

    def run(self, on_expect: Callable[[Step], None], on_step: Callable[[Step], None] = lambda step: None) -> None:
        """Plays all steps; `on_expect` is called at each `expect` and `submit`, `on_step` after every other one.

        Raises WrongStep (a mistake of the file, with its place) and AssertionError (the core does not come to rest).
        """
        if self.begins_with_job:
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
                for held in pods_needed(self, value):
                    self.world.delete_pod(held)
            case "gone":
                for held in pods_needed(self, value):
                    self.world.vanish(held)
            case "linger":
                self._linger(value)
            case "after":
                self._pass(microseconds_of(value))
            case "edit":
                self.world.edit_job(job_needed(self), value)
            case "delete_job":
                self.world.delete_job(job_needed(self))
            case "create_job":
                self._create(manifest_needed(self) if value == "same" else with_defaults(value))
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

    def _create(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        self.name, self.namespace = metadata["name"], metadata["namespace"]
        self.world.create_job(manifest)

    def _pods(self, reports: dict[str, Any]) -> None:
        """Reports come one after another. The controller answers each; a pod that it deletes is gone after the step."""
        self.world.holds_deleted = True
        for held, report in reports_of(self, reports):
            self.world.report(held, report)
            self._settle()
        self.world.let_go()

    def _linger(self, which: str) -> None:
        own = self.own()
        known = own.slots_with_pods() | slots_wanted(self.job_body() or self.manifest)
        for slot in slots_of(which, known):
            self.world.linger(self.name, str(slot), own.newest_pod(slot))

    def _foreign(self, what: dict[str, Any]) -> None:
        body = foreign_body(self, what, "uid-of-another", self.name) | {"spec": {}}
        if what["kind"] == "Pod":
            body["status"] = {"phase": "Pending"}
        held = self.world.add(what["kind"], body)
        self._settle()
        is_there = any(each is held for each in self.world.objects.values())
        if "state" in what and what["kind"] == "Pod" and is_there and what["state"] != "Pending":
            self.world.report(held, report_of(what["state"]))
