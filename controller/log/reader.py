"""Reading the log: events in order, one job's events, and what a start needs to go on.

In: positions, uids, names. Out: events as they were committed; rows of the tables beside them. Readers need no lock:
commit order is the order of positions, so what is above a position comes later (DESIGN §3). Never: a write.
"""

from __future__ import annotations

from typing import Any

import asyncpg

from controller.log.errors import translated
from controller.log.escape import read_text
from controller.log.facts import KIND_OF_RESOURCE, fact_of
from controller.log.records import Head, JobRow, JobSnapshot, SessionMark
from controller.log.times import instant_of_datetime
from controller.model.events import Event, Op, Transition

EVENTS = """
SELECT e.position, e.observed_at, e.op, e.kind, e.schema_number, e.body::text, s.spec::text, e.namespace, e.name, e.uid,
    e.resource_version::text, e.job_uid, e.job_name, encode(e.spec_hash, 'hex')
FROM events AS e
LEFT JOIN object_specs AS s ON e.kind = 'TFJob' AND s.cluster_id = e.cluster_id AND s.spec_hash = e.spec_hash
"""
_READ = EVENTS + "WHERE e.cluster_id = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position LIMIT $4"

# Its own; pods, services and PodGroups of others that carry its name, and what concerns every job, while it lives.
_READ_JOB = (
    """
WITH life AS (
    SELECT b.position AS begins, b.namespace, b.name,
        coalesce((SELECT position FROM job_states WHERE cluster_id = $1 AND job_uid = $2 AND is_over), $3) AS ends
    FROM (SELECT position, namespace, name FROM events WHERE cluster_id = $1 AND job_uid = $2 AND kind = 'TFJob'
        ORDER BY position LIMIT 1) AS b
), wanted AS (
    SELECT position FROM events WHERE cluster_id = $1 AND job_uid = $2
    UNION
    SELECT e.position FROM life JOIN events AS e ON e.cluster_id = $1 AND e.namespace = life.namespace
        AND e.job_name = life.name AND e.position BETWEEN life.begins AND life.ends
        AND e.kind IN ('Pod', 'Service', 'PodGroup')
    UNION
    SELECT e.position FROM life JOIN events AS e ON e.cluster_id = $1 AND e.kind = 'Cluster'
        AND e.position BETWEEN life.begins AND life.ends
)"""
    + EVENTS
    + "WHERE e.cluster_id = $1 AND e.position IN (SELECT position FROM wanted) ORDER BY e.position"
)

# The newest of each kind that says something lasting, and every GAP that no SYNCED has ended.
_LASTING = (
    """
WITH newest AS (
    SELECT lasting.op, (SELECT position FROM events AS e WHERE e.cluster_id = $1 AND e.kind = 'Cluster'
        AND e.op = lasting.op AND e.position <= $2 ORDER BY e.position DESC LIMIT 1) AS position
    FROM unnest(ARRAY['SETTINGS', 'LEADER', 'CLOCK', 'SYNCED']) AS lasting (op)
), wanted AS (
    SELECT position FROM newest
    UNION
    SELECT position FROM events WHERE cluster_id = $1 AND kind = 'Cluster' AND op = 'GAP' AND position <= $2
        AND position > coalesce((SELECT position FROM newest WHERE op = 'SYNCED'), 0)
)"""
    + EVENTS
    + "WHERE e.cluster_id = $1 AND e.position IN (SELECT position FROM wanted) ORDER BY e.position"
)

_JOBS = """
SELECT j.namespace, j.name, j.job_uid, j.phase, j.is_over, j.parked, first.observed_at AS first_at,
    (SELECT observed_at FROM events AS e WHERE e.cluster_id = $1 AND e.job_uid = j.job_uid
        ORDER BY position DESC LIMIT 1) AS last_at,
    (SELECT at FROM transitions AS t WHERE t.cluster_id = $1 AND t.job_uid = j.job_uid AND t.status = 'True'
        AND t.type IN ('Succeeded', 'Failed') ORDER BY position LIMIT 1) AS finished_at
FROM job_states AS j CROSS JOIN LATERAL (
    SELECT position, observed_at FROM events AS e WHERE e.cluster_id = $1 AND e.job_uid = j.job_uid
    ORDER BY position LIMIT 1) AS first
WHERE j.cluster_id = $1 AND ($2::text IS NULL OR j.namespace = $2)"""
_ALL_JOBS = _JOBS + " ORDER BY first.position DESC"
# Each side of the OR has an index of its own.
_NAMED_JOBS = _JOBS + " AND (j.name = $3 OR j.job_uid = $3) ORDER BY first.position DESC"

