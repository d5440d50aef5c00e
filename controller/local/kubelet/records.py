"""What the kubelet knows of a container: frozen states, and the one record that moves from state to state."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.instants import Instant

__all__ = ["ContainerRecord", "ContainerState", "Running", "Terminated", "Waiting"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started: `reason` is the kubelet's word (ContainerCreating, CrashLoopBackOff, …)."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    started_at: Instant
    container_id: str


@dataclass(frozen=True, slots=True)
class Terminated:
    """Ended. A process ended by signal n has `exit_code` 128 + n, as a container runtime reports it."""

    exit_code: int
    reason: str
    message: str
    started_at: Instant
    finished_at: Instant
    container_id: str


ContainerState = Waiting | Running | Terminated


@dataclass(slots=True)
class ContainerRecord:
    """One container of one pod. `last` is how its previous run ended, `restart_count` how often it was started anew."""

    name: str
    image: str
    state: ContainerState
    last: Terminated | None = None
    restart_count: int = 0

    @property
    def end(self) -> Terminated | None:
        """How it ended most recently, if it is not running now."""
        match self.state:
            case Terminated():
                return self.state
            case Waiting():
                return self.last
            case Running():
                return None
