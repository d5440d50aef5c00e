"""The rules of the Lease: what was seen of it, and for how long → take it, wait, go on, or stop (DESIGN §4).

In: a Lease's body, this process's memory of it, its own monotonic clock. Out: a `Decision`; the body to write.
Never: a clock of another machine: a Lease is over when it has not changed for its whole length on our clock.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any

import msgspec

EPOCH_ANNOTATION = "tfjob.kubeflow.org/log-epoch"
"""The highest epoch of the log under this Lease: a log that is restored from a backup does not know it (DESIGN §3)."""


class Pace(msgspec.Struct, frozen=True):
    """How long what takes."""

    lease_seconds: float = 15.0
    """After so long without a change another may lead."""
    retry_seconds: float = 2.0
    """Between two renewals, and between two looks of who stands by."""

    @property
    def renew_within_seconds(self) -> float:
        """A leader that could not renew for so long stops: what it has sent is over before another leads."""
        return self.lease_seconds * 2 / 3

    @property
    def request_seconds(self) -> float:
        """One request about the Lease: a hung connection leaves time for another."""
        return self.lease_seconds / 3

    def pause_seconds(self, luck: float) -> float:
        """`retry_seconds` spread by a quarter, by `luck` in [0, 1), so that two do not go on in step."""
        return self.retry_seconds * (1 + 0.25 * luck)


class LeaseSeen(msgspec.Struct, frozen=True):
    """What counts of a Lease. `mark` differs after each renewal, whoever made it; labels do not count."""

    holder: str
    seconds: float
    mark: tuple[str, ...]
    epoch: int


class Memory(msgspec.Struct, frozen=True):
    """What this process saw last, and since when on its monotonic clock nothing changed."""

    seen: LeaseSeen | None = None
    changed_at: float | None = None
    """None: nothing was ever seen."""

    def after(self, seen: LeaseSeen | None, now: float) -> Memory:
        """The memory after a look. A Lease that is gone keeps what it was: its holder may not know yet."""
        if seen is None or (self.seen is not None and self.seen.mark == seen.mark):
            return self
        return Memory(seen, now)


class Decision(Enum):
    """What a process does about the Lease now."""

    ACQUIRE = auto()
    WAIT = auto()
    RENEW = auto()
    LOST = auto()


def decision_of(
    seen: LeaseSeen | None, memory: Memory, now: float, holder: str, pace: Pace, *, is_held: bool
) -> Decision:
    """`memory` includes `seen`; `now` is monotonic. `is_held`: this process leads (its deadline is the Term's affair).

    A leader that finds the Lease gone, released or another's has lost it. Who stands by takes what is free: never
    written, given back, its own (the answer to its write was lost), or unchanged for its whole length.
    """
    if is_held:
        return Decision.RENEW if seen is not None and seen.holder == holder else Decision.LOST
    if seen is not None and seen.holder in ("", holder):
        return Decision.ACQUIRE
    if memory.seen is None or memory.changed_at is None or memory.seen.holder in ("", holder):
        return Decision.ACQUIRE
    # The longer of the two: holders may be set up differently, and neither may lose what it was promised.
    length = max(memory.seen.seconds, pace.lease_seconds)
    return Decision.ACQUIRE if now - memory.changed_at >= length else Decision.WAIT


def lease_seen(body: dict[str, Any] | None) -> LeaseSeen | None:
    """The Lease in an answer's body; None for none. What a foreign hand wrote wrongly counts as absent."""
    if body is None:
        return None
    spec = body.get("spec") or {}
    marks = (body["metadata"].get("uid"), *(spec.get(key) for key in _MARKS))
    return LeaseSeen(
        holder=spec.get("holderIdentity") or "",
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        mark=tuple(str(each) for each in marks),
        epoch=_epoch_of(body),
    )


_MARKS = ("holderIdentity", "acquireTime", "renewTime", "leaseTransitions")


def renewed_body(
    body: dict[str, Any] | None, name: str, holder: str, now: float, pace: Pace, epoch: int
) -> dict[str, Any]:
    """The Lease to write: `body` (None: a new one) renewed, taken, or (an empty `holder`) given back.

    `now`, seconds since the epoch, is for people, and so that each renewal differs from the one before; `epoch` is
    written unless a higher one stands there.
    """
    found: dict[str, Any] = copy.deepcopy(body) if body is not None else {"metadata": {"name": name}}
    found |= {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    spec = found["spec"] = dict(found.get("spec") or {})
    renewed_at = _later(now, spec.get("renewTime"))
    if holder != (spec.get("holderIdentity") or ""):
        if holder:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (body is not None)
        spec["acquireTime"] = renewed_at
    spec["renewTime"] = renewed_at
    # The field takes whole seconds: never shorter than what this process counts on.
    spec["leaseDurationSeconds"] = max(1, -int(-pace.lease_seconds // 1)) if holder else 1
    spec["holderIdentity"] = holder
    if epoch > _epoch_of(found):
        annotations = found["metadata"]["annotations"] = dict(found["metadata"].get("annotations") or {})
        annotations[EPOCH_ANNOTATION] = str(epoch)
    return found


def _epoch_of(body: dict[str, Any]) -> int:
    text = str((body["metadata"].get("annotations") or {}).get(EPOCH_ANNOTATION, ""))
    return int(text) if text.isascii() and text.isdigit() else 0


def _later(now: float, before: Any) -> str:
    """`now` as a MicroTime, at least a microsecond after `before`, whose machine's clock may be ahead."""
    at = datetime.fromtimestamp(now, UTC)
    with suppress(ValueError, TypeError, OverflowError):
        at = max(at, datetime.fromisoformat(str(before).replace("Z", "+00:00")) + timedelta(microseconds=1))
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
