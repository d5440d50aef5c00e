"""The controller's numbers → Prometheus' metrics, with training-operator's names where its dashboards have some.

In: vitals of this moment. Out: metric families. Never: a count of its own, or anything global.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.run.tally import Histogram, JobCount
from controller.run.vitals import Vitals

FRAMEWORK = "tensorflow"
"""The label value under which training-operator 1.9 counts TFJobs."""


class ControllerCollector(Collector):
    """Asks for the vitals at each scrape."""

    def __init__(self, vitals: Callable[[], Vitals]) -> None:
        self._vitals = vitals

    def collect(self) -> Iterable[Metric]:
        vitals = self._vitals()
        yield from _job_counts(vitals)
        yield from _log(vitals)
        yield from _edges(vitals)
        yield from _moment(vitals)


def _job_counts(vitals: Vitals) -> Iterator[Metric]:
    for what in JobCount:
        family = CounterMetricFamily(
            f"training_operator_jobs_{what.value}", f"TFJobs {what.value}", labels=["job_namespace", "framework"]
        )
        for (counted, namespace), number in sorted(vitals.tally.jobs.items()):
            if counted is what:
                family.add_metric([namespace, FRAMEWORK], number)
        yield family


def _log(vitals: Vitals) -> Iterator[Metric]:
    tally = vitals.tally
    yield _counter("tfjob_log_events_appended", "Events committed to the log", "op", tally.events)
    yield CounterMetricFamily("tfjob_log_commits", "Commits of the log", tally.commits)
    yield CounterMetricFamily("tfjob_log_failed_commits", "Commits that Postgres did not take", tally.failed_commits)
    yield _histogram("tfjob_log_commit_events", "New events in one commit", tally.batch)
    yield _histogram(
        "tfjob_log_event_to_commit_seconds", "From reading an object's version off the watch to its commit", tally.lag
    )
    yield GaugeMetricFamily(
        "tfjob_log_behind_seconds", "Age of the oldest observation that is not committed", vitals.behind_seconds
    )
    yield GaugeMetricFamily("tfjob_inbox_bytes", "Observations held until they are committed", vitals.inbox_bytes)


def _edges(vitals: Vitals) -> Iterator[Metric]:
    yield _counter("tfjob_watch_reconnects", "Streams that ended", "resource", vitals.reconnects)
    yield _counter("tfjob_watch_gaps", "Gaps in what was watched", "reason", vitals.tally.gaps)
    outcomes = CounterMetricFamily(
        "tfjob_action_outcomes", "Answers to what was asked of the API server", labels=["action", "result"]
    )
    for labels, number in sorted(vitals.tally.outcomes.items()):
        outcomes.add_metric(list(labels), number)
    yield outcomes
    yield CounterMetricFamily(
        "tfjob_api_requests", "Requests sent to the API server, the Lease's apart", vitals.api_requests
    )


def _moment(vitals: Vitals) -> Iterator[Metric]:
    yield GaugeMetricFamily("tfjob_is_leader", "1 while this process leads", int(vitals.is_leading))
    jobs = GaugeMetricFamily("tfjob_jobs", "Jobs by their last condition", labels=["job_namespace", "state"])
    for (namespace, state), number in sorted(vitals.jobs.items()):
        jobs.add_metric([namespace, state], number)
    yield jobs
    yield GaugeMetricFamily("tfjob_parked_jobs", "Jobs whose folding failed and that wait for a person", vitals.parked)


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, number in sorted(counts.items()):
        family.add_metric([value], number)
    return family


def _histogram(name: str, text: str, found: Histogram) -> Metric:
    bounds = [*(f"{bound:g}" for bound in found.bounds), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(found.counts)), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=found.total)
