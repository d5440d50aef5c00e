"""One job read back for an answer: its last state, what failed of it, and what was asked for since (DESIGN §3).

In: a uid, a name. Out: rows and events, few of them however large the log and the job are: each query goes by an index
and has a limit. Never: a write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from controller.log.escape import read_text
from controller.log.reader import EVENTS, event_of
from controller.log.records import AttemptRow
from controller.log.times import instant_of_datetime
from controller.model.actions import Because
from controller.model.events import Event
from controller.model.instants import Instant
from controller.model.replicas import ReplicaType

MOST_ATTEMPTS = 500
MOST_EVENTS = 300
MOST_NAMES = 20_000
SINCE_TRANSITIONS = 3
"""What was asked for is read from the third but last transition on; of an ended job from its end on."""

Fetch = Callable[..., Awaitable[list[Any]]]


class JobRecord(msgspec.Struct, frozen=True):
    """What the log keeps of one job beside its events. `state` is the snapshot's JSON, `failures` the first attempts
    that failed or were disrupted, `events` what was decided, refused, warned of and missed, in order."""

    state: bytes
    parked: str | None
    failures: list[AttemptRow]
    events: list[Event]


class GapRow(msgspec.Struct, frozen=True):
    """A time in which the watch may have missed something; `closed_at` is None while the relist is not through, and
    `changed_count` is what it found changed: of the job, or of all."""

    position: int
    reason: str
    resources: list[str]
    from_at: Instant | None
    to_at: Instant
    closed_at: Instant | None
    changed_count: int


_STATE = "SELECT state, parked FROM job_states WHERE cluster_id = $1 AND job_uid = $2"
_FAILURES = f"""
SELECT type, index, attempt, position, started_at, finished_at, exit_code, pod_name, pod_uid, node,
    encode(spec_hash, 'hex') AS spec_hash, how, reason, message, ended_by
FROM attempts WHERE cluster_id = $1 AND job_uid = $2 AND how IN ('failed', 'disrupted')
ORDER BY position LIMIT {MOST_ATTEMPTS}"""
_ASKED = (
    f"""
WITH ended AS (
    SELECT (SELECT position FROM transitions WHERE cluster_id = $1 AND job_uid = $2 AND status = 'True'
        AND type IN ('Succeeded', 'Failed') ORDER BY position LIMIT 1) AS position
), since AS (
    SELECT coalesce((SELECT position FROM ended),
        (SELECT min(position) FROM (SELECT position FROM transitions WHERE cluster_id = $1 AND job_uid = $2
            ORDER BY position DESC LIMIT {SINCE_TRANSITIONS}) AS last),
        0) AS position
), life AS (
    SELECT (SELECT position FROM events WHERE cluster_id = $1 AND job_uid = $2 ORDER BY position LIMIT 1) AS begins,
        coalesce((SELECT position FROM ended),
            (SELECT position FROM job_states WHERE cluster_id = $1 AND job_uid = $2 AND is_over),
            9223372036854775807) AS ends
), wanted AS (
    (SELECT e.position FROM since JOIN events AS e ON e.cluster_id = $1 AND e.job_uid = $2
        AND e.position >= since.position WHERE e.op = 'DECIDED' ORDER BY e.position LIMIT {MOST_EVENTS})
    UNION
    (SELECT position FROM events WHERE cluster_id = $1 AND job_uid = $2 AND kind = 'Notice'
        ORDER BY position DESC LIMIT {MOST_EVENTS})
    UNION
    (SELECT e.position FROM life JOIN events AS e ON e.cluster_id = $1 AND e.kind = 'Cluster'
        AND e.position BETWEEN life.begins AND life.ends WHERE e.op = 'GAP' ORDER BY e.position LIMIT {MOST_EVENTS})
)"""
    + EVENTS
    + "WHERE e.cluster_id = $1 AND e.position IN (SELECT position FROM wanted) ORDER BY e.position"
)
_LATER = (
    """
