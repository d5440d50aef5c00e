"""Following submitted jobs to their end, and to the end of their cleanup.

In: the local API server's objects, time. Out: one line a job, and whether all is through. Never: waits, or prints.
"""

from __future__ import annotations

from typing import Any

from controller.local.apiserver.failures import ApiFailure
from controller.local.apiserver.store import Store
from controller.local.table import JobLine, job_line
from controller.model.names import JOB_NAME_LABEL

CLEANUP_SECONDS = 60.0
"""How long the end of a job is given to release its pods: twice Kubernetes' default grace period."""
TFJOBS = "tfjobs.kubeflow.org"
_BUSY = ("Running", "Pending")


class Following:
    """The jobs of one `tfjob local`, as they were at the last `look`."""

    def __init__(self, store: Store, jobs: list[tuple[str, str]], began_at: float) -> None:
        self.lines: dict[tuple[str, str], JobLine] = {}
        self._store = store
        self._jobs = jobs
        self._began_at = began_at
        self._ended_at: dict[tuple[str, str], float] = {}
        self._keeps_pods: set[tuple[str, str]] = set()

    def look(self, now: float) -> list[JobLine]:
        """Reads every job once; the lines that changed."""
        changed = []
        for key in self._jobs:
            before = self.lines.get(key)
            line = self._line(key, now, before)
            if line.has_ended or line.is_gone:
                self._ended_at.setdefault(key, now)
            self.lines[key] = line
            if before is None or before[:3] != line[:3]:
                changed.append(line)
        return changed

    def is_through(self, now: float) -> bool:
        """All jobs have ended, and what their cleanPodPolicy releases is gone, or took too long."""
        if len(self._ended_at) < len(self._jobs):
            return False
        return self._is_clean() or now - max(self._ended_at.values(), default=now) > CLEANUP_SECONDS

    def all_succeeded(self) -> bool:
        return all(line.state == "Succeeded" for line in self.lines.values()) and len(self.lines) == len(self._jobs)

    def _line(self, key: tuple[str, str], now: float, before: JobLine | None) -> JobLine:
        try:
            job = self._store.get(TFJOBS, *key)
        except ApiFailure:
            # A TTL, or somebody with kubectl: what was seen of it last stays.
            gone = before or JobLine("/".join(key), "-", "", 0, "")
            return gone._replace(is_gone=True)
        if _policy_of(job) == "None":
            self._keeps_pods.add(key)
        return job_line(job, self._ended_at.get(key, now) - self._began_at)

    def _is_clean(self) -> bool:
        for pod in self._store.list("pods"):
            metadata = pod["metadata"]
            owner = (metadata.get("namespace", ""), (metadata.get("labels") or {}).get(JOB_NAME_LABEL))
            is_busy = (pod.get("status") or {}).get("phase") in _BUSY and owner not in self._keeps_pods
            if metadata.get("deletionTimestamp") or is_busy:
                return False
        return True


def _policy_of(job: dict[str, Any]) -> str | None:
    spec = job.get("spec") or {}
    found: str | None = (spec.get("runPolicy") or {}).get("cleanPodPolicy") or spec.get("cleanPodPolicy")
    return found
