"""What `tfjob local` shows while jobs run: one line a job, from the job's own status.

In: TFJob objects as the API server has them. Out: rows, a rich table, plain lines. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

FINAL = ("Succeeded", "Failed")


class JobLine(NamedTuple):
    """One job: `replicas` says how many are active, succeeded and failed of how many there are."""

    name: str
    state: str
    replicas: str
    elapsed_seconds: int
    message: str
    is_gone: bool = False
    """It is no longer on the API server."""

    @property
    def has_ended(self) -> bool:
        return self.state in FINAL


def job_line(job: dict[str, Any], elapsed_seconds: float) -> JobLine:
    """The line of one TFJob."""
    status = job.get("status") or {}
    conditions = status.get("conditions") or []
    last = conditions[-1] if conditions else {}
    replicas = []
    for kind, spec in (job["spec"].get("tfReplicaSpecs") or {}).items():
        counts = _counts(status.get("replicaStatuses") or {}, kind)
        words = [f"{counts[key]} {key}" for key in ("active", "succeeded", "failed") if counts.get(key)]
        replicas.append(f"{kind} {spec.get('replicas', 1)}" + (f" ({', '.join(words)})" if words else ""))
    return JobLine(
        name=f"{job['metadata']['namespace']}/{job['metadata']['name']}",
        state=str(last.get("type", "")) or "-",
        replicas=", ".join(replicas),
        elapsed_seconds=int(elapsed_seconds),
        message=str(last.get("message", "")),
    )


def _counts(statuses: dict[str, dict[str, int]], kind: str) -> dict[str, int]:
    """The counts of a type, whatever the case in which the manifest wrote it."""
    return next((counts for key, counts in statuses.items() if key.lower() == kind.lower()), {})


def as_table(lines: Sequence[JobLine]) -> Table:
    """The live table of a terminal."""
    table = Table(box=None, pad_edge=False)
    for title in ("JOB", "STATE", "REPLICAS", "ELAPSED"):
        table.add_column(title, overflow="fold")
    for line in lines:
        colour = {"Succeeded": "green", "Failed": "red", "Running": "cyan"}.get(line.state, "")
        table.add_row(
            Text(line.name), Text(line.state, style=colour), Text(line.replicas), Text(f"{line.elapsed_seconds} s")
        )
    return table


def as_text(line: JobLine) -> str:
    """The same for a pipe: printed when it changes."""
    return f"{line.elapsed_seconds:4d} s  {line.name}  {line.state}  {line.replicas}"
