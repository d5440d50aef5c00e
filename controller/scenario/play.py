"""The pure player: a scenario's steps against the core, in virtual time (RULES §11).

In: a scenario. Out: what each `expect` gave. Never: a server, a clock, or a second opinion on the rules.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable
from typing import Any

import msgspec

from controller.decide import status_of
from controller.fold import JobState
from controller.fold.admission import problems_of
from controller.model.actions import Action
from controller.model.events import (
    ActionSettled,
    Event,
    GapOpened,
    GapReason,
    Op,
    SettingsRecorded,
    Synced,
)
from controller.model.instants import Instant, instant_of
from controller.model.replicas import SlotId, slot_of
from controller.model.settings import PolicySettings
from controller.scenario.history import Head, History
from controller.scenario.model import PodReport, Scenario, Step
from controller.scenario.parse import microseconds_of, report_of
from controller.scenario.world import Change, Held, World, WrongStep, is_watched, slot_of_held

BEGIN: Instant = instant_of("2026-01-01T00:00:00Z")
TICK: Instant = 1_000
"""Virtual time between two observations: one millisecond."""
MANY_ROUNDS = 2_000
"""A controller that asks for more in one step than this does not come to rest."""
RESOURCES = ("tfjobs", "pods", "services")
_SETUP = ("stop", "refuse", "foreign", "linger", "submit")


class PurePlayer:
    """Plays one scenario. `run` calls `on_expect(step, player)` at each `expect` and `submit`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        settings = msgspec.convert(scenario.settings, PolicySettings)
        self.world = World(settings, BEGIN)
        self.history = History()
        self.is_watching = True
        self.manifest = scenario.job
        self.name = (scenario.job.get("metadata") or {}).get("name", "")
        self.namespace = (scenario.job.get("metadata") or {}).get("namespace", "")
        self._gap_from: Instant = BEGIN
        self.history.append(Op.SETTINGS, SettingsRecorded(settings), BEGIN)

    # --- what `compare` asks ----------------------------------------------------------------------------------------

    def job(self) -> Held | None:
        """The scenario's job on the API server."""
        return self.world.find("TFJob", self.namespace, self.name)

    def state(self) -> JobState | None:
        """What the core knows of it."""
        job = self.job()
        if job is None:
            return None
        live = self.history.live.get(job.uid)
        return live.state if live else None

    def objects(self, kind: str) -> dict[SlotId, Held]:
        """Pods or services of the job (of any job that had its name), by slot; terminating ones left out."""
        found: dict[SlotId, Held] = {}
        for held in self.world.of_kind(kind):
            slot = slot_of_held(held)
            if slot is not None and not held.is_terminating and self._is_ours(held):
                found[slot] = held
        return found

    def status_in_core(self) -> dict[str, Any]:
        state = self.state()
        return status_of(state) if state else {}

    def notices(self) -> list[str]:
        return self.world.notices

    # --- playing -----------------------------------------------------------------------------------------------------

    def run(self, on_expect: Callable[[Step], None]) -> None:
        """Plays all steps. Raises WrongStep (a mistake of the file) and AssertionError (the core does not settle)."""
        first = next((step.verb for step in self.scenario.steps if step.verb not in _SETUP), "")
        if self.manifest and first != "create_job":
            self._create(self.manifest)
            self._settle()
        for step in self.scenario.steps:
            self._play(step, on_expect)

    def _play(self, step: Step, on_expect: Callable[[Step], None]) -> None:
        match step.verb:
            case "expect":
                on_expect(step)
            case "submit":
                on_expect(step)
            case "pods":
                self._pods(step.value)
            case "delete":
                for held in self._pods_of(step.value):
                    self.world.delete_pod(held)
            case "gone":
                for held in self._pods_of(step.value):
                    self.world.vanish(held)
            case "linger":
                self._linger(step.value)
            case "after":
                self._pass(microseconds_of(step.value))
            case "edit":
                self.world.edit_job(self._job_needed(), step.value)
            case "delete_job":
                self.world.delete_job(self._job_needed())
            case "create_job":
                self._create(step.value or self.manifest)
            case "restart":
                self.history.restart()
            case "stop":
                self._cut()
            case "start":
                self._relist()
            case "gap":
                self._cut()
                for inner in step.value:
                    self._play(inner, on_expect)
                self._relist()
            case "refuse":
                self.world.refusals = dict(step.value)
            case "foreign":
                self._foreign(step.value)
            case _:
                raise AssertionError(step.verb)
        self._settle()

    def _create(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        self.name, self.namespace = metadata["name"], metadata["namespace"]
        self.world.create_job(manifest)

    def _pods(self, reports: dict[str, Any]) -> None:
        """Reports come one after another. The controller answers each; a pod that it deletes is gone after the step."""
        self.world.holds_deleted = True
        for which, state in reports.items():
            report = report_of(state)
            for slot in self._slots_of(which):
                held = self._pod_of(slot)
                if held is None:
                    raise WrongStep(f"{slot} has no pod to report {state!r} of")
                self.world.report(held, report)
                self._settle()
        self.world.let_go()

    def _linger(self, which: str) -> None:
        for slot in self._slots_of(which, also_absent=True):
            self.world.linger(self.name, str(slot), self._pod_of(slot))

    def _foreign(self, what: dict[str, Any]) -> None:
        job = self.job()
        owner = what.get("owner", "none")
        metadata: dict[str, Any] = {
            "name": what["name"],
            "namespace": what.get("namespace", self.namespace or "team-a"),
            "labels": dict(what.get("labels") or {}),
        }
        if owner != "none":
            uid = job.uid if owner == "self" and job else "uid-of-another"
            metadata["ownerReferences"] = [
                {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": self.name, "uid": uid, "controller": True}
            ]
        body: dict[str, Any] = {"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}}
        held = self.world.add(what["kind"], body)
        self._settle()
        if "state" in what and what["kind"] == "Pod" and self._still(held):
            report = report_of(what["state"])
            if report != PodReport(phase="Pending", is_bound=False):
                self.world.report(held, report)

    def _still(self, held: Held) -> bool:
        return any(each is held for each in self.world.objects.values())

    def _job_needed(self) -> Held:
        job = self.job()
        if job is None:
            raise WrongStep(f"there is no job {self.name}")
        return job

    # --- whose pods --------------------------------------------------------------------------------------------------

    def _is_ours(self, held: Held) -> bool:
        return held.owner_uid in self.world.job_uids and held.metadata.get("namespace") == self.namespace

    def _pod_of(self, slot: SlotId) -> Held | None:
        """The newest existing pod of a slot, of this job or of an older one of its name; never a foreign one."""
        found = [held for held in self.world.of_kind("Pod") if slot_of_held(held) == slot and self._is_ours(held)]
        named = [held for held in found if held.metadata["name"] == f"{self.name}-{slot}"]
        return max(named or found, key=lambda held: held.uid, default=None)

    def _pods_of(self, which: str) -> list[Held]:
        found = []
        for slot in self._slots_of(which):
            held = self._pod_of(slot)
            if held is None:
                raise WrongStep(f"{slot} has no pod")
            found.append(held)
        return found

    def _slots_of(self, which: str, *, also_absent: bool = False) -> list[SlotId]:
        """The slots that a pattern names, in the order Chief, Master, PS, Worker, Evaluator, then index."""
        existing = {
            slot
            for held in self.world.of_kind("Pod")
            if self._is_ours(held) and (slot := slot_of_held(held)) is not None
        }
        if also_absent and (state := self.state()) is not None:
            existing |= {SlotId(each.type, index) for each in state.spec.replicas for index in range(each.count)}
        chosen: list[SlotId] = []
        for part in (each.strip() for each in which.split(",")):
            if part == "*" or part.endswith("-*"):
                found = sorted((s for s in existing if fnmatch.fnmatch(str(s), part)), key=SlotId.order)
            elif ".." in part:
                kind, _, span = part.rpartition("-")
                low, _, high = span.partition("..")
                found = [s for i in range(int(low), int(high) + 1) if (s := slot_of(f"{kind}-{i}")) is not None]
            else:
                one = slot_of(part)
                found = [one] if one is not None else []
            chosen += [slot for slot in found if slot not in chosen]
        return chosen

    # --- time and the controller -------------------------------------------------------------------------------------

    def _tick(self) -> Instant:
        self.world.now += TICK
        return self.world.now

    def _settle(self) -> None:
        """Delivers what happened and carries out what is asked for, until nothing more comes."""
        if not self.is_watching:
            self.world.drop_changes()
            return
        for _ in range(MANY_ROUNDS):
            while self.world.changes:
                self.history.observe(self.world.changes.pop(0), self._tick())
            due = self.history.due(self.world.now)
            if due is not None:
                self.history.fire(*due, self._tick())
            asked = self.history.decide(self._tick())
            for event, uid, action, ordinal in asked:
                self._carry_out(event, uid, action, ordinal)
            if not asked and due is None and not self.world.changes:
                return
        raise AssertionError("the controller does not come to rest")

    def _carry_out(self, event: Event, uid: str, action: Action, ordinal: int) -> None:
        live = self.history.live.get(uid)
        state = live.state if live else None
        status = status_of(state) if state else {}
        job = self.world.find("TFJob", event.namespace, event.name)
        version = state.resource_version if state else 0
        outcome = self.world.carry_out(job, uid, action, status, version)
        self.history.settle(uid, ActionSettled(event.position, ordinal, 1, action, outcome), self._tick())

    def _pass(self, microseconds: int) -> None:
        """Time passes; timers fire in the order in which they fall due, unless nobody watches."""
        until = self.world.now + microseconds
        while self.is_watching and (due := self.history.due(until)) is not None:
            self.world.now = max(self.world.now, due[1].due_at)
            self.history.fire(*due, self.world.now)
            self._settle()
        self.world.now = max(self.world.now, until)

    def _cut(self) -> None:
        self._settle()
        self.is_watching = False
        self._gap_from = self.world.now

    def _relist(self) -> None:
        """The relist after a gap: GAP, what differs from the heads, SYNCED."""
        self.world.drop_changes()
        self.is_watching = True
        gap = GapOpened(RESOURCES, GapReason.EXPIRED, self._gap_from, self.world.now)
        self.history.append(Op.GAP, gap, self._tick())
        present = {held.uid: held for held in self.world.objects.values() if is_watched(held)}
        for uid, head in self.history.vanished(present):
            self._observe_gone(uid, head)
        for held in sorted(present.values(), key=lambda each: each.kind != "TFJob"):
            op = Op.SYNC_MODIFIED if held.uid in self.history.heads else Op.SYNC_ADDED
            change = Change(op, held.kind, held.version, copy.deepcopy(held.body))
            self.history.observe(change, self._tick(), op)
        self.history.append(Op.SYNCED, Synced(RESOURCES), self._tick())

    def _observe_gone(self, _uid: str, head: Head) -> None:
        change = Change(Op.SYNC_DELETED, head.kind, head.version, head.body)
        self.history.observe(change, self._tick(), Op.SYNC_DELETED)

    @staticmethod
    def admission(manifest: Any) -> list[str]:
        """What admission says to a manifest: its refusals, empty when it is accepted."""
        return [str(problem) for problem in problems_of(manifest)]
