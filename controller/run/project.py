"""The projector: committed events → states, transitions, and what is to be asked for (DESIGN §2).

In: events in the order of the log. Out: writes for the next commit (DECIDED events, transitions, snapshots, cursor) and
requests whose DECIDED event is committed. Never: a rule (those are in fold/ and decide/), I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from controller.act import Request
from controller.decide import advance, asked_of, is_over, is_wanted, restored, status_of
from controller.fold import Context, JobState, context_after, encode_state
from controller.log import AttemptRow, JobSnapshot, NewEvent
from controller.model.actions import Action
from controller.model.events import DELETIONS, Decided, Event, JobObserved, Op, Timer, Transition
from controller.run.route import Routes
from controller.run.rows import attempt_row
from controller.run.tally import TRANSITIONS, JobCount

SNAPSHOT_EVERY_SECONDS = 1.0
"""A job that changes without a transition is written at most this often; a start folds what came after."""

log = structlog.get_logger("project")


@dataclass(slots=True)
class Writes:
    """What the projector wants in the next commit."""

    decided: list[NewEvent] = field(default_factory=list)
    transitions: list[tuple[str, Transition]] = field(default_factory=list)
    snapshots: list[JobSnapshot] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    cursor: int | None = None
    happened: list[tuple[JobCount, str]] = field(default_factory=list)
    """What `transitions` are counted as, with the job's namespace; not written."""

    def __bool__(self) -> bool:
        return bool(self.decided or self.transitions or self.snapshots)


@dataclass(slots=True)
class _Live:
    """One live job: its state, what it wants, and how much of it is on disk."""

    state: JobState
    position: int
    timers: tuple[Timer, ...] = ()
    wanted: tuple[Action, ...] = ()
    is_deciding: bool = False
    """A DECIDED event of it is on its way into the log: nothing more is asked before that one was folded."""
    dirty_since: int | None = None
    is_urgent: bool = False
    saved_at: float = 0.0


