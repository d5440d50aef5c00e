"""What training-operator's pods and webhook entries mean for a controller that is to act: a table."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.peer_rules import Seen, obstacle_of, warning_of

Json = dict[str, Any]
ENTRY = "validator.tfjob.training-operator.kubeflow.org"


def pod(*arguments: str, phase: str = "Running", env: dict[str, str] | None = None, **metadata: Any) -> Json:
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    container = {"name": "training-operator", "command": ["/manager"], "args": list(arguments), "env": variables}
    return {
        "metadata": {"name": "training-operator-1", "namespace": "kubeflow", **metadata},
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }


def webhook(entry: str = ENTRY, group: str = "kubeflow.org", resource: str = "tfjobs") -> Json:
    rule = {"apiGroups": [group], "resources": [resource]}
    return {
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [{"name": entry, "rules": [rule]}],
    }


@pytest.mark.parametrize(
    ("found", "namespace", "is_obstacle"),
    [
        pytest.param(pod(), None, True, id="it serves all kinds unless told"),
        pytest.param(pod(), "team-a", True, id="and all namespaces"),
        pytest.param(pod(phase="Pending"), None, True, id="a pending one will run"),
        pytest.param(pod(phase="Failed"), None, False, id="an ended one does nothing"),
        pytest.param(pod(phase="Succeeded"), None, False, id="nor does one that is done"),
        pytest.param(pod(deletionTimestamp="2026-12-01T00:00:00Z"), None, True, id="a terminating one still acts"),
        pytest.param(pod("--enable-scheme=pytorchjob"), None, False, id="kept for other kinds"),
        pytest.param(pod("--enable-scheme", "pytorchjob", "--enable-scheme", "mpijob"), None, False, id="in two words"),
        pytest.param(pod("--enable-scheme=pytorchjob", "--enable-scheme=TFJob"), None, True, id="one of several kinds"),
        pytest.param(pod("-enable-scheme=tfjob"), None, True, id="one dash"),
        pytest.param(pod("--namespace=team-b"), "team-a", False, id="it looks at another namespace"),
        pytest.param(pod("--namespace=team-a"), "team-a", True, id="it looks at ours"),
        pytest.param(pod("--namespace=team-b"), None, True, id="its namespace is one of ours"),
        pytest.param(pod(env={"KUBEFLOW_NAMESPACE": "team-b"}), "team-a", False, id="told so by its environment"),
        pytest.param(pod("--namespace", "", env={"KUBEFLOW_NAMESPACE": "b"}), "team-a", True, id="the flag wins"),
    ],
)
def test_a_pod_of_it_stands_against_acting(found: Json, namespace: str | None, is_obstacle: bool) -> None:
    why = obstacle_of(Seen([found]), namespace)
    assert (why is not None) is is_obstacle
    if why:
        assert "kubeflow/training-operator-1" in why and "--takeover" in why and "\n" not in why


@pytest.mark.parametrize(
    ("seen", "obstacle", "warning"),
    [
        pytest.param(Seen(), False, False, id="nothing there"),
        pytest.param(Seen([], [webhook()]), False, True, id="an entry that nobody answers"),
        pytest.param(Seen([], [webhook()], sees_all_pods=False), True, True, id="its operator may run unseen"),
        pytest.param(Seen([], [webhook("vtfjob.kb.io")], sees_all_pods=False), False, False, id="Kueue's entry"),
        pytest.param(Seen([], [webhook(resource="pytorchjobs")]), False, False, id="another kind's entry"),
        pytest.param(Seen([], [webhook(group="batch")]), False, False, id="another group's entry"),
        pytest.param(Seen([], [webhook(group="*", resource="*")]), False, True, id="an entry for everything"),
        pytest.param(Seen([pod()], [webhook()]), True, False, id="an entry with its operator"),
        pytest.param(Seen([pod("--enable-scheme=mpijob")], [webhook()]), False, True, id="kept, its entry left behind"),
        pytest.param(Seen([pod()] * 5), True, False, id="several pods"),
    ],
)
def test_a_webhook_entry_is_warned_of_or_stands_against_acting(seen: Seen, obstacle: bool, warning: bool) -> None:
    assert (obstacle_of(seen, None) is not None, warning_of(seen) is not None) == (obstacle, warning)
