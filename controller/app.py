"""The controller put together: settings and a client → loops over one event log, until told to stop.

In: settings. Out: it runs; returns when `stop` is set and everything is drained. Never: a rule, or a loop of its own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from controller import __version__
from controller.errors import TfjobError, UserError
from controller.kube import KubeClient, connect
from controller.kube.credentials import pod_namespace
from controller.kube.lease import LeaseHolder
from controller.kube.lease_rules import Pace
from controller.kube.rate import Rate
from controller.log import EventLog
from controller.run.beside import make_sure_of_being_alone
from controller.run.clock import SystemClock
from controller.run.lead import Epochs, NoEpochs, lead
from controller.run.supervise import Supervisor
from controller.run.tally import Tally
from controller.run.vitals import Loops, Vitals, dead_of, not_ready_of, vitals_of
from controller.settings import Settings
from controller.watch.served import require_pod_groups

POD_ADDRESS = ":8080"
"""Where a pod answers probes and metrics: the port of training-operator, which scrape configurations name."""


class Controller:
    """One controller process against one API server and one log."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        self._settings = settings
        self._client = client
        self._tally = Tally()
        self._lease: LeaseHolder | None = None
        self._supervisor: Supervisor | None = None
        self._log: EventLog | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop`, then drains. Raises UserError when another operator handles TFJobs here, or the gang
        scheduler's PodGroups are not there (exit code 2), or the log cannot be used or another controller took it over
        (exit code 1), and as it is what a loop died of otherwise: a bug."""
        settings = self._settings
        self._client.limit_rate(Rate(settings.api_qps, settings.api_burst))
        if settings.observe:
            self._client.guard_writes(lambda: 0.0)
        await require_pod_groups(self._client, settings.gang_scheduler)
        log = self._log = await EventLog.open(settings.database_url, cluster=settings.log_name)
        try:
            if not (settings.observe or settings.takeover):
                await make_sure_of_being_alone(self._client, settings.namespace, stop)
            if settings.leader_elect:
                await self._lead(log, stop)
            else:
                await self._supervise(log, stop, NoEpochs())
        except ExceptionGroup as group:
            expected, bugs = group.split(TfjobError)
            if expected is None or bugs is not None:
                raise
            raise UserError("; ".join(str(each) for each in _leaves(expected)), exit_code=1) from None
        except UserError:
            raise
        except TfjobError as error:
            raise UserError(str(error), exit_code=1) from None
        finally:
            await log.close()

    async def _lead(self, event_log: EventLog, stop: asyncio.Event) -> None:
        """Runs while the Lease is ours, over a connection of its own; stands by otherwise."""
        settings = self._settings
        pace = Pace(settings.lease_seconds, settings.lease_retry_seconds)
        namespace = settings.lease_namespace or pod_namespace() or "default"
        async with await connect(settings.kubeconfig, settings.context, None) as client:
            name = f"{holder()} {secrets.token_hex(4)}"
            lease = self._lease = LeaseHolder(client, namespace, settings.lease_name, name, pace)
            await lead(lease, self._client, lambda epochs: self._supervise(event_log, stop, epochs), stop)

    async def _supervise(self, event_log: EventLog, stop: asyncio.Event, epochs: Epochs) -> None:
        self._supervisor = Supervisor(
            self._settings, self._client, event_log, SystemClock(), holder(), epochs, self._tally
        )
        try:
            await self._supervisor.run(stop)
        finally:
            self._supervisor = None

    def vitals(self) -> Vitals:
        """The numbers of this moment."""
        return vitals_of(self._loops(), self._tally, self._client.request_count)

    def dead(self) -> list[str]:
        """What makes a restart of the process the only help, in words; empty while it lives."""
        return dead_of(self._loops())

    async def not_ready(self) -> list[str]:
        """What it lacks to lead, or to stand by, in words; empty when it is ready."""
        loops = self._loops()
        if loops is not None and self._log is not None:
            return await not_ready_of(loops, self._log)
        if self._supervisor is not None:
            return ["the log is being taken over"]
        if self._lease is not None:
            problem = self._lease.problem
            return [f"stands by, but the lease {self._lease.place} cannot be used: {problem}"] if problem else []
        return ["starting"]

    def _loops(self) -> Loops | None:
        return self._supervisor.loops if self._supervisor is not None else None


def _leaves(group: BaseExceptionGroup[TfjobError]) -> Iterator[TfjobError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def holder() -> str:
    """This process's name in the log."""
    return f"{socket.gethostname()}/{os.getpid()} ({__version__})"


def settled_by_place(settings: Settings) -> Settings:
    """The settings whose defaults depend on where this runs: a pod leads by a Lease and answers probes; with a
    kubeconfig a person has started one process, which opens no port unasked."""
    is_pod = settings.kubeconfig is None and pod_namespace() is not None
    return replace(
        settings,
        leader_elect=is_pod and not settings.observe if settings.leader_elect is None else settings.leader_elect,
        http_address=(POD_ADDRESS if is_pod else "") if settings.http_address is None else settings.http_address,
    )


async def run_until_signal(
    settings: Settings, serving: Callable[[str, Controller], AbstractAsyncContextManager[object]]
) -> None:
    """`tfjob controller`: runs until SIGTERM or SIGINT, while `serving` answers at the address."""
    settings = settled_by_place(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with await connect(settings.kubeconfig, settings.context, None) as client:
        controller = Controller(settings, client)
        async with serving(settings.http_address or "", controller):
            await controller.run(stop)
