"""Settings: flags and environment → one frozen object, read once at the start.

Every setting says its unit and why its default is what it is; `tfjob controller --help` and docs/OPERATIONS.md are made
from the same table. Out: `Settings`. Never: read again later, or by the core (what decisions read is `policy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from controller.errors import UserError
from controller.model.settings import CleanPodPolicy, GangScheduler, PolicySettings

ENVIRONMENT_PREFIX = "TFJOB_"


def setting(default: Any, unit: str, reason: str, *, also: str | None = None) -> Any:
    """One setting's default, its unit and the reason for the default; `also` names another tool's variable for it."""
    return field(default=default, metadata={"unit": unit, "reason": reason, "also": also})


@dataclass(frozen=True, slots=True)
class Settings:
    """What the controller was told. Problems in it are reported all together, by `read_settings`."""

    database_url: str = setting("", "URL", "No default: the log is the truth, so its place is named by whoever runs it")
    kubeconfig: Path | None = setting(None, "path", "Unset: $KUBECONFIG, ~/.kube/config, or the pod's service account")
    context: str | None = setting(None, "name", "Unset: the kubeconfig's current context")
    namespace: str | None = setting(None, "name", "Unset: all namespaces", also="KUBEFLOW_NAMESPACE")
    cluster: str = setting("default", "name", "One cluster a database is the usual case; more need a name each")
    takeover: bool = setting(False, "true|false", "Two operators on one job break it: a person says who it is")
    observe: bool = setting(False, "true|false", "A controller that does nothing is asked for, to compare it")
    default_clean_pod_policy: CleanPodPolicy = setting(
        CleanPodPolicy.RUNNING, "All|Running|None", "At the end the resources must be released (RULES §6)"
    )
    cluster_domain: str = setting("", "DNS suffix", "`.svc` resolves in every cluster", also="CUSTOM_CLUSTER_DOMAIN")
    gang_scheduler: GangScheduler = setting(GangScheduler.NONE, "volcano|scheduler-plugins", "Most clusters have none")
    pod_finalizer: bool = setting(False, "true|false", "Resuming covers outages of about 5 minutes (DESIGN §6)")
    leader_elect: bool | None = setting(
        None, "true|false", "Unset: on in a pod; off with a kubeconfig, where a person starts one process"
    )
    lease_namespace: str | None = setting(None, "name", "Unset: the pod's namespace, else `default`")
    lease_name: str = setting("tfjob-controller", "name", "One controller a cluster is the usual case")
    lease_seconds: float = setting(15.0, "seconds", "As Kubernetes' own components: an API server restarts within it")
    lease_retry_seconds: float = setting(2.0, "seconds", "A leader has five tries before it stops, at 2/3 of the lease")
    http_address: str | None = setting(
        None, "host:port|off", "For /livez, /readyz and /metrics. Unset: `:8080` in a pod, else off"
    )
    api_qps: float = setting(1000.0, "requests a second", "The server's own fairness is the limit; this stops mistakes")
    api_burst: int = setting(2000, "requests", "A burst of jobs is sent as fast as the server takes it")
    api_workers: int = setting(32, "requests at a time", "A job's pods start together; the server's limits still hold")
    inbox_bytes: int = setting(64 << 20, "bytes", "What is read while Postgres is away; then the watch is closed")
    redaction_key_file: Path | None = setting(
        None, "path", "Unset: a key of this process; mount one to compare hashed env values over restarts"
    )
    log_format: str = setting("people", "people|json", "A terminal is the first place where it is run")
    log_level: str = setting("info", "debug|info|warning|error", "One line per decision")

    @property
    def log_name(self) -> str:
        """The cluster's name in the log. What was only observed is a story of its own: who acts afterwards begins with
        what stands on the API server, never with what would have been decided."""
        return f"{self.cluster}-observed" if self.observe else self.cluster

    @property
    def policy(self) -> PolicySettings:
        """The part that decisions read; it is written into the log (RULES §11)."""
        return PolicySettings(
            default_clean_pod_policy=self.default_clean_pod_policy,
            gang_scheduler=self.gang_scheduler,
            pod_finalizer=self.pod_finalizer,
            cluster_domain=self.cluster_domain,
        )


def read_settings(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Flags (None: not given) win over the environment, the environment over defaults.

    Raises UserError (exit 2) that names every value which cannot be used, not only the first.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for each in fields(Settings):
        raw = flags.get(each.name)
        source = "--" + each.name.replace("_", "-")
        if raw is None:
            for variable in (ENVIRONMENT_PREFIX + each.name.upper(), each.metadata["also"]):
                if variable and environment.get(variable):
                    raw, source = environment[variable], "$" + variable
                    break
        if raw is None:
            continue
        try:
            values[each.name] = _converted(each.name, raw)
        except ValueError:
            problems.append(f"{source}: {raw!r} is not {each.metadata['unit']}")
    settings = Settings(**values)
    problems += _contradictions(settings)
    if problems:
        raise UserError("; ".join(problems))
    return settings


def _converted(name: str, raw: Any) -> Any:
    match name:
        case "kubeconfig" | "redaction_key_file":
            return Path(raw)
        case "default_clean_pod_policy":
            return CleanPodPolicy(raw)
        case "gang_scheduler":
            return GangScheduler(raw)
        case "pod_finalizer" | "leader_elect" | "takeover" | "observe":
            if isinstance(raw, bool):
                return raw
            return {"true": True, "1": True, "false": False, "0": False}[_known(raw.lower(), "true", "1", "false", "0")]
        case "api_workers" | "inbox_bytes" | "api_burst":
            number = int(raw)
            if number < 1:
                raise ValueError(raw)
            return number
        case "api_qps" | "lease_seconds" | "lease_retry_seconds":
            amount = float(raw)
            if not 0 < amount < float("inf"):
                raise ValueError(raw)
            return amount
        case "http_address":
            return _address(raw)
        case "log_format":
            return _known(raw, "people", "json")
        case "log_level":
            return _known(raw, "debug", "info", "warning", "error")
        case _:
            return raw


def _address(raw: str) -> str:
    """host:port, the host empty for all; empty for off."""
    if raw in ("", "off"):
        return ""
    _, colon, port = raw.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(raw)
    return raw


def _known(value: str, *allowed: str) -> str:
    if value not in allowed:
        raise ValueError(value)
    return value


def _contradictions(settings: Settings) -> list[str]:
    problems = []
    if not settings.database_url:
        problems.append("--database-url (or $TFJOB_DATABASE_URL) is needed: postgresql://user:password@host:5432/tfjob")
    elif not settings.database_url.startswith(("postgresql://", "postgres://", "postgresql+asyncpg://")):
        problems.append("--database-url is not a Postgres URL: it begins with postgresql://")
    if settings.redaction_key_file and not settings.redaction_key_file.is_file():
        problems.append(f"--redaction-key-file: there is no file {settings.redaction_key_file}")
    if settings.lease_retry_seconds * 3 > settings.lease_seconds:
        problems.append("--lease-retry-seconds is at most a third of --lease-seconds: a renewal is tried twice")
    if settings.observe and settings.takeover:
        problems.append("--observe writes nothing and --takeover acts: give one of them")
    if settings.observe and settings.leader_elect:
        problems.append("--observe writes nothing, so it cannot lead by a Lease: leave out --leader-elect")
    return problems
