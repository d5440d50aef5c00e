"""Settings: flags before environment before defaults, and what cannot be is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller import app
from controller.errors import UserError
from controller.kube.credentials import pod_namespace
from controller.model.settings import GangScheduler
from controller.settings import read_settings

URL = "postgresql://tfjob@127.0.0.1/tfjob"


def test_flags_win_over_the_environment_and_that_over_defaults() -> None:
    environment = {"TFJOB_DATABASE_URL": URL, "TFJOB_API_WORKERS": "4", "CUSTOM_CLUSTER_DOMAIN": "cluster.local"}
    settings = read_settings({"api_workers": 8, "log_level": None}, environment)
    assert (settings.api_workers, settings.cluster_domain, settings.log_level) == (8, "cluster.local", "info")


@pytest.mark.parametrize("name", ["volcano", "scheduler-plugins"])
def test_a_gang_scheduler_is_named_by_a_flag_or_the_environment(name: str) -> None:
    by_flag = read_settings({"gang_scheduler": name}, {"TFJOB_DATABASE_URL": URL})
    by_environment = read_settings({}, {"TFJOB_DATABASE_URL": URL, "TFJOB_GANG_SCHEDULER": name})
    assert by_flag.policy.gang_scheduler == by_environment.policy.gang_scheduler == GangScheduler(name)
    with pytest.raises(UserError, match=r"--gang-scheduler: 'kube-batch' is not volcano\|scheduler-plugins"):
        read_settings({"gang_scheduler": "kube-batch"}, {"TFJOB_DATABASE_URL": URL})


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"http_address": "8080"}, "--http-address: '8080' is not host:port"),
        ({"http_address": ":99999"}, "--http-address"),
        ({"lease_seconds": "0"}, "--lease-seconds: '0' is not seconds"),
        ({"lease_seconds": "nan"}, "--lease-seconds"),
        ({"lease_seconds": "6", "lease_retry_seconds": "2.1"}, "--lease-retry-seconds is at most a third"),
        ({"api_qps": "-1"}, "--api-qps: '-1' is not requests a second"),
        ({"api_burst": "0"}, "--api-burst"),
        ({"observe": True, "takeover": True}, "--observe writes nothing and --takeover acts"),
        ({"observe": True, "leader_elect": True}, "--observe writes nothing, so it cannot lead"),
    ],
)
def test_what_cannot_be_is_named(flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError) as raised:
        read_settings({"database_url": URL, **flags}, {})
    assert problem in str(raised.value)


@pytest.mark.parametrize("given", [None, "true", "false"])
@pytest.mark.parametrize("has_kubeconfig", [False, True])
@pytest.mark.parametrize("is_pod", [False, True])
def test_a_pod_elects_and_answers_probes_and_a_person_is_asked(
    given: str | None, has_kubeconfig: bool, is_pod: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_pod:
        (tmp_path / "namespace").write_text("training\n")
    monkeypatch.setattr(app, "pod_namespace", lambda: pod_namespace(tmp_path))
    environment = {"TFJOB_DATABASE_URL": URL}
    if given:
        environment |= {"TFJOB_LEADER_ELECT": given, "TFJOB_HTTP_ADDRESS": ":9000" if given == "true" else "off"}
    kubeconfig = {"kubeconfig": tmp_path / "config"} if has_kubeconfig else {}
    settings = app.settled_by_place(read_settings(kubeconfig, environment))
    by_place = (True, ":8080") if is_pod and not has_kubeconfig else (False, "")
    expected = {None: by_place, "true": (True, ":9000"), "false": (False, "")}[given]
    assert (settings.leader_elect, settings.http_address) == expected


def test_what_is_only_observed_has_a_log_of_its_own() -> None:
    acting, observing = (read_settings({"database_url": URL, "observe": each}, {}) for each in (False, True))
    assert (acting.log_name, observing.log_name) == ("default", "default-observed")
