"""API server → observations: which resources are watched, where they are, and which of their objects are ours.

Out: one `Resource` each. Sources: DESIGN §2 (what is watched), RULES §10 (labels, gang scheduling).
"""

from __future__ import annotations

from typing import NamedTuple

from controller.model.names import GROUP, JOB_NAME_LABEL
from controller.model.settings import GangScheduler


class Resource(NamedTuple):
    """One watched resource. `name` is its plural, under which heads and marks are kept."""

    name: str
    kind: str
    prefix: str
    """API path up to the version."""
    label_selector: str | None = None
    field_selector: str | None = None
    is_evidence: bool = False
    """Recorded for people only: no gap is opened for it, nothing waits for it, and its deletions mean nothing."""

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The path of the collection (everywhere when `namespace` is None) or of one object."""
        where = self.prefix if namespace is None else f"{self.prefix}/namespaces/{namespace}"
        return f"{where}/{self.name}" if name is None else f"{where}/{self.name}/{name}"

    @property
    def says_deleted_for_edits(self) -> bool:
        """True when a DELETED may only mean that the object no longer matches the selector."""
        return self.label_selector is not None or self.field_selector is not None


TFJOBS = Resource("tfjobs", "TFJob", f"/apis/{GROUP}/v1")
PODS = Resource("pods", "Pod", "/api/v1", label_selector=JOB_NAME_LABEL)
SERVICES = Resource("services", "Service", "/api/v1", label_selector=JOB_NAME_LABEL)
NOTICES = Resource("events", "Event", "/api/v1", field_selector="type=Warning", is_evidence=True)
"""core/v1 Events, warnings only; whether one is about our objects is told by its involvedObject."""

POD_GROUPS = {
    GangScheduler.VOLCANO: Resource(
        "podgroups", "PodGroup", "/apis/scheduling.volcano.sh/v1beta1", label_selector=JOB_NAME_LABEL
    ),
    GangScheduler.SCHEDULER_PLUGINS: Resource(
        "podgroups", "PodGroup", "/apis/scheduling.x-k8s.io/v1alpha1", label_selector=JOB_NAME_LABEL
    ),
}


def resources_of(gang_scheduler: GangScheduler) -> tuple[Resource, ...]:
    """What is watched with this setting. TFJobs come first: their list is the shortest and the rest belongs to them."""
    group = POD_GROUPS.get(gang_scheduler)
    return (TFJOBS, PODS, SERVICES, *([group] if group else []), NOTICES)
