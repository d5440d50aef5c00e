"""`tfjob controller`: the controller itself, against a cluster and a Postgres, until it is told to stop.

In: flags and environment (controller/settings.py). Out: exit 0 after SIGTERM or Ctrl-C, 2 when it could not begin,
1 when it had to give up.
"""

from __future__ import annotations

from pathlib import Path

import typer


def run(
    database_url: str | None = typer.Option(None, help="Postgres URL; also $TFJOB_DATABASE_URL."),
    kubeconfig: Path | None = typer.Option(None, help="Unset: $KUBECONFIG, ~/.kube/config, or the pod's own account."),
    context: str | None = typer.Option(None, help="Context of the kubeconfig."),
    namespace: str | None = typer.Option(None, help="Only this namespace."),
    cluster: str | None = typer.Option(None, help="This cluster's name in the database."),
    takeover: bool | None = typer.Option(
        None, "--takeover", help="Act although training-operator handles TFJobs here."
    ),
    observe: bool | None = typer.Option(
        None,
        "--observe",
        help="Record and decide, and write nothing to the API server; the log's name: CLUSTER-observed.",
    ),
    default_clean_pod_policy: str | None = typer.Option(None, help="For v1 jobs that name none: All, Running, None."),
    cluster_domain: str | None = typer.Option(None, help="Suffix of the addresses in TF_CONFIG."),
    gang_scheduler: str | None = typer.Option(
        None, help="volcano or scheduler-plugins: a PodGroup for each job, its pods are marked. Unset: neither."
    ),
    pod_finalizer: bool | None = typer.Option(
        None, "--pod-finalizer", help="Hold ended pods until their end is in the log."
    ),
    leader_elect: bool | None = typer.Option(
        None, "--leader-elect/--no-leader-elect", help="Lead by a Lease. Unset: on in a pod, off with a kubeconfig."
    ),
    lease_namespace: str | None = typer.Option(None, help="The Lease's namespace. Unset: the pod's, or default."),
    lease_name: str | None = typer.Option(None, help="The Lease's name."),
    lease_seconds: float | None = typer.Option(None, help="A leader that is silent for so long is replaced."),
    lease_retry_seconds: float | None = typer.Option(None, help="Between two renewals, or looks, of the Lease."),
    http_address: str | None = typer.Option(
        None, help="host:port for /livez, /readyz and /metrics, or off. Unset: :8080 in a pod, else off."
    ),
    api_qps: float | None = typer.Option(None, help="API requests a second."),
    api_burst: int | None = typer.Option(None, help="API requests at once after a quiet time."),
    api_workers: int | None = typer.Option(None, help="API requests at a time."),
    inbox_bytes: int | None = typer.Option(None, help="Bytes held in memory while Postgres is away."),
    redaction_key_file: Path | None = typer.Option(None, help="Key under which values of env variables are hashed."),
    log_format: str | None = typer.Option(None, help="people or json."),
    log_level: str | None = typer.Option(None, help="debug, info, warning or error."),
    print_settings: bool = typer.Option(False, "--print-settings", help="Print what these flags mean here, and end."),
) -> None:
    """Run the controller against a cluster, until SIGTERM or Ctrl-C."""
    flags = dict(locals())
    import asyncio
    import os

    from controller.app import run_until_signal, settled_by_place
    from controller.cli.logging import configure_logging
    from controller.cli.settings_table import lines_of
    from controller.settings import read_settings
    from controller.web import serving

    settings = read_settings(flags, os.environ)
    if print_settings:
        for line in lines_of(settled_by_place(settings)):
            typer.echo(line)
        return
    configure_logging(settings.log_format, settings.log_level)
    asyncio.run(run_until_signal(settings, serving))
