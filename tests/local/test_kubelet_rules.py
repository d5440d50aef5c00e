"""The kubelet's pure parts, as tables: phases, statuses, restarts, words, variables, addresses."""

from __future__ import annotations

import base64
import json
import socket
from typing import Any

import pytest

from controller.local.kubelet.addresses import LoopbackPorts, tf_config_on_loopback
from controller.local.kubelet.environment import (
    MissingReference,
    environment_of,
    expanded,
    rewritten,
    sources_named_by,
)
from controller.local.kubelet.records import ContainerRecord, ContainerState, Running, Terminated, Waiting
from controller.local.kubelet.restarts import Backoff, is_restarted
from controller.local.kubelet.status import lost_containers_ended, phase_of, status_of
from controller.local.kubelet.unhonoured import unhonoured_by_process
from controller.model.instants import SECOND

AT = 1_700_000_000 * SECOND  # 2023-11-14T22:13:20Z
UP = Running(AT, "process://u/main/1")
WAITS = Waiting("ContainerCreating")
CRASHED = Waiting("CrashLoopBackOff", "back-off")


def end(code: int) -> Terminated:
    reason = "Completed" if code == 0 else "Error"
    return Terminated(code, reason, "", AT, AT + 5 * SECOND, "process://u/main/1")


def record(state: ContainerState, last: Terminated | None = None, name: str = "tensorflow") -> ContainerRecord:
    return ContainerRecord(name, "python:3.11", state, last)


@pytest.mark.parametrize(
    ("policy", "init", "states", "phase", "phase_when_terminal"),
    [
        ("Never", [], [WAITS], "Pending", "Failed"),
        ("Never", [], [UP], "Running", "Failed"),
        ("Never", [], [end(0)], "Succeeded", "Succeeded"),
        ("Never", [], [end(3)], "Failed", "Failed"),
        ("Never", [], [end(0), UP], "Running", "Failed"),
        ("Never", [], [end(3), UP], "Running", "Failed"),
        ("Never", [], [end(0), end(3)], "Failed", "Failed"),
        ("Never", [], [UP, WAITS], "Pending", "Failed"),
        ("OnFailure", [], [end(0)], "Succeeded", "Succeeded"),
        ("OnFailure", [], [end(3)], "Running", "Failed"),
        ("OnFailure", [], [(CRASHED, end(3))], "Running", "Failed"),
        ("Always", [], [end(0)], "Running", "Succeeded"),
        ("Always", [], [(CRASHED, end(0))], "Running", "Succeeded"),
        ("Never", [UP], [WAITS], "Pending", "Failed"),
        ("Never", [end(0)], [WAITS], "Pending", "Failed"),
        ("Never", [end(0)], [UP], "Running", "Failed"),
        ("Never", [end(2)], [WAITS], "Failed", "Failed"),
        ("OnFailure", [end(2)], [WAITS], "Pending", "Failed"),
        ("OnFailure", [(CRASHED, end(2))], [WAITS], "Pending", "Failed"),
    ],
)
def test_the_phase(
    policy: str,
    init: list[ContainerState | tuple[ContainerState, Terminated]],
    states: list[ContainerState | tuple[ContainerState, Terminated]],
    phase: str,
    phase_when_terminal: str,
) -> None:
    records = [
        [record(*one) if isinstance(one, tuple) else record(one) for one in containers] for containers in (init, states)
    ]
    assert phase_of(policy, *records) == phase
    assert phase_of(policy, *records, is_terminal=True) == phase_when_terminal


def condition(kind: str, status: str, at: str, reason: str = "", message: str = "") -> dict[str, Any]:
    words = {key: value for key, value in (("reason", reason), ("message", message)) if value}
    return {"type": kind, "status": status, **words, "lastProbeTime": None, "lastTransitionTime": at}


def test_the_status_of_a_running_pod_keeps_what_others_wrote_and_when_things_turned() -> None:
    earlier, now = "2023-11-14T22:00:00Z", "2023-11-14T22:13:20Z"
    foreign = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": earlier}
    before = [condition("Ready", "False", earlier), condition("PodScheduled", "True", earlier), foreign]
    assert status_of("Never", before, [], [record(UP)], started_at=AT, now=AT) == {
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "startTime": now,
        "conditions": [
            condition("PodReadyToStartContainers", "True", now),
            condition("Initialized", "True", now),
            condition("Ready", "True", now),
            condition("ContainersReady", "True", now),
            condition("PodScheduled", "True", earlier),
            foreign,
        ],
        "containerStatuses": [
            {
                "name": "tensorflow",
                "image": "python:3.11",
                "imageID": "",
                "containerID": "process://u/main/1",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
                "lastState": {},
            }
        ],
    }


