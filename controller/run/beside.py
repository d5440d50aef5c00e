"""Before this process acts: nobody else may act on the same jobs.

In: the API server. Out: returns when it may begin, or when told to stop. Never: a rule (kube/peer_rules.py has them).
"""

from __future__ import annotations

import asyncio

import structlog

from controller.errors import Temporary, UserError
from controller.kube import KubeClient
from controller.kube.backoff import delay_seconds
from controller.kube.peer import look_for_peer
from controller.kube.peer_rules import obstacle_of, warning_of

log = structlog.get_logger("beside")


async def make_sure_of_being_alone(client: KubeClient, namespace: str | None, stop: asyncio.Event) -> None:
    """Asks until the API server answers. Raises UserError (exit code 2) when another operator handles TFJobs here."""
    failures = 0
    while not stop.is_set():
        try:
            seen = await look_for_peer(client, namespace)
        except Temporary as error:
            failures += 1
            log.warning("cannot look for another operator yet", said=" ".join(str(error).split())[:300])
            try:
                async with asyncio.timeout(delay_seconds(failures)):
                    await stop.wait()
            except TimeoutError:
                pass
            continue
        if why := obstacle_of(seen, namespace):
            raise UserError(why)
        if warning := warning_of(seen):
            log.warning(warning)
        if not seen.sees_all_pods:
            log.info("looked for another operator in one namespace: the role shows no other", namespace=namespace)
        return
