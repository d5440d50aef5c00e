"""What looks at the controller: a ServiceMonitor, alerts, a Grafana dashboard (docs/METRICS.md has the numbers).

Out: objects of the Prometheus operator, a ConfigMap that Grafana's sidecar picks up. A test compares every metric named
here with those that the controller exposes.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from source.words import CONTROLLER_LABELS, NAME, Json, metadata

API = "monitoring.coreos.com/v1"
JOB = f'job="{NAME}"'
RUNBOOK = "docs/OPERATIONS.md, runbook: "
ALERTS: list[tuple[str, str, str, str, str]] = [
    (
        "TFJobControllerHasNoLeader",
        f"sum(tfjob_is_leader{{{JOB}}}) < 1 or absent(tfjob_is_leader{{{JOB}}})",
        "2m",
        "critical",
        "Nobody leads: no TFJob starts, ends or restarts; running training goes on.",
    ),
    (
        "TFJobControllerHasTwoLeaders",
        f"sum(tfjob_is_leader{{{JOB}}}) > 1",
        "1m",
        "critical",
        "Two processes say that they lead. Only one of them can write to the log.",
    ),
    (
        "TFJobLogIsBehind",
        f"max(tfjob_log_behind_seconds{{{JOB}}}) > 60",
        "1m",
        "critical",
        "What was seen waits for Postgres: decisions wait with it.",
    ),
    (
        "TFJobLogIsNotTaken",
        f"sum(increase(tfjob_log_failed_commits_total{{{JOB}}}[5m])) > 0",
        "5m",
        "warning",
        "Postgres refuses commits.",
    ),
    (
        "TFJobInboxFills",
        f"max(tfjob_inbox_bytes{{{JOB}}}) > 32 * 1024 * 1024",
        "1m",
        "warning",
        "Half of the memory for an outage of Postgres is used; when it is full the watches are closed.",
    ),
    (
        "TFJobIsParked",
        f"sum(tfjob_parked_jobs{{{JOB}}}) > 0",
        "1m",
        "warning",
        "A job's events cannot be folded: it is left alone until a person looks.",
    ),
    (
        "TFJobWatchHadAGap",
        f"sum(increase(tfjob_watch_gaps_total{{{JOB}}}[15m])) > 2",
        "0m",
        "warning",
        "The watch lost its place more than twice in a quarter of an hour.",
    ),
    (
        "TFJobRequestsAreRefused",
        f'sum(rate(tfjob_action_outcomes_total{{{JOB},result="refused"}}[10m])) > 0.2',
        "10m",
        "warning",
        "The API server refuses what the controller asks for: rights, a quota, an admission webhook.",
    ),
]
"""Name, expression, for how long, severity, what it means."""

PANELS: list[tuple[str, str, str]] = [
    ("Leader", "sum(tfjob_is_leader)", "leaders"),
    ("Jobs by state", "sum by (state) (tfjob_jobs)", "{{state}}"),
    ("Jobs that failed, a minute", "sum(rate(training_operator_jobs_failed_total[5m])) * 60", "failed"),
    ("Jobs that restarted, a minute", "sum(rate(training_operator_jobs_restarted_total[5m])) * 60", "restarted"),
    ("Oldest observation that is not committed", "max(tfjob_log_behind_seconds)", "seconds"),
    (
        "From watch to commit, 99 of 100",
        "histogram_quantile(0.99, sum by (le) (rate(tfjob_log_event_to_commit_seconds_bucket[5m])))",
        "seconds",
    ),
    ("Events, a second", "sum by (op) (rate(tfjob_log_events_appended_total[5m]))", "{{op}}"),
    ("Inbox", "max(tfjob_inbox_bytes)", "bytes"),
    ("Requests, a second", "sum(rate(tfjob_api_requests_total[5m]))", "requests"),
    (
        "Answers, a second",
        "sum by (action, result) (rate(tfjob_action_outcomes_total[5m]))",
        "{{action}} {{result}}",
    ),
    ("Streams that ended, an hour", "sum by (resource) (increase(tfjob_watch_reconnects_total[1h]))", "{{resource}}"),
    ("Gaps, an hour", "sum by (reason) (increase(tfjob_watch_gaps_total[1h]))", "{{reason}}"),
    ("Parked jobs", "sum(tfjob_parked_jobs)", "jobs"),
]
SQL_PANELS: list[tuple[str, str]] = [
    (
        "What jobs die of",
        "SELECT coalesce(nullif(attempt_reason, ''), reason) AS died_of, exit_code, count(*) AS jobs"
        " FROM audit.failures WHERE $__timeFilter(failed_at) GROUP BY 1, 2 ORDER BY jobs DESC LIMIT 20",
    ),
    (
        "Last changes of conditions",
        "SELECT at, namespace, name, type, status, reason, message FROM audit.conditions WHERE $__timeFilter(at)"
        " ORDER BY at DESC LIMIT 50",
    ),
    (
        "Gaps",
        "SELECT cluster, reason, resources, from_at, to_at, closed_at FROM audit.gaps WHERE $__timeFilter(to_at)"
        " ORDER BY position DESC LIMIT 20",
    ),
]
"""Of the log itself, for a Grafana that has its database as a data source (a reader's account is enough)."""


def service_monitor() -> Json:
    return {
        "apiVersion": API,
        "kind": "ServiceMonitor",
        "metadata": metadata(NAME),
        "spec": {
            "selector": {"matchLabels": dict(CONTROLLER_LABELS)},
            "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
        },
    }


def prometheus_rule() -> Json:
    """The alerts; each says what it means and where to read on."""
    rules: list[Any] = [
        {
            "alert": name,
            "expr": expression,
            "for": duration,
            "labels": {"severity": severity},
            "annotations": {"summary": summary, "runbook": RUNBOOK + name},
        }
        for name, expression, duration, severity, summary in ALERTS
    ]
    return {
        "apiVersion": API,
        "kind": "PrometheusRule",
        "metadata": metadata(NAME),
        "spec": {"groups": [{"name": NAME, "rules": rules}]},
    }


def dashboard_text() -> str:
    """Grafana's JSON."""
    numbers = count()
    panels = [_panel(next(numbers), title, expr, legend) for title, expr, legend in PANELS]
    panels += [_sql_panel(next(numbers), title, sql) for title, sql in SQL_PANELS]
    sources = [("prometheus", "prometheus"), ("log", "postgres")]
    found = {
        "uid": NAME,
        "title": "TFJobs",
        "tags": ["tfjob"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": name, "type": "datasource", "query": kind} for name, kind in sources]},
        "panels": panels,
    }
    return json.dumps(found, indent=1) + "\n"


def dashboard(text: str) -> Json:
    """The ConfigMap that the sidecar of Grafana's chart looks for."""
    found = metadata(f"{NAME}-dashboard")
    found["labels"]["grafana_dashboard"] = "1"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": found, "data": {"tfjobs.json": text}}


def _panel(number: int, title: str, expression: str, legend: str) -> Json:
    target = {"expr": expression, "legendFormat": legend, "refId": "A"}
    source = {"type": "prometheus", "uid": "${prometheus}"}
    return {**_place(number), "type": "timeseries", "title": title, "datasource": source, "targets": [target]}


def _sql_panel(number: int, title: str, sql: str) -> Json:
    target = {"rawSql": sql, "format": "table", "rawQuery": True, "refId": "A"}
    source = {"type": "grafana-postgresql-datasource", "uid": "${log}"}
    return {**_place(number), "type": "table", "title": title, "datasource": source, "targets": [target]}


def _place(number: int) -> Json:
    return {"id": number + 1, "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8}}
