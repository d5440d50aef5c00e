"""The kubelet on the local API server: real processes, and what their pods' statuses say of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.local.kubelet_world import (
    NAMESPACE,
    World,
    pod_of,
    python,
    shell,
    state_of,
    world,
)
from tests.local.process_watch import becomes_true, is_running

__all__ = ["world"]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("code", "phase", "exit_code", "reason"),
    [
        ("exit 0", "Succeeded", 0, "Completed"),
        ("exit 3", "Failed", 3, "Error"),
        ("kill -9 $$", "Failed", 137, "Error"),
        ("kill -SEGV $$", "Failed", 139, "Error"),
    ],
)
async def test_a_pod_ends_as_its_process_ends(world: World, code: str, phase: str, exit_code: int, reason: str) -> None:
    # It waits to be let go, so that its running is seen.
    world.create(pod_of("a", shell(f"until [ -e go ]; do sleep 0.02; done; {code}", workingDir=str(world.work_dir))))
    running = await world.until_phase("a", "Running")
    status = running["status"]
    assert running["spec"]["nodeName"] == "local"
    assert (status["podIP"], status["hostIP"], status["startTime"][-1]) == ("127.0.0.1", "127.0.0.1", "Z")
    assert list(state_of(running)) == ["running"]
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
    (world.work_dir / "go").touch()
    ended = await world.until_phase("a", phase)
    terminated = state_of(ended)["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (exit_code, reason)
    assert terminated["startedAt"] <= terminated["finishedAt"]
    assert {one["type"]: one["status"] for one in ended["status"]["conditions"]}["Ready"] == "False"
    assert world.phases("a") == ["Pending", "Running", phase]


async def test_the_program_gets_words_variables_files_and_folder(world: World) -> None:
    world.config_map(
        "code", {"main.py": "import os, sys, json\nprint(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"}
    )
    world.config_map("settings", {"rate": "0.1"})
    container = {
        "command": ["python", "/var/code/main.py"],
        "args": ["--rate=$(RATE)", "/scratch/out", "$(NAME)"],
        "workingDir": "/scratch",
        "env": [
            {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "OUTPUT", "value": "/scratch/$(NAME)"},
        ],
        "volumeMounts": [{"name": "code", "mountPath": "/var/code"}, {"name": "scratch", "mountPath": "/scratch"}],
    }
    volumes = [{"name": "code", "configMap": {"name": "code"}}, {"name": "scratch", "emptyDir": {}}]
    world.create(pod_of("a", container, volumes=volumes))
    await world.until_phase("a", "Succeeded")
    words, folder, variables = json.loads(await world.log("a"))
    assert Path(folder).is_relative_to(world.work_dir)
    assert [words[0], str(Path(words[1]).resolve()), words[2]] == ["--rate=0.1", f"{folder}/out", "a"]
    assert (str(Path(variables["OUTPUT"]).resolve()), variables["HOSTNAME"]) == (f"{folder}/a", "a")
    assert "PYTEST_CURRENT_TEST" not in variables


async def test_the_last_words_of_a_failure_are_in_its_message(world: World) -> None:
    traceback = python("print('x' * 3000, flush=True)\nraise ValueError('the data is gone')")
    world.create(pod_of("log", traceback | {"terminationMessagePolicy": "FallbackToLogsOnError"}))
    world.create(pod_of("file", shell("echo why > /dev/termination-log; echo other; exit 1")))
    world.create(pod_of("none", shell("echo other; exit 1")))
    message = state_of(await world.until_phase("log", "Failed"))["terminated"]["message"]
    assert message.endswith("ValueError: the data is gone\n")
    assert len(message) == 2048
    assert state_of(await world.until_phase("file", "Failed"))["terminated"]["message"] == "why\n"
    assert "message" not in state_of(await world.until_phase("none", "Failed"))["terminated"]


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"command": ["no-such-program"]}, 'exec: "no-such-program": executable file not found in $PATH'),
        ({"command": ["/no/such"]}, 'exec: "/no/such": stat /no/such: no such file or directory'),
        ({"command": ["/etc/passwd"]}, 'exec: "/etc/passwd": permission denied'),
        ({"args": ["--fast"]}, "no command: the image is not pulled, so what it would run is not known"),
        (
            {"command": ["true"], "workingDir": "/no/such"},
            'chdir to cwd ("/no/such") failed: no such file or directory on this machine',
        ),
    ],
)
async def test_a_command_that_cannot_start_is_said_as_a_runtime_says_it(
    world: World, container: dict[str, Any], message: str
) -> None:
    world.create(pod_of("a", container))
    terminated = state_of(await world.until_phase("a", "Failed"))["terminated"]
    assert (terminated["exitCode"], terminated["reason"], terminated["message"]) == (128, "StartError", message)


async def test_init_containers_run_first_and_in_order(world: World) -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    inits = [{"name": name, "image": "x", **shell(f"echo {name} >> /shared/order", **mount)} for name in ("one", "two")]
    world.create(pod_of("a", shell("cat /shared/order", **mount), initContainers=inits, volumes=[{"name": "shared"}]))
    await world.until_phase("a", "Succeeded")
    assert await world.log("a") == "one\ntwo\n"
    first = world.versions("a")[2][1]["status"]
    assert first["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}

    failing = [{"name": "one", "image": "x", **shell("exit 7")}]
    world.create(pod_of("b", shell("true"), initContainers=failing))
    status = (await world.until_phase("b", "Failed"))["status"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert list(status["containerStatuses"][0]["state"]) == ["waiting"]


async def test_containers_run_side_by_side_and_a_pod_runs_until_the_last_ends(world: World) -> None:
    sidecar = shell("until [ -e go ]; do sleep 0.02; done", name="sidecar", workingDir=str(world.work_dir))
    world.create(pod_of("a", shell("exit 0"), sidecar))
    pod = await world.until("a", lambda pod: "terminated" in str(pod.get("status", {}).get("containerStatuses")))
    assert pod["status"]["phase"] == "Running"
    assert [list(state_of(pod, index)) for index in (0, 1)] == [["terminated"], ["running"]]
    assert "choose one of: [tensorflow sidecar]" in await world.log("a")
    (world.work_dir / "go").touch()
    await world.until_phase("a", "Succeeded")


async def test_a_failure_is_restarted_in_place_with_growing_waits(world: World) -> None:
    code = "echo run >> /memory/runs; n=$(wc -l < /memory/runs); echo attempt $n; [ $n -ge 4 ] || exit $n"
    mount = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
    world.create(pod_of("a", shell(code, **mount), restartPolicy="OnFailure", volumes=[{"name": "memory"}]))
    ended = await world.until_phase("a", "Succeeded")
    container = ended["status"]["containerStatuses"][0]
    assert container["restartCount"] == 3
    assert container["state"]["terminated"]["exitCode"] == 0
    assert container["lastState"]["terminated"]["exitCode"] == 3
    waits = [
        (one["restartCount"], one["lastState"]["terminated"]["exitCode"], one["state"]["waiting"]["message"].split()[1])
        for _, body in world.versions("a")
        for one in body.get("status", {}).get("containerStatuses", [])
        if one["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    ]
    # The first restart comes at once.
    assert waits == [(1, 2, "0.2s"), (2, 3, "0.4s")]
    assert world.phases("a") == ["Pending", "Running", "Succeeded"]
    assert await world.log("a") == "attempt 4\n"
    assert await world.log("a", previous="true") == "attempt 3\n"


async def test_a_deleted_pod_gets_sigterm_and_its_end_is_told_before_it_goes(world: World) -> None:
    world.create(pod_of("a", shell("trap 'echo bye; exit 143' TERM; echo up; while :; do sleep 0.02; done")))
    await world.until_logged("a", "up")
    world.delete("a")
    last = await world.until_gone("a")
    assert state_of(last)["terminated"]["exitCode"] == 143
    assert last["status"]["phase"] == "Failed"
    kinds = [kind for kind, _ in world.versions("a")]
    assert kinds[-1] == "DELETED"
    assert world.versions("a")[-2][1]["status"] == last["status"]


async def test_a_pod_that_ignores_sigterm_is_killed_with_all_it_started(world: World) -> None:
    world.create(pod_of("a", shell("trap '' TERM; sleep 1000 & echo pid $!; while :; do sleep 0.02; done")))
    child = int((await world.until_logged("a", "pid")).split()[1])
    world.delete("a", grace_seconds=1)
    last = await world.until_gone("a")
    assert state_of(last)["terminated"]["exitCode"] == 137
    assert await becomes_true(lambda: not is_running(child))


async def test_a_grace_that_is_cut_short_is_followed(world: World) -> None:
    world.create(pod_of("a", shell("trap '' TERM; echo up; while :; do sleep 0.02; done")))
    await world.until_logged("a", "up")
    world.delete("a", grace_seconds=1000)
    world.delete("a", grace_seconds=1)
    assert state_of(await world.until_gone("a"))["terminated"]["exitCode"] == 137


async def test_a_pod_deleted_by_force_leaves_no_process(world: World) -> None:
    world.create(pod_of("a", shell("echo pid $$; sleep 1000")))
    pid = int((await world.until_logged("a", "pid")).split()[1])
    world.delete("a", grace_seconds=0)
    await world.until_gone("a")
    assert await becomes_true(lambda: not is_running(pid))


async def test_a_pod_deleted_before_its_container_ran_is_lost(world: World) -> None:
    world.create(pod_of("a", shell("true"), volumes=[{"name": "code", "configMap": {"name": "none"}}]))
    await world.until("a", lambda pod: bool(pod.get("status", {}).get("containerStatuses")))
    world.delete("a")
    terminated = state_of(await world.until_gone("a"))["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "ContainerStatusUnknown")


async def test_a_container_waits_for_what_it_refers_to(world: World) -> None:
    variable = {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "rate"}}}
    world.create(pod_of("variable", shell("echo $RATE", env=[variable])))
    world.create(pod_of("volume", shell("true"), volumes=[{"name": "v", "configMap": {"name": "late"}}]))
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "late" not found'}
    pod = await world.until(
        "variable", lambda pod: "ConfigError" in str(pod.get("status", {}).get("containerStatuses"))
    )
    assert state_of(pod) == {"waiting": waiting}
    assert pod["status"]["phase"] == "Pending"
    assert await becomes_true(lambda: world.warnings("FailedMount") != [])
    assert world.warnings("FailedMount") == ['MountVolume.SetUp failed: configmap "late" not found']
    world.config_map("late", {"rate": "0.5"})
    await world.until_phase("variable", "Succeeded")
    await world.until_phase("volume", "Succeeded")
    assert await world.log("variable") == "0.5\n"


async def test_what_is_not_honoured_is_said_once_a_job(world: World) -> None:
    gpu = shell("true", resources={"limits": {"nvidia.com/gpu": "1"}})
    for name in ("a-worker-0", "a-worker-1"):
        world.create(pod_of(name, gpu, job="a"))
    world.create(pod_of("b-worker-0", gpu, job="b"))
    world.create(pod_of("c-worker-0", shell("true"), job="c"))
    for name in ("a-worker-0", "a-worker-1", "b-worker-0", "c-worker-0"):
        await world.until_phase(name, "Succeeded")
    words = (
        "a process of this machine cannot honour limits of container tensorflow (nvidia.com/gpu=1): "
        "the process may use all that the machine has"
    )
    assert world.said == [f"default/a: {words}", f"default/b: {words}"]
    assert await becomes_true(lambda: world.warnings("NotHonoured") == [words, words])


async def test_a_log_is_followed_to_its_end_and_cut_at_its_tail(world: World) -> None:
    code = "echo one; echo two; until [ -e go ]; do sleep 0.02; done; printf three"
    world.create(pod_of("a", shell(code, workingDir=str(world.work_dir))))
    await world.until_logged("a", "two")
    followed = asyncio.create_task(world.log("a", follow="true", tailLines="1"))
    assert await world.log("a", tailLines="1") == "two\n"
    (world.work_dir / "go").touch()
    assert await followed == "two\nthree"
    assert await world.log("a", tailLines="2") == "two\nthree"
    assert await world.log("a", limitBytes="5") == "one\nt"
    assert 'previous terminated container \\"tensorflow\\" in pod \\"a\\" not found' in await world.log(
        "a", previous="true"
    )
    assert "timestamps of pod logs" in await world.log("a", timestamps="true")


async def test_an_ended_pod_goes_at_once_when_it_is_deleted(world: World) -> None:
    world.create(pod_of("a", shell("exit 3")))
    ended = await world.until_phase("a", "Failed")
    world.delete("a")
    last = await world.until_gone("a")
    assert last["status"] == ended["status"]


async def test_a_pod_held_by_a_finalizer_is_confirmed_once_and_goes_when_released(world: World) -> None:
    pod = pod_of("a", shell("echo up; sleep 1000"))
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    world.create(pod)
    await world.until_logged("a", "up")
    world.delete("a")
    held = await world.until("a", lambda pod: pod["metadata"].get("deletionGracePeriodSeconds") == 0)
    assert state_of(held)["terminated"]["exitCode"] == 143
    await world.patch("a", [{"op": "remove", "path": "/metadata/finalizers"}])
    await world.until_gone("a")


def pods_of_example(example: str) -> list[dict[str, Any]]:
    """The pods that a controller makes of an example's TFJob, with TF_CONFIG."""
    job = next(one for one in yaml.safe_load_all((EXAMPLES / example).read_text()) if one["kind"] == "TFJob")
    name = job["metadata"]["name"]
    replicas = {kind.lower(): spec for kind, spec in job["spec"]["tfReplicaSpecs"].items()}
    cluster = {
        kind: [f"{name}-{kind}-{index}.{NAMESPACE}.svc:2222" for index in range(spec["replicas"])]
        for kind, spec in sorted(replicas.items())
    }
    pods = []
    for kind, spec in replicas.items():
        for index in range(spec["replicas"]):
            config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
            container = spec["template"]["spec"]["containers"][0]
            variable = {"name": "TF_CONFIG", "value": json.dumps(config)}
            volumes = spec["template"]["spec"]["volumes"]
            pods.append(pod_of(f"{name}-{kind}-{index}", container | {"env": [variable]}, volumes=volumes, job=name))
    return pods


