"""The controller's loops in virtual time: what happened is observed, timers fire, what is asked for is carried out.

In: a world and its changes. Out: the history of it. Never: a clock; it stands for run/, which waits for real ones.
"""

from __future__ import annotations

from controller.decide import is_wanted, status_of
from controller.model.actions import Action, Outcome, PatchStatus, Result
from controller.model.events import ActionSettled, Event, GapOpened, GapReason, Op, SettingsRecorded, Synced
from controller.model.instants import Instant, instant_of
from controller.model.settings import PolicySettings
from controller.scenario.answers import Sender, answer
from controller.scenario.bodies import version_of
from controller.scenario.history import Head, History
from controller.scenario.world import Change, World, is_watched

BEGIN: Instant = instant_of("2026-01-01T00:00:00Z")
TICK: Instant = 10
"""Virtual time between two events, in microseconds: so little that thousands of them do not reach a timer."""
MANY_ROUNDS = 2_000
"""A controller that asks for more in one step than this does not come to rest."""
NOT_WANTED = Outcome(Result.REFUSED, reason="NotWanted")
"""Of an action that is dropped right before it would be sent."""
RESOURCES = ("tfjobs", "pods", "services", "podgroups")


class VirtualController:
    """One controller on one world, with its log in memory."""

    def __init__(self, settings: PolicySettings) -> None:
        self.world = World(settings, BEGIN)
        self.history = History()
        self.is_watching = True
        self._gap_from: Instant = BEGIN
        self.history.append(Op.SETTINGS, SettingsRecorded(settings), BEGIN)

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
        status = status_of(state) if state and isinstance(action, PatchStatus) else {}
        version = state.resource_version if state else 0
        if state is not None and not is_wanted(state, action):
            outcome = NOT_WANTED
        else:
            outcome = answer(self.world, Sender(event.namespace, event.name, uid, status, version), action)
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
            change = Change(op, held.kind, held.version, version_of(held.body))
            self.history.observe(change, self._tick(), op)
        self.history.append(Op.SYNCED, Synced(RESOURCES), self._tick())

    def _observe_gone(self, _uid: str, head: Head) -> None:
        change = Change(Op.SYNC_DELETED, head.kind, head.version, head.body)
        self.history.observe(change, self._tick(), Op.SYNC_DELETED)
