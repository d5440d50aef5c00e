"""API server → observations: proof, now and then, that the stream told the truth (DESIGN §3).

In: a list of names and versions, and what the stream has told up to the same resourceVersion. Out: the objects about
which they differ. Never: a row; a difference that is only the stream being a little behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controller.kube.client import KubeClient
from controller.watch.absence import listed
from controller.watch.heads import Heads
from controller.watch.resources import Resource


async def differences(
    client: KubeClient,
    resource: Resource,
    namespace: str | None,
    heads: Heads,
    reached: Callable[[int], Awaitable[None]],
) -> list[str]:
    """The uids of objects of which the stream told too little: a version, or a deletion, is missing.

    `reached(v)` returns when the stream has told everything up to `v`. Raises ApiError, BadLine or NoProof.
    """
    versions, at = await listed(client, resource, namespace, resource.label_selector)
    await reached(at)
    untold = [uid for uid, version in versions.items() if heads.lags(uid, version)]
    # An object without the label is not listed any more, and stays known until it is found gone.
    lingering = [head.uid for head in heads.missing(set(versions)) if head.resource_version <= at and head.job_name]
    return untold + lingering
