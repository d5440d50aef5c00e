"""The schema `audit`: views for people with a stable column contract, and a role that may read them and nothing else.

Revision 0002. Adds only: a controller that runs meanwhile goes on. Longer than other files: one table of views and
columns, from which the views and their comments are made.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INDEXES = {
    "job_states_by_name": "job_states (cluster_id, name)",
    "events_cluster_op": "events (cluster_id, op, position) WHERE kind = 'Cluster'",
    "events_notice": "events (cluster_id, job_uid, position) WHERE kind = 'Notice'",
    "events_decided": "events (cluster_id, job_uid, position) WHERE op = 'DECIDED'",
    "events_pod_deletion": "events (cluster_id, (body -> 'action' ->> 'uid'))"
    " WHERE op = 'ACTION' AND body -> 'action' ->> 'action' = 'DeletePod'",
    "events_collection": "events (cluster_id, job_uid, position)"
    " WHERE op = 'ACTION' AND body -> 'action' ->> 'action' = 'DeleteOwned'",
    "events_status": "events (cluster_id, job_uid, position)"
    " WHERE op = 'ACTION' AND body -> 'action' ->> 'action' = 'PatchStatus'",
}

# The words are those of controller/fold/exit_codes.py and controller/history/ends.py: a test compares.
FUNCTIONS = (
    """