@pytest.mark.parametrize(
    ("example", "decider"),
    [
        ("master-is-chief.yaml", "master-is-chief-v1alpha2-chief-0"),
        ("v1-no-chief.yaml", "v1-no-chief-worker-0"),
    ],
)
async def test_the_replicas_of_a_job_find_each_other(world: World, example: str, decider: str) -> None:
    for document in yaml.safe_load_all((EXAMPLES / example).read_text()):
        if document["kind"] == "ConfigMap":
            world.config_map(document["metadata"]["name"], document["data"])
    pods = pods_of_example(example)
    for pod in pods:
        world.create(pod)
    await world.until_phase(decider, "Succeeded")
    phases = {pod["metadata"]["name"]: world.phases(pod["metadata"]["name"])[-1] for pod in pods}
    assert phases == {name: "Succeeded" if name == decider else "Running" for name in phases}
    for name in phases:
        world.delete(name)
    for name in phases:
        await world.until_gone(name)


async def test_a_slot_keeps_its_port_in_its_next_attempt(world: World) -> None:
    cluster = {"worker": ["a-worker-0.default.svc:2222", "a-worker-1.default.svc:2222"]}
    variable = {"name": "TF_CONFIG", "value": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}
    seen = []
    for name in ("a-worker-0", "a-worker-1", "a-worker-0"):
        world.create(pod_of(name, shell("echo $TF_CONFIG", env=[variable]), job="a"))
        await world.until_phase(name, "Succeeded")
        seen.append(json.loads(await world.log(name))["cluster"]["worker"])
        world.delete(name)
        await world.until_gone(name)
    assert seen[0] == seen[1] == seen[2]
    assert len({address.removeprefix("127.0.0.1:") for address in seen[0]}) == 2
    world.create(pod_of("b-worker-0", shell("echo $TF_CONFIG", env=[variable]), job="b"))
    await world.until_phase("b-worker-0", "Succeeded")
    assert json.loads(await world.log("b-worker-0"))["cluster"] == cluster


