"""All loops together: begin where the log ends, run until told to stop, drain.

In: settings, a client, a log. Out: returns when drained; a loop's death ends the others and is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from controller import __version__
from controller.act import Request
from controller.fold import Context, context_after, decode_state
from controller.kube import KubeClient
from controller.log import EventLog, NewEvent, SessionMark
from controller.model.events import (
    RULES_NUMBER,
    AnyFact,
    GapReason,
    LeaderElected,
    Op,
    SettingsRecorded,
    Timer,
    TimerFired,
)
from controller.model.instants import SECOND
from controller.run.clock import Clock
from controller.run.inbox import Inbox
from controller.run.ingest import BATCH_ROWS, Ingest
from controller.run.intake import Intake
from controller.run.perform import Performer
from controller.run.project import Projector
from controller.run.timers import Timers
from controller.settings import Settings
from controller.watch import Watches

DRAIN_SECONDS = 10.0
"""How long requests under way may take at a stop; what has no answer then is settled by the next start."""
CONNECT_SECONDS = 0.05
"""The shortest: how exactly a timer fires, and how soon a start goes on once the watches are connected."""
TIMER_SECONDS = 1.0
"""The longest sleep of the timer loop: a wall clock that was set is noticed within it."""

log = structlog.get_logger("supervise")


class Supervisor:
    """One life of the controller as the writer of one cluster's log."""

    def __init__(self, settings: Settings, client: KubeClient, event_log: EventLog, clock: Clock, holder: str) -> None:
        self._settings = settings
        self._client = client
        self._log = event_log
        self._clock = clock
        self._holder = holder
        self.inbox: Inbox[NewEvent | SessionMark] = Inbox(settings.inbox_bytes)

    async def run(self, stop: asyncio.Event) -> None:
        """Leads, restores, runs the loops until `stop`, and drains."""
        epoch = await self._log.lead(self._holder, __version__)
        projector = await self._restored()
        self._announce(epoch, projector.context)
        watches = await self._watches(projector.context)
        timers = Timers(may_fire=watches.is_connected)
        performer = Performer(self._client, projector, self.inbox, self._clock, self._settings)
        ingest = Ingest(self._log, self.inbox, projector, self._clock, performer=performer, on_timers=timers.set)
        for uid, due in projector.timers_changed().items():
            timers.set(uid, due)
        log.info("leading", epoch=epoch, jobs=len(list(projector.states())))
        drained = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(ingest.run(drained), name="ingest")
            performing = group.create_task(performer.run(), name="perform")
            watching = group.create_task(watches.run(), name="watch")
            ticking = group.create_task(self._run_timers(timers, watches, performer, projector.outstanding()))
            await stop.wait()
            log.info("draining")
            watching.cancel()
            ticking.cancel()
            await performer.drain(DRAIN_SECONDS)
            performing.cancel()
            drained.set()
            self.inbox.wake()
        log.info("stopped")

    async def _watches(self, context: Context) -> Watches:
        """The watches, resuming where the log says that each was read up to."""
        key_file = self._settings.redaction_key_file
        scope = self._settings.namespace or ""
        marks = await self._log.marks(scope)
        return Watches(
            self._client,
            self._log,
            Intake(self.inbox, scope),
            marks,
            self._settings.namespace,
            self._clock.now,
            gang_scheduler=self._settings.gang_scheduler,
            redaction_key=key_file.read_bytes() if key_file else None,
            # A relist that an earlier life began and did not finish begins again.
            relist=dict.fromkeys(context.gap, GapReason.DROPPED),
        )

    async def _restored(self) -> Projector:
        """The projector as it was at the end of the log."""
        cursor = await self._log.cursor()
        context = Context()
        for event in await self._log.cluster_facts(upto=cursor):
            context = context_after(context, event)
        projector = Projector(context, self._clock.monotonic)
        snapshots = await self._log.snapshots()
        projector.restore(((decode_state(each.state), each.position) for each in snapshots), cursor)
        while tail := await self._log.read(cursor, limit=BATCH_ROWS * 4):
            projector.fold(tail)
            cursor = tail[-1].position
        projector.decide(self._clock.now())
        return projector

    def _announce(self, epoch: int, context: Context) -> None:
        """LEADER and, where they changed, SETTINGS stand in front of whatever this life observes."""
        self._note(Op.LEADER, LeaderElected(self._holder, epoch, __version__, RULES_NUMBER), f"leader/{epoch}")
        if context.settings != self._settings.policy:
            self._note(Op.SETTINGS, SettingsRecorded(self._settings.policy), f"settings/{epoch}")

    async def _run_timers(
        self, timers: Timers, watches: Watches, performer: Performer, unsettled: Sequence[Request]
    ) -> None:
        """Fires what is due. What an earlier life asked for and has no outcome is sent again first, once the watches
        show what became of it: sending anything twice does what sending it once did (DESIGN §2)."""
        while True:
            if unsettled and watches.is_connected():
                performer.submit(unsettled)
                unsettled = ()
            now = self._clock.now()
            for uid, timer in timers.fire(now):
                self._note_timer(uid, timer)
            due = timers.next_due()
            wait = CONNECT_SECONDS if unsettled else TIMER_SECONDS
            if due is not None:
                wait = min(wait, (due - now) / SECOND)
            await asyncio.sleep(max(wait, CONNECT_SECONDS))

    def _note_timer(self, uid: str, timer: Timer) -> None:
        fact = TimerFired(timer=timer.timer, due_at=timer.due_at, type=timer.type, index=timer.index)
        slot = f"{timer.type.label}-{timer.index}" if timer.type is not None else ""
        self._note(Op.TIMER, fact, f"timer/{uid}/{timer.timer}/{slot}/{timer.due_at}", uid)

    def _note(self, op: Op, fact: AnyFact, key: str, job_uid: str | None = None) -> None:
        self.inbox.put_now(
            NewEvent(op=op, fact=fact, observed_at=self._clock.now(), uid=job_uid or "", job_uid=job_uid, key=key)
        )
