"""The writer's SQL: five statements a commit, BEGIN and COMMIT among them, whatever its size.

In: batches. Out: statements and their arguments, a column an array (`INSERT … SELECT unnest`, DESIGN §4).
Names of tables and columns: migrations/.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from controller.log.accept import Batch, LogHead
from controller.log.escape import stored_json, stored_text
from controller.log.records import Append
from controller.log.times import datetime_of
from controller.model.events import DELETIONS, EVENT_SCHEMA

_HEAD = "position, epoch, incarnation, commit_hash, observed_at, restoring"

LOCK = f"SELECT {_HEAD} FROM log_head WHERE cluster_id = $1 FOR UPDATE"
LOCK_BY_NAME = f"SELECT cluster_id, {_HEAD} FROM log_head WHERE cluster = $1 FOR UPDATE"

FOUND = """
INSERT INTO log_head (cluster, position, incarnation, epoch, commit_hash, observed_at, restoring)
SELECT $1, 0, 1, 0, '', to_timestamp(0), '{}' WHERE NOT EXISTS (SELECT FROM log_head WHERE cluster = $1)
ON CONFLICT (cluster) DO NOTHING"""

END_OTHER = """
SELECT pg_terminate_backend(s.pid) FROM log_head AS h
JOIN pg_stat_activity AS s ON s.pid = h.writer_pid AND s.backend_start = h.writer_started_at
WHERE h.cluster = $1 AND s.pid <> pg_backend_pid()"""

BACKEND = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"

LEAD = """
UPDATE log_head SET epoch = $2, incarnation = $3, holder = $4, code_version = $5, writer_pid = $6,
    writer_started_at = $7, committed_at = clock_timestamp() WHERE cluster_id = $1"""

KNOWN = """
SELECT uid, resource_version::text, is_deleted, NULL AS key FROM heads WHERE cluster_id = $1 AND uid = ANY($2::text[])
UNION ALL
SELECT NULL, NULL, NULL, key FROM events WHERE cluster_id = $1 AND key = ANY($3::text[])"""

APPEND = """
WITH new_specs AS (
    INSERT INTO object_specs (cluster_id, spec_hash, first_position, kind, spec)
    SELECT $1, decode(hash, 'hex'), position, kind, spec::jsonb
    FROM unnest($19::text[], $20::bigint[], $21::text[], $22::text[]) AS given (hash, position, kind, spec)
    ON CONFLICT DO NOTHING
), new_heads AS (
    INSERT INTO heads
        (cluster_id, uid, position, resource_version, is_deleted, kind, namespace, name, job_uid, job_name)
    SELECT $1, e.uid, e.position, e.rv::numeric, h.is_deleted, e.kind, e.namespace, e.name, e.job_uid, e.job_name
    FROM unnest($17::bigint[], $18::boolean[]) AS h (position, is_deleted)
    JOIN unnest($5::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
        AS e (position, kind, namespace, name, uid, rv, job_uid, job_name) USING (position)
    ON CONFLICT (cluster_id, uid) DO UPDATE SET
        position = excluded.position, resource_version = excluded.resource_version, is_deleted = excluded.is_deleted,
        job_uid = excluded.job_uid, job_name = excluded.job_name
)
INSERT INTO events (cluster_id, epoch, incarnation, schema_number, position, observed_at, op, kind, namespace, name,
    uid, resource_version, job_uid, job_name, spec_hash, key, body)
SELECT $1, $2, $3, $4, position, observed_at, op, kind, namespace, name, uid, rv::numeric, job_uid, job_name,
    decode(spec_hash, 'hex'), key, body::jsonb
FROM unnest($5::bigint[], $6::timestamptz[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
    $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $23::text[])
    AS e (position, observed_at, op, kind, namespace, name, uid, rv, job_uid, job_name, spec_hash, key, body)"""

REST = """
WITH marked AS (
    INSERT INTO watch_sessions (cluster_id, resource, scope, resource_version, start_kind, epoch, marked_at)
    SELECT $1, resource, scope, rv::numeric, start_kind, $8, marked_at
    FROM unnest($10::text[], $11::text[], $12::text[], $13::text[], $14::timestamptz[])
        AS given (resource, scope, rv, start_kind, marked_at)
    ON CONFLICT (cluster_id, resource, scope) DO UPDATE SET resource_version = excluded.resource_version,
        start_kind = excluded.start_kind, epoch = excluded.epoch, marked_at = excluded.marked_at
), folded AS (
    INSERT INTO projections (cluster_id, name, position) SELECT $1, 'jobs', $9 WHERE $9::bigint IS NOT NULL
    ON CONFLICT (cluster_id, name) DO UPDATE SET position = excluded.position
), changed AS (
    INSERT INTO transitions (cluster_id, job_uid, position, ordinal, at, by_gap, type, status, reason, message)
    SELECT $1, * FROM unnest($15::text[], $16::bigint[], $17::smallint[], $18::timestamptz[], $19::boolean[],
        $20::text[], $21::text[], $22::text[], $23::text[])
    ON CONFLICT DO NOTHING
), saved AS (
    INSERT INTO job_states (cluster_id, job_uid, namespace, name, position, phase, is_over, parked, state)
    SELECT $1, * FROM unnest($24::text[], $25::text[], $26::text[], $27::bigint[], $28::text[], $29::boolean[],
        $30::text[], $31::bytea[])
    ON CONFLICT (cluster_id, job_uid) DO UPDATE SET position = excluded.position, phase = excluded.phase,
        is_over = excluded.is_over, parked = excluded.parked, state = excluded.state
    WHERE job_states.position <= excluded.position
), tried AS (
    INSERT INTO attempts (cluster_id, job_uid, type, index, attempt, pod_name, pod_uid, position, node, spec_hash,
        started_at, finished_at, exit_code, how, reason, message, ended_by)
    SELECT $1, job_uid, type, index, attempt, pod_name, pod_uid, position, node, decode(spec_hash, 'hex'), started_at,
        finished_at, exit_code, how, reason, message, ended_by
    FROM unnest($32::text[], $33::text[], $34::integer[], $35::integer[], $36::text[], $37::text[], $38::bigint[],
        $39::text[], $40::text[], $41::timestamptz[], $42::timestamptz[], $43::integer[], $44::text[], $45::text[],
        $46::text[], $47::text[])
        AS given (job_uid, type, index, attempt, pod_name, pod_uid, position, node, spec_hash, started_at, finished_at,
            exit_code, how, reason, message, ended_by)
    ON CONFLICT (cluster_id, job_uid, type, index, attempt) DO UPDATE SET
        position = excluded.position, started_at = excluded.started_at, finished_at = excluded.finished_at,
        exit_code = excluded.exit_code, pod_name = excluded.pod_name, pod_uid = excluded.pod_uid, node = excluded.node,
        spec_hash = excluded.spec_hash, how = excluded.how, reason = excluded.reason, message = excluded.message,
        ended_by = excluded.ended_by
    WHERE attempts.position <= excluded.position
), moved AS (
    UPDATE log_head SET position = $2, commit_hash = $3, observed_at = $4, restoring = $5, writer_pid = $6,
        writer_started_at = $7, committed_at = clock_timestamp()
    WHERE cluster_id = $1 AND epoch = $8
    RETURNING cluster, position
)
SELECT pg_notify('tfjob_log', json_build_object('cluster', cluster, 'position', position)::text) FROM moved"""
"""Ends with one NOTIFY a commit: other processes wake up and read on from where they are."""


def append_arguments(cluster_id: int, batch: Batch, stored_specs: Collection[str]) -> list[Any]:
    """The arguments of APPEND. `stored_specs` are hashes that the log has: they are not sent again."""
    rows = batch.accepted
    specs = {
        row.stored.spec_hash: row for row in reversed(rows) if row.stored.spec_hash and row.stored.spec is not None
    }
    new_specs = [(hash_, row) for hash_, row in specs.items() if hash_ not in stored_specs]
    events = [row.event for row in rows]
    return [
        cluster_id,
        batch.head.epoch,
        batch.head.incarnation,
        EVENT_SCHEMA,
        [event.position for event in events],
        [datetime_of(event.observed_at) for event in events],
        [str(event.op) for event in events],
        [row.stored.kind for row in rows],
        [stored_text(event.namespace) for event in events],
        [stored_text(event.name) for event in events],
        [stored_text(event.uid) for event in events],
        [str(event.resource_version) for event in events],
        [_stored(event.job_uid) for event in events],
        [_stored(event.job_name) for event in events],
        [event.spec_hash for event in events],
        [row.key for row in rows],
        [head.event.position for head in batch.heads.values()],
        [head.event.op in DELETIONS for head in batch.heads.values()],
        [hash_ for hash_, _ in new_specs],
        [row.event.position for _, row in new_specs],
        [row.stored.kind for _, row in new_specs],
        [stored_json(row.stored.spec or b"null") for _, row in new_specs],
        [stored_json(row.stored.body) for row in rows],
    ]


def rest_arguments(cluster_id: int, head: LogHead, append: Append, backend: tuple[int, Any]) -> list[Any]:
    """The arguments of REST: everything beside the events, and the log's new head."""
    marks = list({(mark.resource, mark.scope): mark for mark in append.marks}.values())
    snapshots = list({each.job_uid: each for each in append.snapshots}.values())
    attempts = list({(row.job_uid, row.type, row.index, row.attempt): row for row in append.attempts}.values())
    transitions = append.transitions
    return [
        cluster_id,
        head.position,
        head.commit_hash,
        datetime_of(head.observed_at),
        sorted(head.restoring),
        *backend,
        head.epoch,
        append.cursor,
        [mark.resource for mark in marks],
        [mark.scope for mark in marks],
        [str(mark.resource_version) for mark in marks],
        [mark.start_kind for mark in marks],
        [datetime_of(mark.at) for mark in marks],
        [uid for uid, _ in transitions],
        [each.position for _, each in transitions],
        [each.ordinal for _, each in transitions],
        [datetime_of(each.at) for _, each in transitions],
        [each.by_gap for _, each in transitions],
        [each.type for _, each in transitions],
        [each.status for _, each in transitions],
        [stored_text(each.reason) for _, each in transitions],
        [stored_text(each.message) for _, each in transitions],
        [each.job_uid for each in snapshots],
        [each.namespace for each in snapshots],
        [each.name for each in snapshots],
        [each.position for each in snapshots],
        [each.phase for each in snapshots],
        [each.is_over for each in snapshots],
        [_stored(each.parked) for each in snapshots],
        [each.state for each in snapshots],
        [row.job_uid for row in attempts],
        [row.type.value for row in attempts],
        [row.index for row in attempts],
        [row.attempt for row in attempts],
        [row.pod_name for row in attempts],
        [row.pod_uid for row in attempts],
        [row.position for row in attempts],
        [row.node for row in attempts],
        [row.spec_hash for row in attempts],
        [None if row.started_at is None else datetime_of(row.started_at) for row in attempts],
        [None if row.finished_at is None else datetime_of(row.finished_at) for row in attempts],
        [row.exit_code for row in attempts],
        [row.how for row in attempts],
        [stored_text(row.reason) for row in attempts],
        [stored_text(row.message) for row in attempts],
        [None if row.ended_by is None else row.ended_by.value for row in attempts],
    ]


def _stored(text: str | None) -> str | None:
    return None if text is None else stored_text(text)