async def test_nothing_is_left_when_the_kubelet_stops(world: World) -> None:
    world.create(pod_of("a", shell("trap '' TERM; sleep 1000 & echo pid $! $$; while :; do sleep 0.02; done")))
    pids = [int(pid) for pid in (await world.until_logged("a", "pid")).split()[1:]]
    written = len(world.versions("a"))
    await world.kubelet.stop()
    assert [is_running(pid) for pid in pids] == [False, False]
    assert len(world.versions("a")) == written


async def test_nothing_is_left_when_the_kubelets_process_is_killed(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from tests.local.kubelet_world import World, pod_of, shell

async def serve():
    world = World(Path(sys.argv[1]))
    await world.start()
    world.create(pod_of("a", shell("trap '' TERM; sleep 1000 & echo pid $! $$; wait")))
    print(await world.until_logged("a", "pid"), flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code, str(tmp_path / "work")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in (await asyncio.to_thread(process.stdout.readline)).split()[1:]]
        assert [is_running(pid) for pid in pids] == [True, True]
        os.kill(process.pid, signal.SIGKILL)
    assert await becomes_true(lambda: not any(is_running(pid) for pid in pids))


async def test_pods_of_another_node_or_held_by_a_gate_are_left_alone(world: World) -> None:
    world.create(pod_of("elsewhere", shell("true"), nodeName="another"))
    world.create(pod_of("gated", shell("true"), schedulingGates=[{"name": "example.com/wait"}]))
    world.create(pod_of("ours", shell("true")))
    await world.until_phase("ours", "Succeeded")
    assert [len(world.versions(name)) for name in ("elsewhere", "gated")] == [1, 1]