class Projector:
    """Holds the states of all live jobs. Its methods are called by one task, one after another."""

    def __init__(self, context: Context, monotonic: Callable[[], float]) -> None:
        self._context = context
        self._monotonic = monotonic
        self._jobs: dict[str, _Live] = {}
        self._routes = Routes()
        self._parked: dict[str, str] = {}
        self._over: dict[str, int] = {}
        self._pending = Writes()
        self._folded = 0
        self._retimed: set[str] = set()
        self._wanting: set[str] = set()
        self._dirty: set[str] = set()
        self._urgent: list[str] = []
        self._came_and_went: list[tuple[JobCount, str]] = []

    @property
    def context(self) -> Context:
        return self._context

    @property
    def parked(self) -> dict[str, str]:
        """uid → why: jobs whose folding failed; they wait for a person and hold up no other (DESIGN §6)."""
        return dict(self._parked)

    def state_of(self, uid: str) -> JobState | None:
        live = self._jobs.get(uid)
        return live.state if live else None

    def place_of(self, uid: str) -> tuple[str, str] | None:
        """(namespace, name) of a live job."""
        state = self.state_of(uid)
        return (state.namespace, state.name) if state else None

    def states(self) -> Iterable[JobState]:
        return (live.state for live in self._jobs.values())

    def restore(self, states: Iterable[tuple[JobState, int]], cursor: int) -> None:
        """Takes up the snapshots (state, position that it includes). Of a job that is over nothing is taken up but
        where it ended: what follows `cursor` must not begin it anew."""
        for state, position in states:
            if is_over(state):
                self._over[state.uid] = position
                continue
            step = restored(state, self._context)
            self._jobs[state.uid] = _Live(step.state, position, step.timers, step.actions, saved_at=self._monotonic())
            self._retimed.add(state.uid)
            self._wanting.add(state.uid)
        self._routes.restore({(live.state.namespace, live.state.name): uid for uid, live in self._jobs.items()})
        self._folded = cursor

    def fold(self, events: Sequence[Event]) -> list[Request]:
        """Folds committed events; returns the requests of the DECIDED events among them."""
        requests: list[Request] = []
        for event in events:
            if event.position <= self._folded:
                continue
            self._context = context_after(self._context, event)
            for uid in self._routes.targets(event, self._jobs):
                self._advance(uid, event)
            self._folded = event.position
            if isinstance(event.fact, Decided) and event.job_uid:
                requests += self._requests_of(event)
        return requests

    def decide(self, now: int) -> None:
        """Turns what the jobs want now into DECIDED events for the next commit. Called after a batch was folded."""
        for uid in self._wanting:
            live = self._jobs.get(uid)
            if live is None or not live.wanted or live.is_deciding:
                continue
            live.is_deciding = True
            state = live.state
            self._pending.decided.append(
                NewEvent(
                    op=Op.DECIDED,
                    fact=Decided(live.wanted),
                    observed_at=now,
                    namespace=state.namespace,
                    name=state.name,
                    uid=uid,
                    job_uid=uid,
                    key=f"decided/{uid}/{live.position}",
                )
            )
            live.wanted = ()
        self._wanting.clear()

    def take_writes(self) -> Writes:
        """What is to be committed now; the caller commits it, or ends."""
        writes, self._pending = self._pending, Writes()
        now = self._monotonic()
        cursor = self._folded
        for uid in list(self._dirty):
            live = self._jobs[uid]
            if live.is_urgent or now - live.saved_at >= SNAPSHOT_EVERY_SECONDS:
                writes.snapshots.append(_snapshot(uid, live))
                live.dirty_since, live.is_urgent, live.saved_at = None, False, now
                self._dirty.discard(uid)
            elif live.dirty_since is not None:
                cursor = min(cursor, live.dirty_since - 1)
        writes.cursor = cursor
        return writes

    def has_writes(self) -> bool:
        """Something must go into the log now, even if nothing was observed."""
        return bool(self._pending)

    def is_dirty(self) -> bool:
        """Some job's newest state is not on disk yet; it will be within a second."""
        return bool(self._dirty)

    def save_all(self) -> None:
        """Before a stop: every state is due for writing."""
        for uid in self._dirty:
            self._jobs[uid].is_urgent = True

    def outstanding(self) -> list[Request]:
        """What was asked for before this start and has no outcome: to be settled by a look first (DESIGN §2)."""
        return [
            _request(live.state, action, position, ordinal)
            for live in self._jobs.values()
            for (position, ordinal), action in asked_of(live.state).items()
        ]

    def is_wanted(self, request: Request) -> bool:
        """Asked right before sending: what is no longer wanted is dropped."""
        live = self._jobs.get(request.job_uid)
        return live is not None and request.job_uid not in self._parked and is_wanted(live.state, request.action)

    def status_now(self, uid: str) -> tuple[dict[str, object], str] | None:
        """The status to write and the resourceVersion it rests on."""
        live = self._jobs.get(uid)
        return (status_of(live.state), str(live.state.resource_version)) if live else None

    def urgent(self) -> list[str]:
        """Jobs whose conditions changed since the last call."""
        found, self._urgent = self._urgent, []
        return found

    def came_and_went(self) -> list[tuple[JobCount, str]]:
        """The jobs whose first event, or whose deletion, was folded since the last call, with their namespaces."""
        found, self._came_and_went = self._came_and_went, []
        return found

    def timers_changed(self) -> dict[str, tuple[Timer, ...]]:
        """uid → its timers, of the jobs whose timers may have changed since the last call."""
        changed = {uid: self._jobs[uid].timers if uid in self._jobs else () for uid in self._retimed}
        self._retimed.clear()
        return changed

    def _advance(self, uid: str, event: Event) -> None:
        live = self._jobs.get(uid)
        included = live.position if live else self._over.get(uid, 0)
        if uid in self._parked or event.position <= included:
            return
        try:
            step = advance(live.state if live else None, event, self._context)
        except Exception as error:
            self._parked[uid] = f"{type(error).__name__}: {error}"
            log.exception("parked", job=f"{event.namespace}/{event.name}", uid=uid, position=event.position)
            return
        if step is None:
            return
        if isinstance(event.fact, JobObserved) and not step.state.spec.is_left_alone():
            if live is None:
                self._came_and_went.append((JobCount.CREATED, event.namespace))
            elif event.op in DELETIONS:
                self._came_and_went.append((JobCount.DELETED, event.namespace))
        if live is None:
            live = self._jobs[uid] = _Live(step.state, event.position)
        live.state, live.position, live.wanted = step.state, event.position, step.actions
        if isinstance(event.fact, Decided):
            live.is_deciding = False
        if live.dirty_since is None:
            live.dirty_since = event.position
            self._dirty.add(uid)
        if step.actions:
            self._wanting.add(uid)
        if step.transitions:
            live.is_urgent = True
            self._urgent.append(uid)
            self._pending.transitions += [(uid, transition) for transition in step.transitions]
            for transition in step.transitions:
                if transition.status == "True" and transition.type in TRANSITIONS:
                    self._pending.happened.append((TRANSITIONS[transition.type], step.state.namespace))
                log.info(
                    transition.type.lower() if transition.status == "True" else f"no longer {transition.type.lower()}",
                    job=f"{step.state.namespace}/{step.state.name}",
                    position=transition.position,
                    reason=transition.reason,
                )
        self._pending.attempts += [attempt_row(step.state, slot_id) for slot_id in step.judged]
        if live.timers != step.timers:
            live.timers = step.timers
            self._retimed.add(uid)
        if is_over(step.state):
            self._forget(uid, live)
        elif isinstance(event.fact, JobObserved) and live.position == event.position:
            for earlier in self._routes.begin(event):
                self._replay_early(uid, earlier, event)

    def _replay_early(self, uid: str, earlier: Event, event: Event) -> None:
        """What was observed of the job's objects before the job itself: folded at the job's own first position."""
        live = self._jobs.get(uid)
        if live:
            live.position = min(live.position, earlier.position - 1)
            self._advance(uid, earlier)
            live.position = event.position

    def _forget(self, uid: str, live: _Live) -> None:
        self._dirty.discard(uid)
        self._pending.snapshots.append(_snapshot(uid, live))
        self._routes.end(live.state.namespace, live.state.name, uid)
        del self._jobs[uid]
        self._retimed.add(uid)

    def _requests_of(self, event: Event) -> list[Request]:
        live = self._jobs.get(event.job_uid or "")
        if live is None or not isinstance(event.fact, Decided):
            return []
        return [
            _request(live.state, action, event.position, ordinal) for ordinal, action in enumerate(event.fact.actions)
        ]


def _request(state: JobState, action: Action, position: int, ordinal: int) -> Request:
    return Request(
        action=action,
        job_uid=state.uid,
        namespace=state.namespace,
        name=state.name,
        decided_position=position,
        ordinal=ordinal,
        generation=state.generation,
    )


def _snapshot(uid: str, live: _Live) -> JobSnapshot:
    return JobSnapshot(
        job_uid=uid,
        namespace=live.state.namespace,
        name=live.state.name,
        position=live.position,
        state=encode_state(live.state),
        phase=live.state.conditions[-1].type if live.state.conditions else "",
        is_over=is_over(live.state),
    )
