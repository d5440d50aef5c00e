"""API server → observations: whether the stream has told all that there is of one job's objects (RULES §11).

In: a list of one job's objects, what is known. Out: what the stream has yet to tell. Never: an observation. A list
shows objects as they are and not what they were in between: that is the stream's to bring, or a gap's to own up to.
"""

from __future__ import annotations

from controller.errors import Temporary
from controller.kube.client import KubeClient
from controller.model.names import JOB_NAME_LABEL
from controller.watch.absence import Listed, NoProof, listed
from controller.watch.heads import Heads
from controller.watch.resources import Resource

LOOK_SECONDS = 5.0
"""So long a stream may take to tell what a list shows already; then it lags, or is half open."""


class Lags(Temporary):
    """The stream has not told everything yet. It has been begun again where it stopped."""


def untold(found: Listed, heads: Heads, namespace: str, job_name: str) -> list[str]:
    """The uids of which the stream has yet to tell a version, or the end."""
    late = [uid for uid, version in found.versions.items() if heads.lags(uid, version)]
    gone = [head for head in heads.of_job(namespace, job_name) if head.uid not in found.versions]
    return late + [head.uid for head in gone if head.resource_version <= found.resource_version]


async def seen_of_job(client: KubeClient, resource: Resource, heads: Heads, namespace: str, job_name: str) -> Listed:
    """A list of one job's objects. Raises ApiError, BadLine; NoProof for one that is older than what is known."""
    found = await listed(client, resource, namespace, f"{JOB_NAME_LABEL}={job_name}")
    if found.resource_version < heads.highest:
        raise NoProof(f"a list of {resource.name} at {found.resource_version}, below {heads.highest}")
    return found
