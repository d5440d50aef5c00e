"""Due timers → TIMER events. In front of a deadline its job's pods are listed once, so that no end is overlooked.

In: timers as they fall due. Out: TIMER facts for the inbox, each job's in the order in which they fell due.
Never: a timer while something could be unseen (RULES §11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from controller.errors import Temporary
from controller.kube import ApiError
from controller.kube.backoff import delay_seconds
from controller.model.events import Timer, TimerKind
from controller.run.timers import Timers

POLL_SECONDS = 0.1
"""How soon a deadline goes on once the watches are connected again."""

log = structlog.get_logger("timers")


class Firing:
    """Fires what is due. `look` lists a job's pods into the inbox, `place_of` names a live job, `note` logs a timer."""

    def __init__(
        self,
        timers: Timers,
        *,
        is_connected: Callable[[], bool],
        look: Callable[[str, str], Awaitable[None]],
        place_of: Callable[[str], tuple[str, str] | None],
        note: Callable[[str, Timer], None],
    ) -> None:
        self._timers = timers
        self._is_connected = is_connected
        self._look = look
        self._place_of = place_of
        self._note = note
        self._held: dict[str, list[Timer]] = {}
        """Jobs whose pods are being listed → what fell due meanwhile, the deadline first."""
        self._looking: set[asyncio.Task[None]] = set()

    def run_once(self, now: int) -> None:
        """Logs what is due at `now`; a deadline, and what its job has due after it, follow when its pods are listed."""
        for uid, timer in self._timers.fire(now):
            held = self._held.get(uid)
            if held is not None:
                held.append(timer)
            elif timer.timer is TimerKind.DEADLINE:
                self._held[uid] = [timer]
                task = asyncio.create_task(self._after_a_look(uid), name="deadline")
                self._looking.add(task)
                task.add_done_callback(self._looking.discard)
            else:
                self._note(uid, timer)

    def stop(self) -> None:
        """What has no list yet falls due again at the next start."""
        for task in self._looking:
            task.cancel()

    async def _after_a_look(self, uid: str) -> None:
        failures = 0
        while (place := self._place_of(uid)) is not None:
            try:
                await self._look(*place)
            except (ApiError, Temporary) as error:
                failures += 1
                log.warning("no list before a deadline", job="/".join(place), said=str(error))
                await asyncio.sleep(delay_seconds(failures))
                continue
            if self._is_connected():
                break
            await asyncio.sleep(POLL_SECONDS)
        for timer in self._held.pop(uid):
            self._note(uid, timer)