_SNAPSHOTS = """
SELECT job_uid, namespace, name, position, state, phase, is_over, parked FROM job_states
WHERE cluster_id = $1 AND (NOT is_over OR position > $2) ORDER BY position"""
_HEADS = """
SELECT kind, namespace, name, uid, resource_version::text, job_uid, job_name FROM heads
WHERE cluster_id = $1 AND kind = $2 AND NOT is_deleted"""
_MARKS = (
    "SELECT resource, scope, resource_version::text, start_kind, marked_at FROM watch_sessions WHERE cluster_id = $1"
)
_TRANSITIONS = """
SELECT position, ordinal, type, status, reason, message, at, by_gap FROM transitions
WHERE cluster_id = $1 AND job_uid = $2 ORDER BY position, ordinal"""

_MOST = 2**63 - 1


class Reader:
    """Reads one cluster's log over a pool of connections."""

    def __init__(self, pool: asyncpg.Pool, cluster: str) -> None:
        self._pool = pool
        self._cluster = cluster
        self._cluster_id: int | None = None

    async def read(self, after: int, *, limit: int, upto: int | None) -> list[Event]:
        rows = await self.fetch(_READ, after, _MOST if upto is None else upto, limit)
        return [event_of(row) for row in rows]

    async def read_job(self, job_uid: str) -> list[Event]:
        return [event_of(row) for row in await self.fetch(_READ_JOB, job_uid, _MOST)]

    async def cluster_facts(self, upto: int) -> list[Event]:
        return [event_of(row) for row in await self.fetch(_LASTING, upto)]

    async def cursor(self) -> int:
        rows = await self.fetch("SELECT position FROM projections WHERE cluster_id = $1 AND name = 'jobs'")
        return rows[0][0] if rows else 0

    async def position(self) -> int:
        rows = await self.fetch("SELECT position FROM log_head WHERE cluster_id = $1")
        return rows[0][0] if rows else 0

    async def snapshots(self) -> list[JobSnapshot]:
        return [
            JobSnapshot(uid, namespace, name, position, state, phase, is_over, _read(parked))
            for uid, namespace, name, position, state, phase, is_over, parked in await self.fetch(
                _SNAPSHOTS, await self.cursor()
            )
        ]

    async def heads(self, resource: str) -> dict[str, Head]:
        rows = await self.fetch(_HEADS, KIND_OF_RESOURCE.get(resource, resource))
        found = (
            Head(kind, read_text(namespace), read_text(name), read_text(uid), int(version), _read(job_uid), _read(job))
            for kind, namespace, name, uid, version, job_uid, job in rows
        )
        return {head.uid: head for head in found}

    async def marks(self, scope: str) -> dict[str, SessionMark]:
        return {
            resource: SessionMark(resource, int(version), start_kind, instant_of_datetime(marked_at), of)
            for resource, of, version, start_kind, marked_at in await self.fetch(_MARKS)
            if of == scope
        }

    async def jobs(self, namespace: str | None, name_or_uid: str | None) -> list[JobRow]:
        if name_or_uid is None:
            rows = await self.fetch(_ALL_JOBS, namespace)
        else:
            rows = await self.fetch(_NAMED_JOBS, namespace, name_or_uid)
        return [
            JobRow(
                namespace=row["namespace"],
                name=row["name"],
                job_uid=row["job_uid"],
                phase=row["phase"],
                first_at=instant_of_datetime(row["first_at"]),
                last_at=instant_of_datetime(row["last_at"]),
                finished_at=None if row["finished_at"] is None else instant_of_datetime(row["finished_at"]),
                is_over=row["is_over"],
                parked=_read(row["parked"]),
            )
            for row in rows
        ]

    async def transitions_of(self, job_uid: str) -> list[Transition]:
        return [
            Transition(
                position, ordinal, type_, status, read_text(reason), read_text(message), instant_of_datetime(at), by_gap
            )
            for position, ordinal, type_, status, reason, message, at, by_gap in await self.fetch(_TRANSITIONS, job_uid)
        ]

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of a query whose first argument is the cluster's id; none while nobody has led the log."""
        with translated("reading the log"):
            if self._cluster_id is None:
                # Looked up again until it is there: the first leader makes it.
                self._cluster_id = await self._pool.fetchval(
                    "SELECT cluster_id FROM log_head WHERE cluster = $1", self._cluster
                )
                if self._cluster_id is None:
                    return []
            rows: list[Any] = await self._pool.fetch(statement, self._cluster_id, *arguments)
            return rows


def _read(text: str | None) -> str | None:
    return None if text is None else read_text(text)


def event_of(row: Any) -> Event:
    """The event of a row of `EVENTS`."""
    (
        position,
        observed_at,
        op_name,
        kind,
        schema_number,
        body,
        spec,
        namespace,
        name,
        uid,
        resource_version,
        job_uid,
        job_name,
        spec_hash,
    ) = row
    op = Op(op_name)
    return Event(
        position,
        instant_of_datetime(observed_at),
        op,
        fact_of(op, kind, schema_number, body, spec),
        read_text(namespace),
        read_text(name),
        read_text(uid),
        int(resource_version),
        _read(job_uid),
        _read(job_name),
        spec_hash,
    )
