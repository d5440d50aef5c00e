"""API server → is what a setting needs there: the PodGroups of a gang scheduler.

In: a client, the setting. Out: nothing, or a UserError in words. Never: a wait for a server that does not answer; the
watches wait for it.
"""

from __future__ import annotations

from controller.errors import UserError
from controller.kube import ApiError, KubeClient, NotFound
from controller.model.settings import GangScheduler
from controller.watch.resources import POD_GROUPS

LOOK_SECONDS = 10.0


async def require_pod_groups(client: KubeClient, gang_scheduler: GangScheduler) -> None:
    """Raises UserError (exit 2) when the API server answers that it has no PodGroups of this scheduler: every pod would
    wait for one for ever."""
    resource = POD_GROUPS.get(gang_scheduler)
    if resource is None:
        return
    try:
        answer = await client.request("GET", resource.prefix, timeout_seconds=LOOK_SECONDS)
        is_served = any(each.get("name") == resource.name for each in answer.json().get("resources") or ())
    except NotFound:
        is_served = False
    except ApiError:
        return
    if not is_served:
        group = resource.prefix.removeprefix("/apis/")
        raise UserError(
            f"--gang-scheduler {gang_scheduler.value}: the API server has no PodGroups ({group}): "
            f"install {gang_scheduler.value}, or leave the setting out"
        )