def test_the_status_of_a_container_in_backoff_and_of_an_init_container() -> None:
    crashed = ContainerRecord("tensorflow", "python:3.11", CRASHED, end(3), restart_count=2)
    status = status_of("OnFailure", [], [record(end(0), name="prepare")], [crashed], started_at=AT, now=AT)
    assert status["phase"] == "Running"
    container = status["containerStatuses"][0]
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    assert container["lastState"] == {
        "terminated": {
            "exitCode": 3,
            "reason": "Error",
            "startedAt": "2023-11-14T22:13:20Z",
            "finishedAt": "2023-11-14T22:13:25Z",
            "containerID": "process://u/main/1",
        }
    }
    assert (container["restartCount"], container["ready"]) == (2, False)
    assert status["initContainerStatuses"][0]["ready"] is True
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert ready["reason"] == "ContainersNotReady"
    assert ready["message"] == "containers with unready status: [tensorflow]"


def test_a_deleted_pods_container_that_never_ran_is_lost_and_one_in_backoff_ended_as_it_did() -> None:
    lost, crashed, ended = lost_containers_ended([record(WAITS), record(CRASHED, end(3)), record(end(143))], AT)
    assert isinstance(lost.state, Terminated)
    assert (lost.state.exit_code, lost.state.reason) == (137, "ContainerStatusUnknown")
    assert (crashed.state, ended.state) == (end(3), end(143))


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 143, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_who_is_restarted(policy: str, code: int, expected: bool) -> None:
    assert is_restarted(policy, code) is expected


def test_the_waits_between_restarts() -> None:
    backoff = Backoff(10)
    short = [backoff.seconds_after(AT, AT + SECOND) for _ in range(8)]
    assert short == [0, 10, 20, 40, 80, 160, 300, 300]
    assert [backoff.seconds_after(AT, AT + seconds * SECOND) for seconds in (600, 1, 599)] == [0, 10, 20]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("$(A)-$(B)", "1-2"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("$()", "$()"),
        ("cost: 5$", "cost: 5$"),
    ],
)
def test_expansion(text: str, result: str) -> None:
    assert expanded(text, {"A": "1", "B": "2"}) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("/var/code/train.py", "/real/1/train.py"),
        ("/var/code", "/real/1"),
        ("--data=/var/code/x", "--data=/real/1/x"),
        ("/var/code:/data/lib", "/real/1:/real/2/lib"),
        ("cd /var/code && python train.py > '/data/log'", "cd /real/1 && python train.py > '/real/2/log'"),
        ("/var/codes/x", "/var/codes/x"),
        ("/var/code-2", "/var/code-2"),
        ("/var/code.d", "/var/code.d"),
        ("/mnt/var/code/x", "/mnt/var/code/x"),
        ("/data/deep/x", "/real/3/x"),
        ("no path", "no path"),
    ],
)
def test_paths_below_a_mount_are_led_to_where_it_lies(text: str, result: str) -> None:
    assert rewritten(text, {"/var/code": "/real/1", "/data/": "/real/2", "/data/deep": "/real/3"}) == result


POD: dict[str, Any] = {
    "metadata": {"name": "a-worker-0", "namespace": "team", "uid": "u-1", "labels": {"app/x": "y"}},
    "spec": {"nodeName": "local", "containers": []},
}


def test_variables_come_in_order_from_all_their_sources() -> None:
    container = {
        "envFrom": [{"prefix": "CM_", "configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "PLAIN", "value": "1"},
            {"name": "NOTHING"},
            {"name": "REFERS", "value": "$(PLAIN)/$(CM_rate)/$(LATER)"},
            {"name": "LATER", "value": "2"},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "SPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app/x']"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
            {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
            {"name": "PLAIN", "value": "3"},
        ],
    }
    assert sources_named_by(container) == {("configmaps", "settings"), ("configmaps", "none"), ("secrets", "key")}
    sources = {
        ("configmaps", "settings"): {"data": {"rate": "0.1"}},
        ("configmaps", "none"): None,
        ("secrets", "key"): {"data": {"token": base64.b64encode(b"s3").decode()}},
    }
    assert environment_of(container, POD, sources) == {
        "CM_rate": "0.1",
        "PLAIN": "3",
        "NOTHING": "",
        "REFERS": "1/0.1/$(LATER)",
        "LATER": "2",
        "NAME": "a-worker-0",
        "SPACE": "team",
        "UID": "u-1",
        "LABEL": "y",
        "IP": "127.0.0.1",
        "RATE": "0.1",
        "SECRET": "s3",
    }


@pytest.mark.parametrize(
    ("value_from", "words"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"configMapKeyRef": {"name": "some", "key": "k"}}, "couldn't find key k in ConfigMap team/some"),
        ({"fieldRef": {"fieldPath": "spec.hostname"}}, "field 'spec.hostname' of a pod is not offered"),
    ],
)
def test_a_missing_reference_is_said_as_a_kubelet_says_it(value_from: dict[str, Any], words: str) -> None:
    container = {"env": [{"name": "A", "valueFrom": value_from}]}
    with pytest.raises(MissingReference) as missing:
        environment_of(container, POD, {("configmaps", "some"): {"data": {}}})
    assert str(missing.value) == words


