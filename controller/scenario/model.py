"""A scenario as parsed: steps with one verb each (the format is documented in docs/SCENARIOS.md).

Out: frozen values. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One step: its verb, the verb's value, and where it stands, e.g. `steps[3]` or `steps[3].gap[0]`."""

    verb: str
    value: Any
    path: str


class Scenario(NamedTuple):
    """One file. `job` is the manifest with its defaults filled in; `only` names the ways of running that make sense."""

    file: str
    title: str
    job: dict[str, Any]
    settings: dict[str, Any]
    steps: tuple[Step, ...]
    only: tuple[str, ...]

    def is_for(self, way: str) -> bool:
        """Whether this way of running (core, local, cluster) makes sense for it."""
        return not self.only or way in self.only

    def all_steps(self) -> Iterator[Step]:
        """Its steps, those inside a gap included, in order."""
        for step in self.steps:
            yield step
            if step.verb == "gap":
                yield from step.value


class WrongStep(Exception):
    """A step that cannot be: a mistake of the file. `path` is its place."""

    path = ""


class PodReport(NamedTuple):
    """What the kubelet reports of a pod: the STATE of a `pods` step, as a map."""

    phase: str = "Running"
    exit_code: int | None = None
    reason: str = ""
    pod_reason: str = ""
    message: str = ""
    restart_count: int | None = None
    """None: not said; a kubelet goes on counting from what it reported before."""
    last_exit_code: int | None = None
    waiting: str = ""
    unschedulable: str = ""
    main: dict[str, Any] | None = None
    sidecar: Any = None
    init: dict[str, Any] | None = None
    disruption: str = ""
    is_bound: bool = True
