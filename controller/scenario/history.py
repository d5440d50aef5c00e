"""The log of a pure run: events with positions in memory, heads, and the live states folded from them.

In: changes of the world, timers, outcomes. Out: states and actions. It is what run/project.py does with Postgres:
every event is folded at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.decide import advance, is_over, restored
from controller.fold import Context, JobState, context_after, decode_state, encode_state
from controller.history import Evidence
from controller.log import AttemptRow
from controller.model.actions import Action
from controller.model.events import (
    ActionSettled,
    AnyFact,
    ClusterFact,
    Decided,
    Event,
    JobObserved,
    Op,
    PodGroupObserved,
    PodObserved,
    ServiceObserved,
    Timer,
    TimerFired,
    Transition,
)
from controller.model.instants import Instant
from controller.model.objects import Pod, PodGroup, TFJob
from controller.run.route import Routes
from controller.run.rows import attempt_row
from controller.scenario.bodies import typed
from controller.scenario.world import Change, Held


@dataclass(slots=True)
class Live:
    """One job as its projector has it."""

    state: JobState
    wanted: tuple[Action, ...] = ()
    timers: tuple[Timer, ...] = ()


@dataclass(slots=True)
class Head:
    kind: str
    version: int
    body: dict[str, object]


@dataclass(slots=True)
class History:
    """An event log and its projection. `transitions` are kept for the report, with `attempts` for the answer to why."""

    context: Context = field(default_factory=Context)
    events: list[Event] = field(default_factory=list)
    live: dict[str, Live] = field(default_factory=dict)
    over: dict[str, JobState] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)
    transitions: list[tuple[str, Transition]] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    _routes: Routes = field(default_factory=Routes)
    _position: int = 0

    def state(self, uid: str) -> JobState | None:
        """What is known of a job, alive or over."""
        return self.live[uid].state if uid in self.live else self.over.get(uid)

    def evidence(self, uid: str) -> Evidence | None:
        """What `tfjob why` is asked with, of one job; None of a job that never was."""
        state = self.state(uid)
        if state is None:
            return None
        rows = {(row.type, row.index, row.attempt): row for row in self.attempts if row.job_uid == uid}
        return Evidence(
            state=state,
            settings=self.context.settings,
            transitions=[each for owner, each in self.transitions if owner == uid],
            attempts=list(rows.values()),
            events=[event for event in self.events if event.job_uid == uid or isinstance(event.fact, ClusterFact)],
        )

    def append(self, op: Op, fact: AnyFact, at: Instant, *, uid: str = "", **envelope: object) -> Event:
        """Appends one event and folds it."""
        self._position += 1
        event = Event(position=self._position, observed_at=at, op=op, fact=fact, uid=uid, **envelope)  # type: ignore[arg-type]
        self.take(event)
        return event

    def take(self, event: Event) -> None:
        """Folds the event that comes next in the log."""
        self.events.append(event)
        self._fold(event)

    def observe(self, change: Change, at: Instant, op: Op | None = None) -> None:
        """A version of an object that a watch or a list showed; an older or equal one changes nothing."""
        body, metadata = change.body, change.body["metadata"]
        uid = metadata["uid"]
        op = op or change.op
        head = self.heads.get(uid)
        is_deletion = op in (Op.DELETED, Op.SYNC_DELETED)
        if (head is None and is_deletion) or (head is not None and not is_deletion and change.version <= head.version):
            return
        if is_deletion:
            del self.heads[uid]
        else:
            self.heads[uid] = Head(change.kind, change.version, body)
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        is_job = change.kind == "TFJob"
        job_uid = uid if is_job else (owner["uid"] if owner and owner["kind"] == "TFJob" else None)
        self.append(
            op,
            _fact(change),
            at,
            uid=uid,
            namespace=metadata["namespace"],
            name=metadata["name"],
            resource_version=change.version,
            job_uid=job_uid,
            job_name=None if is_job else (metadata.get("labels") or {}).get("training.kubeflow.org/job-name"),
            spec_hash=repr(body.get("spec")) if is_job else None,
        )

    def decide(self, at: Instant) -> list[tuple[Event, str, Action, int]]:
        """Appends a DECIDED event for every job that asks for something: (event, uid, action, ordinal) to carry out."""
        asked = []
        for uid, live in list(self.live.items()):
            if not live.wanted:
                continue
            state = live.state
            event = self.append(
                Op.DECIDED, Decided(live.wanted), at, uid=uid, namespace=state.namespace, name=state.name, job_uid=uid
            )
            assert isinstance(event.fact, Decided)
            asked += [(event, uid, action, ordinal) for ordinal, action in enumerate(event.fact.actions)]
        return asked

    def settle(self, uid: str, fact: ActionSettled, at: Instant) -> None:
        state = self.live[uid].state if uid in self.live else None
        where = {"namespace": state.namespace, "name": state.name} if state else {}
        self.append(Op.ACTION, fact, at, uid=uid, job_uid=uid, **where)

    def due(self, until: Instant) -> tuple[str, Timer] | None:
        """The job and timer that falls due first, not later than `until`."""
        found = [(timer, uid) for uid, live in self.live.items() for timer in live.timers if timer.due_at <= until]
        if not found:
            return None
        timer, uid = min(found)
        return uid, timer

    def fire(self, uid: str, timer: Timer, at: Instant) -> None:
        fact = TimerFired(timer=timer.timer, due_at=timer.due_at, type=timer.type, index=timer.index)
        self.append(Op.TIMER, fact, at, uid=uid, job_uid=uid)

    def vanished(self, present: dict[str, Held]) -> list[tuple[str, Head]]:
        """Heads that a list lacks."""
        return [(uid, head) for uid, head in self.heads.items() if uid not in present]

    def restart(self) -> None:
        """The controller starts again with only its log: the state comes from snapshots, and folding the whole log
        anew gives the same. Raises AssertionError when it does not."""
        again = _refolded(self.events)
        for uid, live in self.live.items():
            step = restored(decode_state(encode_state(live.state)), self.context)
            live.state, live.wanted, live.timers = step.state, step.actions, step.timers
            assert encode_state(again[uid]) == encode_state(live.state), "replay differs from the fold"

    def _fold(self, event: Event) -> None:
        self.context = context_after(self.context, event)
        for uid in self._routes.targets(event, self.live):
            self._advance(uid, event)

    def _advance(self, uid: str, event: Event) -> None:
        live = self.live.get(uid)
        step = advance(live.state if live else None, event, self.context)
        if step is None:
            return
        is_new = live is None
        self.attempts += [attempt_row(step.state, slot_id) for slot_id in step.judged]
        if live is None:
            live = self.live[uid] = Live(step.state)
        live.state, live.wanted, live.timers = step.state, step.actions, step.timers
        self.transitions += [(uid, transition) for transition in step.transitions]
        if is_new and isinstance(event.fact, JobObserved):
            for earlier in self._routes.begin(event):
                self._advance(uid, earlier)
        if is_over(step.state):
            self._routes.end(step.state.namespace, step.state.name, uid)
            self.over[uid] = step.state
            self.live.pop(uid, None)


def _refolded(events: list[Event]) -> dict[str, JobState]:
    again = History()
    for event in events:
        again._fold(event)
    return {uid: live.state for uid, live in again.live.items()}


def _fact(change: Change) -> AnyFact:
    found = typed(change.kind, change.body)
    if isinstance(found, TFJob):
        return JobObserved(found)
    if isinstance(found, PodGroup):
        return PodGroupObserved(found)
    return PodObserved(found) if isinstance(found, Pod) else ServiceObserved(found)