def moved(text: str) -> Any:
    ports = LoopbackPorts()
    known: dict[str, str] = {}

    def port_of(address: str) -> int:
        port = ports.port_of(address)
        known[str(port)] = address
        return port

    config = json.loads(tf_config_on_loopback(text, "team", "a", port_of))
    return json.loads(json.dumps(config), object_hook=lambda o: o), known


def test_tf_config_is_led_to_loopback_in_both_forms() -> None:
    cluster = {
        "ps": ["a-ps-0.team.svc:2222", "a-ps-1.team.svc.cluster.local:2222"],
        "worker": {"1": "a-worker-1.team.svc:2222"},
        "other": ["b-ps-0.team.svc:2222", "a-ps-0.elsewhere.svc:2222", "localhost:1", "a-ps-0.team.svc"],
        "short": ["a-ps-0:2222"],
    }
    task = {"type": "ps", "index": 0}
    config, known = moved(json.dumps({"cluster": cluster, "task": task, "environment": "cloud"}))
    assert config["task"] == task
    assert config["environment"] == "cloud"
    assert config["cluster"]["other"] == cluster["other"]
    led = [*config["cluster"]["ps"], config["cluster"]["worker"]["1"], *config["cluster"]["short"]]
    assert [known[address.removeprefix("127.0.0.1:")] for address in led] == [
        "a-ps-0.team.svc:2222",
        "a-ps-1.team.svc.cluster.local:2222",
        "a-worker-1.team.svc:2222",
        "a-ps-0:2222",
    ]
    assert len(set(led)) == 4


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"cluster": 3}'])
def test_what_is_no_tf_config_stays_as_it_is(text: str) -> None:
    assert tf_config_on_loopback(text, "team", "a", lambda _: 1) == text


def test_a_key_keeps_its_port_and_ports_are_free() -> None:
    ports = LoopbackPorts()
    first = ports.port_of("team", "a", "a-ps-0.team.svc:2222")
    others = {ports.port_of("team", "a", f"a-worker-{index}.team.svc:2222") for index in range(50)}
    assert len(others | {first}) == 51
    assert ports.port_of("team", "a", "a-ps-0.team.svc:2222") == first
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", first))


def test_what_a_process_cannot_honour_is_named_and_nothing_else() -> None:
    plain = {"name": "tensorflow", "resources": {"requests": {"cpu": "1"}}, "volumeMounts": []}
    honoured = [
        {"name": "a", "configMap": {"name": "a"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "secret": {"secretName": "c"}},
        {"name": "d", "hostPath": {"path": "/data"}},
    ]
    assert unhonoured_by_process({"spec": {"containers": [plain], "volumes": honoured, "securityContext": {}}}) == []
    wishful = {
        **plain,
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "2Gi"}},
        "livenessProbe": {"exec": {}},
        "securityContext": {"privileged": True},
        "lifecycle": {"preStop": {}},
    }
    spec = {
        "containers": [wishful],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "big"}}, {"name": "n", "nfs": {}}],
        "hostNetwork": True,
        "nodeSelector": {"gpu": "yes"},
        "securityContext": {"runAsUser": 1000},
    }
    assert unhonoured_by_process({"spec": spec}) == [
        "limits of container tensorflow (memory=2Gi, nvidia.com/gpu=1): the process may use all that the machine has",
        "livenessProbe of container tensorflow: ready means running",
        "lifecycle hooks of container tensorflow",
        "securityContext of container tensorflow: it runs as this user",
        "volume data (claim big): an empty folder that the job's pods share",
        "volume n (nfs): an empty folder",
        "hostNetwork: there are no namespaces between processes",
        "securityContext of the pod: it runs as this user",
        "nodeSelector: there is one node",
    ]