CREATE FUNCTION audit.signal_of(code integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN code BETWEEN 129 AND 159 THEN 'SIG' || (ARRAY['HUP', 'INT', 'QUIT', 'ILL', 'TRAP', 'ABRT', 'BUS',
        'FPE', 'KILL', 'USR1', 'SEGV', 'USR2', 'PIPE', 'ALRM', 'TERM', 'STKFLT', 'CHLD', 'CONT', 'STOP', 'TSTP', 'TTIN',
        'TTOU', 'URG', 'XCPU', 'XFSZ', 'VTALRM', 'PROF', 'WINCH', 'IO', 'PWR', 'SYS'])[code - 128]
        WHEN code = 162 THEN 'SIGRTMIN' WHEN code = 192 THEN 'SIGRTMAX' END
$$
""",
    """
COMMENT ON FUNCTION audit.signal_of IS 'The signal that an exit code stands for'
""",
    """
CREATE FUNCTION audit.meaning_of(code integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN code = 0 THEN 'success' WHEN code = 1 THEN 'general error' WHEN code = 2 THEN 'misuse of a shell command'
        WHEN code = 126 THEN 'command not executable' WHEN code = 127 THEN 'command not found'
        WHEN code = 128 THEN 'invalid exit argument' WHEN code = 255 THEN 'exit status out of range'
        WHEN code BETWEEN 129 AND 192 THEN 'killed by signal ' || code - 128
            || coalesce(', ' || audit.signal_of(code), '')
        WHEN code IS NULL THEN NULL ELSE '' END
$$
""",
    """
COMMENT ON FUNCTION audit.meaning_of IS 'An exit code in words'
""",
    """
CREATE FUNCTION audit.ender_of(how text, code integer, reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN how IS NULL THEN NULL
        WHEN how = 'stopped' THEN 'controller'
        WHEN reason IN ('PodDeleted', 'EvictionByEvictionAPI') THEN 'someone else'
        WHEN reason = 'PodLostDuringGap' THEN 'unknown'
        WHEN reason IN ('ContainerStatusUnknown', 'Evicted', 'Preempting', 'UnexpectedAdmissionError',
            'TerminationByKubelet') OR reason LIKE 'OutOf%' THEN 'kubelet'
        WHEN reason IN ('NodeLost', 'NodeShutdown', 'Shutdown', 'Terminated', 'DeletionByPodGC',
            'DeletionByTaintManager') THEN 'node'
        WHEN reason = 'PreemptionByScheduler' THEN 'scheduler'
        WHEN reason = 'OOMKilled' THEN 'kernel'
        WHEN code IS NULL AND how <> 'succeeded' THEN 'unknown'
        ELSE 'itself' END
$$
""",
    """
COMMENT ON FUNCTION audit.ender_of IS 'Who ended an attempt, from how it ended, its code and its reason'
""",
)

JOB = [
    ("cluster", "h.cluster", "The cluster''s name, as --cluster gives it"),
    ("namespace", "j.namespace", "The job''s namespace"),
    ("name", "j.name", "The job''s name; several jobs may have had it, one after another"),
    ("job_uid", "j.job_uid", "The job''s uid: one run of that name"),
]
OF_JOB = "log_head AS h JOIN job_states AS j ON j.cluster_id = h.cluster_id"

# name: (comment, FROM and what follows, columns after the job's own or None for a view without them)
Columns = list[tuple[str, str, str]]
VIEWS: dict[str, tuple[str, str, Columns, bool]] = {
    "jobs": (
        "Every job that was ever seen, also those that no longer exist",
        f"""{OF_JOB}
    CROSS JOIN LATERAL (SELECT observed_at FROM events AS e WHERE e.cluster_id = j.cluster_id
        AND e.job_uid = j.job_uid ORDER BY position LIMIT 1) AS first
    CROSS JOIN LATERAL (SELECT observed_at FROM events AS e WHERE e.cluster_id = j.cluster_id
        AND e.job_uid = j.job_uid ORDER BY position DESC LIMIT 1) AS last
    LEFT JOIN LATERAL (SELECT at FROM transitions AS t WHERE t.cluster_id = j.cluster_id AND t.job_uid = j.job_uid
        AND t.type = 'Running' AND t.status = 'True' ORDER BY position LIMIT 1) AS began ON true
    LEFT JOIN LATERAL (SELECT at, type, reason, message, by_gap FROM transitions AS t
        WHERE t.cluster_id = j.cluster_id AND t.job_uid = j.job_uid AND t.type IN ('Succeeded', 'Failed')
        AND t.status = 'True' ORDER BY position LIMIT 1) AS ended ON true""",
        [
            ("state", "j.phase", "The type of its current condition: Created, Running, Restarting, Suspended, …"),
            ("verdict", "ended.type", "Succeeded or Failed; null while it has not ended"),
            ("reason", "ended.reason", "Of the verdict"),
            ("message", "ended.message", "Of the verdict"),
            ("first_seen_at", "first.observed_at", "Its first event"),
            ("running_at", "began.at", "When it first was Running"),
            ("finished_at", "ended.at", "When the verdict was observed"),
            ("last_event_at", "last.observed_at", "Its newest event"),
            ("retries", "(SELECT coalesce(sum(value::int), 0) FROM json_each_text("
             "convert_from(j.state, 'UTF8')::json -> 'retries'))", "Retries so far, in place ones included"),
            ("by_gap", "ended.by_gap", "The verdict rests on what a relist inferred"),
            ("is_gone", "j.is_over", "The job and all its objects are gone from the API server"),
            ("parked", "j.parked", "Why it is no longer folded: a bug met it"),
        ],
        True,
    ),
    "conditions": (
        "Every change of every condition, with the event that caused it",
        f"""{OF_JOB} JOIN transitions AS t ON t.cluster_id = j.cluster_id AND t.job_uid = j.job_uid
    LEFT JOIN events AS e ON e.cluster_id = t.cluster_id AND e.position = t.position""",
        [
            ("position", "t.position", "The causing event''s place in the log"),
            ("ordinal", "t.ordinal", "Order among the changes of one event"),
            ("at", "t.at", "When the cause was observed"),
            ("type", "t.type", "Created, Running, Restarting, Succeeded, Failed, Suspended or Stalled"),
            ("status", "t.status", "True or False"),
            ("reason", "t.reason", "The condition''s reason"),
            ("message", "t.message", "The condition''s message"),
            ("by_gap", "t.by_gap", "It rests on what a relist inferred"),
            ("cause_op", "e.op", "How the cause came into the log"),
            ("cause_kind", "e.kind", "What the cause is about: Pod, TFJob, Cluster, …"),
            ("cause_object", "e.name", "The name of the object that the cause is about"),
        ],
        True,
    ),
    "attempts": (
        "Every attempt of every slot: its pod, times, exit code and who ended it; also those that run",
        f"""{OF_JOB} CROSS JOIN LATERAL (
        SELECT a.type, a.index, a.attempt, a.pod_name, a.pod_uid, a.node, a.started_at, a.finished_at, a.how,
            a.exit_code, a.reason, a.message, a.position,
            CASE WHEN a.how = 'stopped' THEN coalesce(a.ended_by,
                (SELECT e.body -> 'action' ->> 'because' FROM events AS e WHERE e.cluster_id = a.cluster_id
                    AND e.op = 'ACTION' AND e.body -> 'action' ->> 'action' = 'DeletePod'
                    AND e.body -> 'action' ->> 'uid' = a.pod_uid LIMIT 1),
                (SELECT e.body -> 'action' ->> 'because' FROM events AS e WHERE e.cluster_id = a.cluster_id
                    AND e.job_uid = a.job_uid AND e.op = 'ACTION' AND e.body -> 'action' ->> 'action' = 'DeleteOwned'
                    AND e.body -> 'action' ->> 'kind' = 'pods' ORDER BY e.position LIMIT 1)) END AS because
        FROM attempts AS a WHERE a.cluster_id = j.cluster_id AND a.job_uid = j.job_uid
        UNION ALL
        SELECT slot ->> 'type', (slot ->> 'index')::int, (slot -> 'attempt' ->> 'number')::int,
            slot -> 'attempt' ->> 'name', slot -> 'attempt' ->> 'uid', slot -> 'attempt' ->> 'node',
            to_timestamp((slot -> 'attempt' ->> 'started_at')::bigint / 1e6), NULL, NULL, NULL, '', '', j.position, NULL
        FROM json_array_elements(replace(convert_from(j.state, 'UTF8'), '\\u0000', '\\ufffd')::json -> 'slots') AS slot
        WHERE slot -> 'attempt' ->> 'number' IS NOT NULL AND slot -> 'attempt' ->> 'ending' IS NULL
            AND slot -> 'attempt' ->> 'is_gone' = 'false'
    ) AS a""",
        [
            ("slot", "lower(a.type) || '-' || a.index", "As in the pod''s name: worker-0"),
            ("type", "a.type", "Chief, Master, PS, Worker or Evaluator"),
            ("index", "a.index", "From 0"),
            ("attempt", "a.attempt", "From 1; each pod of the slot is one attempt"),
            ("pod_name", "a.pod_name", "The pod"),
            ("pod_uid", "a.pod_uid", "The pod''s uid: the names of two attempts are the same"),
            ("node", "a.node", "Where it ran; empty: it was never bound"),
            ("started_at", "a.started_at", "When its main container began to run"),
            ("finished_at", "a.finished_at", "When it ended; null while it has not"),
            ("ran_seconds", "extract(epoch FROM a.finished_at - a.started_at)", "How long it ran"),
            ("outcome", "a.how", "succeeded, failed, disrupted or stopped; null while it has not ended"),
            ("exit_code", "a.exit_code", "Of the main container; null: none is known, and none is guessed"),
            ("exit_meaning", "audit.meaning_of(a.exit_code)", "The exit code in words"),
            ("signal", "audit.signal_of(a.exit_code)", "The signal that the code stands for"),
            ("reason", "a.reason", "The kubelet''s or the rules'' reason: OOMKilled, Evicted, PodDeleted, …"),
            ("last_words", "a.message", "The end of its termination message, redacted"),
            ("ended_by", "audit.ender_of(a.how, a.exit_code, a.reason)",
             "itself, kernel, kubelet, node, scheduler, controller, someone else or unknown"),
            ("ended_because", "a.because", "Why this controller stopped it: JobEnded, Suspended, ScaledDown, …"),
            ("position", "a.position", "The event that this row rests on"),
        ],
        True,
    ),
    "failures": (
        "One row for each failed job: the attempt that failed it, the first that nothing made good, warnings",
        f"""{OF_JOB} JOIN LATERAL (
        SELECT *, regexp_match(message, '(\\S+) \\(pod (\\S+), attempt (\\d+)\\)') AS named FROM transitions AS t
        WHERE t.cluster_id = j.cluster_id AND t.job_uid = j.job_uid AND t.type = 'Failed' AND t.status = 'True'
        ORDER BY t.position LIMIT 1) AS t ON true
    LEFT JOIN LATERAL (SELECT * FROM attempts AS a WHERE a.cluster_id = j.cluster_id AND a.job_uid = j.job_uid
        AND lower(a.type) || '-' || a.index = t.named[1] AND a.attempt = t.named[3]::int
        AND a.how IN ('failed', 'disrupted')) AS c ON true
    LEFT JOIN LATERAL (SELECT * FROM attempts AS a WHERE a.cluster_id = j.cluster_id AND a.job_uid = j.job_uid
        AND a.how IN ('failed', 'disrupted') AND a.position <= t.position AND NOT EXISTS (
            SELECT FROM attempts AS b WHERE b.cluster_id = a.cluster_id AND b.job_uid = a.job_uid AND b.type = a.type
            AND b.index = a.index AND b.attempt > a.attempt)
        ORDER BY a.finished_at, array_position(ARRAY['Chief', 'Master', 'PS', 'Worker', 'Evaluator'], a.type), a.index
        LIMIT 1) AS f ON true""",
        [
            ("failed_at", "t.at", "When the failure was observed"),
            ("reason", "t.reason", "TFJobFailed, BackoffLimitExceeded, DeadlineExceeded or InvalidTFJobSpec"),
            ("message", "t.message", "Of the Failed condition"),
            ("slot", "t.named[1]", "The slot whose end failed the job; null when none did (a deadline, a bad spec)"),
            ("attempt", "t.named[3]::int", "Its attempt"),
            ("pod_name", "t.named[2]", "Its pod"),
            ("node", "c.node", "Where it ran"),
            ("exit_code", "coalesce(c.exit_code, substring(t.message FROM 'exited with code (\\d+)')::int)",
             "Null: none is known, and none is guessed"),
            ("exit_meaning", "audit.meaning_of(coalesce(c.exit_code,"
             " substring(t.message FROM 'exited with code (\\d+)')::int))", "The exit code in words"),
            ("attempt_reason", "c.reason", "The kubelet''s or the rules'' reason for the attempt''s end"),
            ("ended_by", "audit.ender_of(c.how, c.exit_code, c.reason)", "Who ended that attempt"),
            ("last_words", "c.message", "The end of its termination message, redacted"),
            ("first_slot", "lower(f.type) || '-' || f.index",
             "The slot whose end came first of those that no later attempt made good; often the same"),
            ("first_attempt", "f.attempt", "Its attempt"),
            ("first_at", "f.finished_at", "When that ended"),
            ("first_exit_code", "f.exit_code", "Its exit code"),
            ("first_reason", "f.reason", "Its reason"),
            ("by_gap", "t.by_gap", "The failure rests on what a relist inferred"),
            ("chain", "ARRAY(SELECT lower(a.type) || '-' || a.index || ' attempt ' || a.attempt || ': '"
             " || coalesce('code ' || a.exit_code || ' ', '') || a.reason FROM attempts AS a"
             " WHERE a.cluster_id = j.cluster_id AND a.job_uid = j.job_uid AND a.how IN ('failed', 'disrupted')"
             " AND a.position <= t.position ORDER BY a.position LIMIT 20) || ARRAY['Failed: ' || t.reason]",
             "Ends in their order, at most 20, then the condition"),
            ("warnings", "ARRAY(SELECT e.body ->> 'reason' || ': ' || (e.body ->> 'message') FROM events AS e"
             " WHERE e.cluster_id = j.cluster_id AND e.job_uid = j.job_uid AND e.kind = 'Notice'"
             " ORDER BY e.position DESC LIMIT 10)",
             "The newest warnings of others about its objects: scheduling, images, memory, evictions"),
            ("position", "t.position", "The event that failed it"),
        ],
        True,
    ),
    "timeline": (
        "Every event of every job in the order of the log, in words",
        f"{OF_JOB} JOIN events AS e ON e.cluster_id = j.cluster_id AND e.job_uid = j.job_uid",
        [
            ("position", "e.position", "Place in the log"),
            ("at", "e.observed_at", "When it was observed"),
            ("op", "e.op",
             "ADDED, MODIFIED, DELETED; SYNC_*: inferred by a relist; DECIDED, ACTION, TIMER: the controller''s"),
            ("kind", "e.kind", "TFJob, Pod, Service, PodGroup or Notice"),
            ("object", "e.name", "The object''s name"),
            ("what", """CASE
            WHEN e.op = 'DECIDED' THEN (SELECT string_agg(concat_ws(' ', act ->> 'action', act ->> 'type',
                act ->> 'index', act ->> 'name', act ->> 'because'), '; ')
                FROM jsonb_array_elements(e.body -> 'actions') AS act)
            WHEN e.op = 'ACTION' THEN concat_ws(' ', e.body -> 'action' ->> 'action', e.body -> 'action' ->> 'name',
                e.body -> 'outcome' ->> 'result', e.body -> 'outcome' ->> 'reason')
            WHEN e.op = 'TIMER' THEN e.body ->> 'timer'
            WHEN e.kind = 'Notice' THEN concat_ws(': ', e.body ->> 'reason', e.body ->> 'message')
            WHEN e.kind = 'TFJob' THEN 'status says ' || coalesce(e.body #>> '{status,conditions,-1,type}', 'nothing')
            WHEN e.kind = 'Pod' THEN concat_ws(' ', e.body #>> '{status,phase}', e.body #>> '{status,reason}',
                jsonb_path_query_first(e.body, '$.status.containerStatuses[*] ? (@.name == "tensorflow")'
                    '.state.terminated.exitCode') #>> '{}',
                CASE WHEN e.body #>> '{metadata,deletionTimestamp}' IS NOT NULL THEN 'terminating' END)
            ELSE '' END""", "What it says, in a few words"),
            ("changed", "ARRAY(SELECT t.type || '=' || t.status || ' (' || t.reason || ')' FROM transitions AS t"
             " WHERE t.cluster_id = e.cluster_id AND t.job_uid = j.job_uid AND t.position = e.position"
             " ORDER BY t.ordinal)", "The conditions that it changed"),
            ("body", "e.body", "The event itself, redacted"),
        ],
        True,
    ),
    "retries": (
        "Every attempt that was followed by another one of its slot",
        f"""{OF_JOB} JOIN attempts AS a ON a.cluster_id = j.cluster_id AND a.job_uid = j.job_uid
    LEFT JOIN attempts AS n ON n.cluster_id = a.cluster_id AND n.job_uid = a.job_uid AND n.type = a.type
        AND n.index = a.index AND n.attempt = a.attempt + 1""",
        [
            ("slot", "lower(a.type) || '-' || a.index", "As in the pod''s name"),
            ("attempt", "a.attempt", "The attempt that ended"),
            ("ended_at", "a.finished_at", "When it ended"),
            ("outcome", "a.how", "failed or disrupted"),
            ("is_counted", "a.how = 'failed'", "It counts against backoffLimit; disruptions do not"),
            ("exit_code", "a.exit_code", "Null: none is known"),
            ("exit_meaning", "audit.meaning_of(a.exit_code)", "The exit code in words"),
            ("reason", "a.reason", "The kubelet''s or the rules'' reason"),
            ("ended_by", "audit.ender_of(a.how, a.exit_code, a.reason)", "Who ended it"),
            ("next_started_at", "n.started_at", "When the next attempt began to run; null while it has not ended"),
            ("next_outcome", "n.how", "How the next attempt ended; null while it has not"),
            ("waited_seconds", "extract(epoch FROM n.started_at - a.finished_at)", "From one to the other"),
        ],
        True,
    ),
    "gaps": (
        "Every time the watch may have missed something, for the whole cluster",
        """log_head AS h JOIN events AS e ON e.cluster_id = h.cluster_id AND e.kind = 'Cluster' AND e.op = 'GAP'
    LEFT JOIN LATERAL (SELECT s.position, s.observed_at FROM events AS s WHERE s.cluster_id = e.cluster_id
        AND s.kind = 'Cluster' AND s.op = 'SYNCED' AND s.position > e.position ORDER BY s.position LIMIT 1) AS s
        ON true""",
        [
            ("cluster", "h.cluster", "The cluster''s name, as --cluster gives it"),
            ("position", "e.position", "The gap''s place in the log"),
            ("reason", "e.body ->> 'reason'",
             "FirstSync, Expired, Dropped, LogRewound, ClusterRestored or AuditDiffered"),
            ("resources", "ARRAY(SELECT jsonb_array_elements_text(e.body -> 'resources'))", "What was listed again"),
            ("from_at", "to_timestamp((e.body ->> 'from_at')::bigint / 1e6)", "Since when; null: since ever"),
            ("to_at", "to_timestamp((e.body ->> 'to_at')::bigint / 1e6)", "When the watch was there again"),
            ("closed_at", "s.observed_at", "When the relist was through; null: it is not yet"),
            ("closed_position", "s.position", "The SYNCED event"),
            ("changed_count", "(SELECT count(*) FROM events AS c WHERE c.cluster_id = e.cluster_id"
             " AND c.position BETWEEN e.position AND s.position AND c.op LIKE 'SYNC\\_%')",
             "Objects that the relist found changed"),
        ],
        False,
    ),
    "job_gaps": (
        "The gaps of the watch while a job lived, with what of the job a relist found changed",
        f"""{OF_JOB}
    CROSS JOIN LATERAL (SELECT (SELECT position FROM events AS e WHERE e.cluster_id = j.cluster_id
            AND e.job_uid = j.job_uid ORDER BY position LIMIT 1) AS begins,
        CASE WHEN j.is_over THEN j.position ELSE 9223372036854775807 END AS ends) AS life
    JOIN LATERAL (SELECT * FROM events AS e WHERE e.cluster_id = j.cluster_id AND e.kind = 'Cluster' AND e.op = 'GAP'
        AND e.position BETWEEN life.begins AND life.ends) AS e ON true
    LEFT JOIN LATERAL (SELECT s.position, s.observed_at FROM events AS s WHERE s.cluster_id = e.cluster_id
        AND s.kind = 'Cluster' AND s.op = 'SYNCED' AND s.position > e.position ORDER BY s.position LIMIT 1) AS s
        ON true""",
        [
            ("position", "e.position", "The gap''s place in the log"),
            ("reason", "e.body ->> 'reason'", "Why something may have been missed"),
            ("from_at", "to_timestamp((e.body ->> 'from_at')::bigint / 1e6)", "Since when; null: since ever"),
            ("to_at", "to_timestamp((e.body ->> 'to_at')::bigint / 1e6)", "When the watch was there again"),
            ("closed_at", "s.observed_at", "When the relist was through"),
            ("changed_count", "(SELECT count(*) FROM events AS c WHERE c.cluster_id = e.cluster_id"
             " AND c.job_uid = j.job_uid AND c.position BETWEEN e.position AND s.position AND c.op LIKE 'SYNC\\_%')",
             "Objects of the job that the relist found changed"),
        ],
        True,
    ),
    "latency": (
        "How long each change of a condition took: from the event to the log to the status on the API server",
        f"""{OF_JOB} JOIN transitions AS t ON t.cluster_id = j.cluster_id AND t.job_uid = j.job_uid
    JOIN events AS e ON e.cluster_id = t.cluster_id AND e.position = t.position
    LEFT JOIN LATERAL (SELECT w.observed_at, w.position FROM events AS w WHERE w.cluster_id = t.cluster_id
        AND w.job_uid = t.job_uid AND w.op = 'ACTION' AND w.body -> 'action' ->> 'action' = 'PatchStatus'
        AND w.position > t.position AND w.body -> 'outcome' ->> 'result' = 'done' ORDER BY w.position LIMIT 1) AS w
        ON true""",
        [
            ("position", "t.position", "The causing event"),
            ("type", "t.type", "The condition"),
            ("status", "t.status", "True or False"),
            ("observed_at", "e.observed_at", "When the causing event was read from the socket"),
            ("recorded_at", "e.recorded_at", "When its row was written"),
            ("written_at", "w.observed_at", "When the API server had answered to the status; null: not yet"),
            ("log_ms", "extract(epoch FROM e.recorded_at - e.observed_at) * 1000",
             "Milliseconds from the socket to the log"),
            ("status_ms", "extract(epoch FROM w.observed_at - e.observed_at) * 1000",
             "Milliseconds from the socket to the status"),
        ],
        True,
    ),
    "flapping": (
        "How often each condition of each job changed",
        f"""{OF_JOB} CROSS JOIN LATERAL (SELECT t.type, count(*) AS changes,
        count(*) FILTER (WHERE status = 'True') AS trues, min(at) AS first_at, max(at) AS last_at FROM transitions AS t
        WHERE t.cluster_id = j.cluster_id AND t.job_uid = j.job_uid GROUP BY t.type) AS t""",
        [
            ("type", "t.type", "The condition"),
            ("changed_count", "t.changes", "How often its status changed"),
            ("became_true_count", "t.trues", "How often it became True"),
            ("first_at", "t.first_at", "The first change"),
            ("last_at", "t.last_at", "The newest change"),
            ("is_flapping", "t.trues >= 4", "It became True four times or more"),
        ],
        True,
    ),
}  # fmt: skip

ROLE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tfjob_reader') THEN
        BEGIN
            CREATE ROLE tfjob_reader NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- another database's migration was quicker
        END;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING '% may not create the role tfjob_reader: only the owner reads the views', current_user;
END $$
"""

GRANTS = """
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['tfjob_reader', 'tfjob_auditor'] LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            EXECUTE format('GRANT USAGE ON SCHEMA audit TO %I', role_name);
            EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA audit TO %I', role_name);
            EXECUTE format('GRANT SELECT ON alembic_version TO %I', role_name);
            EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA audit TO %I', role_name);
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tfjob_reader')
        AND NOT pg_has_role(current_user, 'tfjob_reader', 'USAGE') THEN
        EXECUTE format('GRANT tfjob_reader TO %I', current_user);
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING '% may not grant itself tfjob_reader: `tfjob sql` needs a login that has it', current_user;
END $$
"""

# The views read the tables with their owner's rights: theirs and the tables' are the same.
OWNER = """
DO $$
DECLARE
    owner_name text := (SELECT tableowner FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'events');
    each record;
BEGIN
    FOR each IN SELECT viewname FROM pg_views WHERE schemaname = 'audit' LOOP
        EXECUTE format('ALTER VIEW audit.%I OWNER TO %I', each.viewname, owner_name);
    END LOOP;
    EXECUTE format('ALTER SCHEMA audit OWNER TO %I', owner_name);
EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'the schema audit stays with %, which may not hand it to %', current_user, owner_name;
END $$
"""


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    for name, where in INDEXES.items():
        run(f"CREATE INDEX {name} ON {where}")
    run("CREATE SCHEMA audit")
    run("COMMENT ON SCHEMA audit IS 'Views for people over the event log: columns are added, never renamed or removed'")
    for statement in FUNCTIONS:
        run(statement)
    for view, (comment, source, columns, is_of_job) in VIEWS.items():
        listed = (JOB if is_of_job else []) + columns
        shown = ",\n    ".join(f"{expression} AS {name}" for name, expression, _ in listed)
        run(f"CREATE VIEW audit.{view} AS SELECT\n    {shown}\nFROM {source}")
        run(f"COMMENT ON VIEW audit.{view} IS '{comment}'")
        for name, _, words in listed:
            run(f"COMMENT ON COLUMN audit.{view}.{name} IS '{words}'")
    run(ROLE)
    run(GRANTS)
    run(OWNER)


def downgrade() -> None:
    run = op.get_bind().exec_driver_sql
    run("DROP SCHEMA audit CASCADE")
    for name in INDEXES:
        run(f"DROP INDEX {name}")
