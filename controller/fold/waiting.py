"""What keeps a pod from running for a reason outside the job: the pod's part of Stalled (RULES §4.6).

In: a pod as observed. Out: (reason, message), or None.
"""

from __future__ import annotations

from controller.fold.spec import MAIN_CONTAINER
from controller.model.objects import Pod

UNSCHEDULABLE = "Unschedulable"
"""No node takes the pod; the scheduler's words are in the message."""
IMAGE_PULL = "ImagePull"
"""An image cannot be pulled, or its name is none."""
CONTAINER_CONFIG = "ContainerConfig"
"""A container cannot be made: a missing ConfigMap or Secret, a wrong mount, a command that is not there."""
NODE_UNREACHABLE = "NodeUnreachable"
"""The pod's phase is Unknown: its node does not answer, and the pod has not ended."""

_REASONS = {
    "ErrImagePull": IMAGE_PULL,
    "ImagePullBackOff": IMAGE_PULL,
    "InvalidImageName": IMAGE_PULL,
    "ErrImageNeverPull": IMAGE_PULL,
    "RegistryUnavailable": IMAGE_PULL,
    "ImageInspectError": IMAGE_PULL,
    "CreateContainerConfigError": CONTAINER_CONFIG,
    "CreateContainerError": CONTAINER_CONFIG,
    "RunContainerError": CONTAINER_CONFIG,
    "CreatePodSandboxError": CONTAINER_CONFIG,
}


def waits_of(pod: Pod) -> tuple[str, str] | None:
    """Why a pod that should run does not; the main container's reason before those of the others."""
    if pod.status.phase == "Unknown":
        return NODE_UNREACHABLE, pod.status.message or f"pod {pod.metadata.name} is on a node that does not answer"
    if pod.status.phase in ("Succeeded", "Failed"):
        return None
    statuses = [*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ())]
    waiting_ones = [status for status in statuses if status.state and status.state.waiting]
    for status in sorted(waiting_ones, key=lambda each: each.name != MAIN_CONTAINER):
        waiting = status.state.waiting if status.state else None
        if waiting and waiting.reason in _REASONS:
            words = f"container {status.name} of pod {pod.metadata.name}: {waiting.reason}"
            return _REASONS[waiting.reason], f"{words}: {waiting.message}" if waiting.message else words
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            words = f"pod {pod.metadata.name} cannot be scheduled"
            return UNSCHEDULABLE, f"{words}: {condition.message}" if condition.message else words
    return None
