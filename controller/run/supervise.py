"""All loops together: begin where the log ends, run until told to stop, drain.

In: settings, a client, a log. Out: returns when drained; a loop's death ends the others and is raised. A log that was
set back (a restore) ends only this process's memory of it: it leads again and lists everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from controller import __version__
from controller.act import Request
from controller.errors import Temporary, UserError
from controller.fold import Context, context_after, decode_state
from controller.kube import KubeClient
from controller.kube.backoff import delay_seconds
from controller.kube.live import Live
from controller.log import EventLog, LogWentBack, NewEvent, SessionMark
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
from controller.run.fire import Firing
from controller.run.inbox import Inbox
from controller.run.ingest import BATCH_ROWS, Ingest
from controller.run.intake import Intake
from controller.run.lead import Epochs, NoEpochs
from controller.run.patient import PatientHeads
from controller.run.perform import Performer
from controller.run.project import Projector
from controller.run.tally import Tally
from controller.run.timers import Timers
from controller.run.vitals import Loops
from controller.settings import Settings
from controller.watch import Pace, Watches
from controller.watch.resources import resources_of

DRAIN_SECONDS = 10.0
"""How long requests under way may take at a stop; what has no answer then is settled by the next start."""
CONNECT_SECONDS = 0.05
"""The shortest: how exactly a timer fires, and how soon a start goes on once the watches are connected."""
TIMER_SECONDS = 1.0
"""The longest sleep of the timer loop: a wall clock that was set is noticed within it."""

log = structlog.get_logger("supervise")


class Supervisor:
    """The controller as the writer of one cluster's log."""

    def __init__(
        self,
        settings: Settings,
        client: KubeClient,
        event_log: EventLog,
        clock: Clock,
        holder: str,
        epochs: Epochs | None = None,
        tally: Tally | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._epochs = epochs or NoEpochs()
        self._tally = tally or Tally()
        self.loops: Loops | None = None
        """What runs now; None before this process leads."""
        self._settings = settings
        self._pace = pace
        self._client = client
        self._log = event_log
        self._clock = clock
        self._holder = holder
        self._epoch = 0
        self.inbox: Inbox[NewEvent | SessionMark] = Inbox(settings.inbox_bytes)

    async def run(self, stop: asyncio.Event) -> None:
        """Leads, restores, runs the loops until `stop`, and drains. Raises UserError (exit code 1) when the log took no
        last words, and what a loop died of as a group."""
        projector: Projector | None = await self._lead()
        while projector is not None:
            is_rewound = False
            try:
                await self._run_loops(projector, stop)
            except* LogWentBack as group:
                is_rewound = True
                log.warning("the log went back", error=str(_first(group)))
            finally:
                self.loops = None
            if not is_rewound:
                break
            # Whatever memory held rests on a log that is no more: what was observed is listed again.
            self.inbox = Inbox(self._settings.inbox_bytes)
            projector = await self._lead_again(stop)

    async def _lead(self) -> Projector:
        epoch = self._epoch = await self._log.lead(self._holder, __version__, at_least_epoch=self._epochs.noted())
        await self._epochs.note(epoch)
        projector = await self._restored()
        self._announce(epoch, projector.context)
        log.info("leading", epoch=epoch, jobs=len(list(projector.states())), log_rewound=self._log.is_rewound)
        return projector

    async def _lead_again(self, stop: asyncio.Event) -> Projector | None:
        """Leads as soon as Postgres can be used; None when told to stop before."""
        failures = 0
        while not stop.is_set():
            try:
                return await self._lead()
            except Temporary as error:
                failures += 1
                log.warning("the log cannot be taken over", error=str(error))
                try:
                    async with asyncio.timeout(delay_seconds(failures)):
                        await stop.wait()
                except TimeoutError:
                    pass
        return None

    async def _run_loops(self, projector: Projector, stop: asyncio.Event) -> None:
        live = Live()
        watches = await self._watches(projector.context, live)
        timers = Timers(may_fire=watches.is_connected)
        performer = Performer(
            self._client,
            projector,
            self.inbox,
            self._clock,
            self._settings,
            live,
            self._tally,
            self._epoch,
        )
        ingest = Ingest(
            self._log,
            self.inbox,
            projector,
            self._clock,
            performer=performer,
            on_timers=timers.set,
            tally=self._tally,
        )
        for uid, due in projector.timers_changed().items():
            timers.set(uid, due)
        drained = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            committing = group.create_task(ingest.run(drained), name="ingest")
            performing = group.create_task(performer.run(), name="perform")
            watching = group.create_task(watches.run(), name="watch")
            firing = Firing(
                timers,
                is_connected=watches.is_connected,
                look=watches.look_at_pods,
                place_of=projector.place_of,
                note=self._note_timer,
            )
            beating = self._run_timers(timers, firing, watches, performer, projector.outstanding())
            ticking = group.create_task(beating, name="timers")
            tasks = [committing, performing, watching, ticking]
            self.loops = Loops(self.inbox, projector, ingest, watches, tasks)
            await stop.wait()
            log.info("draining")
            tasks.clear()  # they end one after another now, as they are told
            watching.cancel()
            ticking.cancel()
            await performer.drain(DRAIN_SECONDS)
            performing.cancel()
            drained.set()
            self.inbox.wake()
            _, late = await asyncio.wait([committing], timeout=DRAIN_SECONDS)
            if late:
                raise UserError(
                    f"stopped, but Postgres did not take the last events within {DRAIN_SECONDS:.0f} s; "
                    "the next start lists what they said",
                    exit_code=1,
                )
        log.info("stopped")

    async def _watches(self, context: Context, live: Live) -> Watches:
        """The watches, resuming where the log says that each was read up to."""
        key_file = self._settings.redaction_key_file
        scope = self._settings.namespace or ""
        heads = PatientHeads(self._log)
        marks = await heads.marks(scope)
        # A relist that an earlier life began and did not finish begins again.
        relist = dict.fromkeys(context.gap, GapReason.DROPPED)
        if self._log.is_rewound:
            names = [each.name for each in resources_of(self._settings.gang_scheduler)]
            relist = dict.fromkeys(names, GapReason.LOG_REWOUND)
        return Watches(
            self._client,
            heads,
            Intake(self.inbox, scope),
            marks,
            self._settings.namespace,
            self._clock.now,
            gang_scheduler=self._settings.gang_scheduler,
            redaction_key=key_file.read_bytes() if key_file else None,
            relist=relist,
            live=live,
            pace=self._pace,
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
        projector.came_and_went()  # of earlier lives, which have counted it
        return projector

    def _announce(self, epoch: int, context: Context) -> None:
        """LEADER and, where they changed, SETTINGS stand in front of whatever this life observes."""
        self._note(Op.LEADER, LeaderElected(self._holder, epoch, __version__, RULES_NUMBER), f"leader/{epoch}")
        if context.settings != self._settings.policy:
            self._note(Op.SETTINGS, SettingsRecorded(self._settings.policy), f"settings/{epoch}")

    async def _run_timers(
        self, timers: Timers, firing: Firing, watches: Watches, performer: Performer, unsettled: Sequence[Request]
    ) -> None:
        """Fires what is due. What an earlier life asked for and has no outcome is sent again first, once the watches
        show what became of it: sending anything twice does what sending it once did (DESIGN §2)."""
        try:
            await self._beat(timers, firing, watches, performer, unsettled)
        finally:
            firing.stop()

    async def _beat(
        self, timers: Timers, firing: Firing, watches: Watches, performer: Performer, unsettled: Sequence[Request]
    ) -> None:
        while True:
            if unsettled and watches.is_connected():
                performer.submit(unsettled)
                unsettled = ()
            now = self._clock.now()
            firing.run_once(now)
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


def _first(group: BaseExceptionGroup[LogWentBack]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
