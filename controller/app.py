"""The controller put together: settings and a client → loops over one event log, until told to stop.

In: settings. Out: it runs; returns when `stop` is set and everything is drained. Never: a rule, or a loop of its own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Iterator

from controller import __version__
from controller.errors import TfjobError, UserError
from controller.kube import KubeClient, connect
from controller.kube.credentials import pod_namespace
from controller.kube.lease import LeaseHolder
from controller.kube.lease_rules import Pace
from controller.kube.rate import Rate
from controller.log import EventLog
from controller.run.clock import SystemClock
from controller.run.lead import Epochs, lead
from controller.run.supervise import Supervisor
from controller.settings import Settings


class Controller:
    """One controller process against one API server and one log."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        self._settings = settings
        self._client = client

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop`, then drains. Raises UserError when the log cannot be used or another controller took it
        over (exit code 1), and as it is what a loop died of otherwise: a bug."""
        settings = self._settings
        self._client.limit_rate(Rate(settings.api_qps, settings.api_burst))
        log = await EventLog.open(settings.database_url, cluster=settings.cluster)
        try:
            if _may_elect(settings):
                await self._lead(log, stop)
            else:
                await Supervisor(settings, self._client, log, SystemClock(), holder()).run(stop)
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
            lease = LeaseHolder(client, namespace, settings.lease_name, f"{holder()} {secrets.token_hex(4)}", pace)

            async def work(epochs: Epochs) -> None:
                await Supervisor(settings, self._client, event_log, SystemClock(), holder(), epochs).run(stop)

            await lead(lease, self._client, work, stop)


def _may_elect(settings: Settings) -> bool:
    if settings.leader_elect is None:
        return settings.kubeconfig is None and pod_namespace() is not None
    return settings.leader_elect


def _leaves(group: BaseExceptionGroup[TfjobError]) -> Iterator[TfjobError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def holder() -> str:
    """This process's name in the log."""
    return f"{socket.gethostname()}/{os.getpid()} ({__version__})"


async def run_until_signal(settings: Settings) -> None:
    """`tfjob controller`: runs until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with await connect(settings.kubeconfig, settings.context, None) as client:
        await Controller(settings, client).run(stop)
