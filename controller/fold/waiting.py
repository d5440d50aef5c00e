"""What keeps a pod from running for a reason outside the job: the pod's part of Stalled (RULES §4.6).

In: a pod as observed. Out: (reason, message), or None.
"""

from __future__ import annotations

from controller.fold.spec import MAIN_CONTAINER
from controller.model.objects import Pod, Waiting

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
    held: tuple[str, Waiting] | None = None
    for status in (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ())):
        waiting = status.state.waiting if status.state else None
        if waiting and waiting.reason in _REASONS and (held is None or status.name == MAIN_CONTAINER != held[0]):
            held = status.name, waiting
    if held is not None:
        name, waiting = held
        words = f"container {name} of pod {pod.metadata.name}: {waiting.reason}"
        return _REASONS[waiting.reason or ""], f"{words}: {waiting.message}" if waiting.message else words
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            words = f"pod {pod.metadata.name} cannot be scheduled"
            return UNSCHEDULABLE, f"{words}: {condition.message}" if condition.message else words
    return None
