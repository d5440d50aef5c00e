"""The tables, as queries name them. migrations/ makes them; a test compares the two.

Every key begins with `cluster_id`, so that one database can hold the logs of many clusters (DESIGN §9).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

REVISIONS = ("0001",)
"""The schema's revisions that this code knows, oldest first; it works with the last."""

metadata = MetaData()
_Instant = DateTime(timezone=True)
_ResourceVersion = Numeric(39, 0)

log_head = Table(
    "log_head",
    metadata,
    Column("cluster_id", SmallInteger, Identity(), primary_key=True),
    Column("cluster", Text, nullable=False, unique=True, comment="The name that --cluster gives"),
    Column("position", BigInteger, nullable=False, comment="Position of the newest event; readers read up to here"),
    Column(
        "incarnation",
        Integer,
        nullable=False,
        comment="Raised when the log itself went back (restore, lagging replica)",
    ),
    Column("epoch", BigInteger, nullable=False, comment="The leader that may write; raised by each new one"),
    Column(
        "commit_hash", LargeBinary, nullable=False, comment="Names the last commit; each is hashed over the one before"
    ),
    Column("observed_at", _Instant, nullable=False, comment="Newest observed_at; it never runs back"),
    Column("restoring", ARRAY(Text), nullable=False, comment="Resources between GAP ClusterRestored and SYNCED"),
    Column("holder", Text, comment="Who leads"),
    Column("code_version", Text, comment="The code that leads"),
    Column("writer_pid", Integer, comment="Backend of the writer, ended by the next leader"),
    Column("writer_started_at", _Instant, comment="Since a pid alone may be another process by then"),
    Column("committed_at", _Instant, nullable=False, server_default=text("clock_timestamp()")),
    comment="One row a cluster: its lock makes commit order the order of positions, its epoch fences old writers off",
)

events = Table(
    "events",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False, comment="Gapless, in commit order"),
    Column("epoch", BigInteger, nullable=False, comment="The leader that wrote it"),
    Column("observed_at", _Instant, nullable=False, comment="When it was read from the socket; never runs back"),
    Column("recorded_at", _Instant, nullable=False, server_default=text("clock_timestamp()")),
    Column("incarnation", Integer, nullable=False, comment="Of the log, see log_head"),
    Column("schema_number", SmallInteger, nullable=False, comment="Of body; older ones are read through upcasters"),
    Column("resource_version", _ResourceVersion, nullable=False, comment="Comparable within a kind; 0 for own facts"),
    Column("op", Text, nullable=False, comment="SYNC_*: inferred by a relist; GAP … CLOCK: the controller's own"),
    Column(
        "kind", Text, nullable=False, comment="Of the object; Notice is a core/v1 Event, Cluster concerns every job"
    ),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("job_uid", Text, comment="The TFJob that it belongs to by controller owner reference"),
    Column("job_name", Text, comment="The object's job-name label"),
    Column("spec_hash", LargeBinary, comment="Names the whole redacted spec in object_specs"),
    Column("key", Text, comment="Of own facts: each is in the log once"),
    Column(
        "body", JSONB, nullable=False, comment="Metadata and status; U+E000 and four hex digits: what jsonb refuses"
    ),
    Index("events_job", "cluster_id", "job_uid", "position", postgresql_where=text("job_uid IS NOT NULL")),
    Index(
        "events_job_name",
        "cluster_id",
        "namespace",
        "job_name",
        "position",
        postgresql_where=text("job_name IS NOT NULL"),
    ),
    Index("events_cluster", "cluster_id", "position", postgresql_where=text("kind = 'Cluster'")),
    Index("events_key", "cluster_id", "key", unique=True, postgresql_where=text("key IS NOT NULL")),
    Index("events_observed_at", "observed_at", postgresql_using="brin"),
    comment="What happened, append-only: the truth, from which everything else can be made again",
)

object_specs = Table(
    "object_specs",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("spec_hash", LargeBinary, primary_key=True),
    Column("first_position", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("spec", JSONB, nullable=False),
    comment="Redacted specs by content hash, each once; append-only",
)

heads = Table(
    "heads",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("uid", Text, primary_key=True),
    Column("position", BigInteger, nullable=False, comment="The event that brought it"),
    Column("resource_version", _ResourceVersion, nullable=False),
    Column("is_deleted", Boolean, nullable=False),
    Column("kind", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("job_uid", Text),
    Column("job_name", Text),
    comment="The newest version of each object: what tells a new event from a repeated one",
)

watch_sessions = Table(
    "watch_sessions",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("resource", Text, primary_key=True, comment="Plural: pods, tfjobs, …"),
    Column("scope", Text, primary_key=True, comment="The namespace that is watched; empty: all"),
    Column(
        "resource_version", _ResourceVersion, nullable=False, comment="Where a start, a crash, a new leader resumes"
    ),
    Column("start_kind", Text, nullable=False, comment="How the session began: list or resume"),
    Column("epoch", BigInteger, nullable=False),
    Column("marked_at", _Instant, nullable=False),
    comment="How far each watch has been read, committed with what it brought",
)

projections = Table(
    "projections",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("position", BigInteger, nullable=False, comment="Everything up to here is folded into job_states"),
    comment="How far the log is folded",
)

transitions = Table(
    "transitions",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("job_uid", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False, comment="The event that caused it"),
    Column("ordinal", SmallInteger, primary_key=True, autoincrement=False),
    Column("at", _Instant, nullable=False),
    Column("by_gap", Boolean, nullable=False, comment="It rests on what a relist inferred"),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    comment="Every change of a job's conditions with the event that caused it; append-only",
)

attempts = Table(
    "attempts",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("job_uid", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False, comment="The event that this row rests on"),
    Column("started_at", _Instant),
    Column("finished_at", _Instant),
    Column("exit_code", Integer),
    Column("pod_name", Text, nullable=False),
    Column("pod_uid", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("spec_hash", LargeBinary, comment="Of the pod's spec"),
    Column("how", Text, comment="succeeded, failed, disrupted, stopped; null while it has not ended"),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("ended_by", Text, comment="Why the controller deleted it; null when it did not"),
    comment="One row for each attempt of each slot, as last known",
)

job_states = Table(
    "job_states",
    metadata,
    Column("cluster_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("job_uid", Text, primary_key=True),
    Column("position", BigInteger, nullable=False, comment="What the state includes"),
    Column("is_over", Boolean, nullable=False, comment="Deleted and all its objects gone"),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("phase", Text, nullable=False, comment="Type of its newest condition"),
    Column("parked", Text, comment="Why it is no longer folded: a bug met it"),
    Column(
        "state", LargeBinary, nullable=False, comment="JSON of controller.fold.state; a start folds what came after"
    ),
    Index("job_states_name", "cluster_id", "namespace", "name"),
    comment="Snapshots of the folded states",
)