WITH wanted AS (
    SELECT position FROM events WHERE cluster_id = $1 AND job_uid = $2 AND position > $3
    UNION
    SELECT position FROM events WHERE cluster_id = $1 AND kind = 'Cluster' AND position > $3
)"""
    + EVENTS
    + "WHERE e.cluster_id = $1 AND e.position IN (SELECT position FROM wanted) ORDER BY e.position"
)
_GAPS = """
WITH life AS (
    SELECT coalesce((SELECT position FROM events WHERE cluster_id = $1 AND job_uid = $2 ORDER BY position LIMIT 1), 0)
        AS begins,
        coalesce((SELECT position FROM job_states WHERE cluster_id = $1 AND job_uid = $2 AND is_over),
            9223372036854775807) AS ends
)
SELECT e.position, e.body ->> 'reason' AS reason,
    ARRAY(SELECT jsonb_array_elements_text(e.body -> 'resources')) AS resources,
    (e.body ->> 'from_at')::bigint AS from_at, (e.body ->> 'to_at')::bigint AS to_at, s.observed_at AS closed_at,
    (SELECT count(*) FROM events AS c WHERE c.cluster_id = $1 AND c.position BETWEEN e.position AND s.position
        AND c.op LIKE 'SYNC\\_%' AND ($2::text IS NULL OR c.job_uid = $2)) AS changed_count
FROM life JOIN events AS e ON e.cluster_id = $1 AND e.kind = 'Cluster' AND e.op = 'GAP'
    AND e.position BETWEEN life.begins AND life.ends
LEFT JOIN LATERAL (SELECT s.position, s.observed_at FROM events AS s WHERE s.cluster_id = $1 AND s.kind = 'Cluster'
    AND s.op = 'SYNCED' AND s.position > e.position ORDER BY s.position LIMIT 1) AS s ON true
ORDER BY e.position DESC"""
_NAMES = f"SELECT DISTINCT namespace, name FROM job_states WHERE cluster_id = $1 LIMIT {MOST_NAMES}"


async def read_record(fetch: Fetch, job_uid: str) -> JobRecord | None:
    """The job's record; None when no state of that uid was ever saved."""
    found = await fetch(_STATE, job_uid)
    if not found:
        return None
    parked = found[0]["parked"]
    return JobRecord(
        state=found[0]["state"],
        parked=None if parked is None else read_text(parked),
        failures=[_attempt(job_uid, row) for row in await fetch(_FAILURES, job_uid)],
        events=[event_of(row) for row in await fetch(_ASKED, job_uid)],
    )


async def read_later(fetch: Fetch, job_uid: str, after: int) -> list[Event]:
    """A job's own events above a position, and what concerned every job, in order."""
    return [event_of(row) for row in await fetch(_LATER, job_uid, after)]


async def read_gaps(fetch: Fetch, job_uid: str | None) -> list[GapRow]:
    """The gaps, newest first: those while the job lived, or all."""
    return [
        GapRow(
            position=row["position"],
            reason=row["reason"],
            resources=row["resources"],
            from_at=row["from_at"],
            to_at=row["to_at"],
            closed_at=None if row["closed_at"] is None else instant_of_datetime(row["closed_at"]),
            changed_count=row["changed_count"],
        )
        for row in await fetch(_GAPS, job_uid)
    ]


async def read_names(fetch: Fetch) -> list[tuple[str, str]]:
    """(namespace, name) of the jobs that the log knows."""
    return [(row[0], row[1]) for row in await fetch(_NAMES)]


def _attempt(job_uid: str, row: Any) -> AttemptRow:
    started_at, finished_at, ended_by = row["started_at"], row["finished_at"], row["ended_by"]
    return AttemptRow(
        job_uid=job_uid,
        type=ReplicaType(row["type"]),
        index=row["index"],
        attempt=row["attempt"],
        pod_name=row["pod_name"],
        pod_uid=row["pod_uid"],
        position=row["position"],
        node=row["node"],
        spec_hash=row["spec_hash"],
        started_at=None if started_at is None else instant_of_datetime(started_at),
        finished_at=None if finished_at is None else instant_of_datetime(finished_at),
        exit_code=row["exit_code"],
        how=row["how"],
        reason=read_text(row["reason"]),
        message=read_text(row["message"]),
        ended_by=None if ended_by is None else Because(ended_by),
    )
