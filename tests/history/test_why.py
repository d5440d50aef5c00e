"""What the answer says, case by case: what failed first, who ended it, what is waited for, what a gap hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.history import Answer, lines_of
from controller.history.ends import Ender, ender_of
from controller.model.actions import Because
from tests.history.filled import play_text

V1 = "{apiVersion: kubeflow.org/v1, kind: TFJob, spec: {RUN tfReplicaSpecs: {TYPES}}}"
WORKERS = "Worker: {replicas: 3}"
EXIT_CODE = "Worker: {replicas: 2, restartPolicy: ExitCode}"

CASES: list[tuple[str, str, str, str, list[str], list[str]]] = [
    ("runs", WORKERS, "", '- pods: {"*": Running}',
     ["is Running since", "waits for     worker-0 to succeed: it decides the job"], ["failed", "not certain"]),
    ("waits for a node", WORKERS, "",
     '- pods: {"*": Running, worker-2: {phase: Pending, unschedulable: "0/3 nodes: no GPU"}}',
     ["is stalled (Unschedulable)", "no GPU", "waits for     worker-2: Unschedulable"], ["failed"]),
    ("starts", WORKERS, "", "- pods: {worker-0: Pending}",
     ["is created and does not run yet, since", "worker-0: pod job-a-worker-0 to be given a node"], ["failed"]),
    ("suspended", WORKERS, "runPolicy: {suspend: true},", "- after: 1s",
     ["is Suspended", "waits for     spec.runPolicy.suspend to become false"], ["failed"]),
    ("succeeded", WORKERS, "", '- pods: {"*": Running}\n  - pods: {worker-0: Succeeded}',
     ["succeeded at", "Succeeded became true"], ["failed", "waits for"]),
    ("all workers", "Chief: {replicas: 1}, Worker: {replicas: 2}", "successPolicy: AllWorkers,",
     '- pods: {"*": Running}\n  - pods: {worker-1: Succeeded}',
     ["chief-0 and every Worker to succeed (1 of 2 have)"], ["failed"]),
    ("deadline ahead", WORKERS, "runPolicy: {activeDeadlineSeconds: 60},", '- pods: {"*": Running}',
     ["at the latest 2026-01-01T00:01:00Z: activeDeadlineSeconds 60"], ["failed"]),
    ("deadline over", WORKERS, "runPolicy: {activeDeadlineSeconds: 60},", '- pods: {"*": Running}\n  - after: 61s',
     ["(DeadlineExceeded)", "activeDeadlineSeconds (60 s)", "deleted pods (Deadline): job-a-worker-0, job-a-worker-1"],
     ["exit code", "waits for"]),
    ("is retried", EXIT_CODE, "", '- pods: {"*": Running}\n  - pods: {worker-1: Failed(137)}',
     ["is Restarting", "last failure  worker-1, attempt 1", "exit code     137: killed by signal 9, SIGKILL",
      "retries       1",
      "created the next attempt of: worker-1 (attempt 2)", "worker-1: its next attempt to run"], []),
    ("an earlier attempt", EXIT_CODE, "", '- pods: {"*": Running}\n  - pods: {worker-1: Failed(137)}\n'
     '  - pods: {worker-1: Running}\n  - pods: {worker-1: {phase: Failed, exitCode: 2, message: "no data"}}',
     ["failed        worker-1, attempt 2", "exit code     2: misuse of a shell command", "last words    no data",
      "worker-1 (pod job-a-worker-1, attempt 1) exited with code 137", "retries       1"], ["first of all"]),
    ("a first one that did not decide", "Chief: {replicas: 1}, Worker: {replicas: 2}", "enableDynamicWorker: true,",
     '- pods: {"*": Running}\n  - pods: {worker-1: Failed(139)}\n  - after: 5s\n  - pods: {chief-0: Failed(1)}',
     ["failed        chief-0, attempt 1",
      "first of all  worker-1 (pod job-a-worker-1, attempt 1) exited with code 139"],
     []),
    ("made good before", "Chief: {replicas: 1}, Worker: {replicas: 2, restartPolicy: ExitCode}", "",
     '- pods: {"*": Running}\n  - pods: {worker-1: Failed(139)}\n  - pods: {worker-1: Running}\n'
     '  - pods: {chief-0: Failed(1)}',
     ["failed        chief-0, attempt 1", "retries       1"], ["first of all"]),
    ("deleted by someone", WORKERS, "", '- pods: {"*": Running}\n  - gone: worker-1',
     ["failed        worker-1, attempt 1", "ended by      someone else, who deleted the pod",
      "not certain   the exit code of worker-1"], ["exit code     "]),
    ("lost in a gap", WORKERS, "", '- pods: {"*": Running}\n  - gap: [{gone: worker-1}]',
     ["ended by      not known: the pod went while the watch had a gap",
      "how worker-1 (pod job-a-worker-1, attempt 1) ended",
      "seen only by a relist", "had a gap (Expired)"], ["exit code     "]),
    ("failed in a gap", WORKERS, "", '- pods: {"*": Running}\n  - gap: [{pods: {worker-1: Failed(3)}}]',
     ["exit code     3", "whether it was the first"], []),
    ("evicted", WORKERS, "", '- pods: {"*": Running}\n  - pods: {worker-1: Evicted}',
     ["ended by      the kubelet, which evicted the pod", "reason        Evicted"], []),
    ("crashes in place", "Worker: {replicas: 1, restartPolicy: OnFailure}", "",
     '- pods: {"*": Running}\n'
     '  - pods: {worker-0: {phase: Running, restartCount: 1, lastExitCode: 1, waiting: CrashLoopBackOff}}',
     ["is Restarting", "worker-0: the kubelet to restart it in place after code 1 (general error"], []),
    ("deleted while it ran", WORKERS, "", '- pods: {"*": Running}\n  - delete_job: true',
     ["is Running", "then the TFJob was deleted"], ["waits for", "failed"]),
    ("of another controller", WORKERS, 'runPolicy: {managedBy: "kueue.x-k8s.io/multikueue"},', "- after: 1s",
     ["has no condition yet", "another controller runs it"], ["failed"]),
]  # fmt: skip


def answered(tmp_path: Path, types: str, run: str, steps: str) -> Answer:
    job = V1.replace("RUN", run).replace("TYPES", types)
    answer = play_text(tmp_path, f"title: a case\njob: {job}\nsteps:\n  {steps}\n").why()
    assert answer is not None
    return answer


@pytest.mark.parametrize(("case", "types", "run", "steps", "words", "absent"), CASES, ids=[case[0] for case in CASES])
def test_the_answer(
    case: str, types: str, run: str, steps: str, words: list[str], absent: list[str], tmp_path: Path
) -> None:
    text = "\n".join(lines_of(answered(tmp_path, types, run, steps)))
    assert [word for word in words if word not in text] == [], text
    assert [word for word in absent if word in text] == [], text


def test_words_of_others_bring_no_control_characters(tmp_path: Path) -> None:
    steps = (
        '- pods: {"*": Running}\n  - pods: {worker-0: {phase: Failed, exitCode: 1, message: "a\\e[31mred\\u0007\\nb"}}'
    )
    lines = lines_of(answered(tmp_path, WORKERS, "", steps))
    assert all(line.isprintable() for line in lines)
    assert "  last words    a [31mred" in lines and " " * 16 + "b" in lines


def test_lines_that_only_underline_are_left_out(tmp_path: Path) -> None:
    message = "Traceback:\\n  train(x)\\n  ^^^^^^^^\\nKeyError: 'x'"
    steps = f'- pods: {{"*": Running}}\n  - pods: {{worker-0: {{phase: Failed, exitCode: 1, message: "{message}"}}}}'
    lines = lines_of(answered(tmp_path, WORKERS, "", steps))
    assert lines[0].endswith("exited with code 1 (general error, Error): KeyError: 'x'")
    assert [line[16:] for line in lines if "^" in line or "train(x)" in line] == ["train(x)"]


ENDERS = [
    ("failed", 1, "Error", None, Ender.ITSELF),
    ("failed", 137, "Error", None, Ender.ITSELF),
    ("failed", 137, "OOMKilled", None, Ender.KERNEL),
    ("succeeded", 0, "", None, Ender.ITSELF),
    ("succeeded", None, "", None, Ender.ITSELF),
    ("stopped", 143, "Error", Because.JOB_ENDED, Ender.CONTROLLER),
    ("stopped", None, "", None, Ender.CONTROLLER),
    ("disrupted", None, "PodDeleted", None, Ender.SOMEONE),
    ("disrupted", 143, "PodDeleted", None, Ender.SOMEONE),
    ("disrupted", None, "PodLostDuringGap", None, Ender.UNKNOWN),
    ("disrupted", 137, "ContainerStatusUnknown", None, Ender.KUBELET),
    ("disrupted", None, "Evicted", None, Ender.KUBELET),
    ("disrupted", None, "OutOfmemory", None, Ender.KUBELET),
    ("disrupted", None, "NodeLost", None, Ender.NODE),
    ("disrupted", None, "PreemptionByScheduler", None, Ender.SCHEDULER),
    ("disrupted", None, "EvictionByEvictionAPI", None, Ender.SOMEONE),
    ("disrupted", None, "NoExitCode", None, Ender.UNKNOWN),
]


@pytest.mark.parametrize(("how", "code", "reason", "because", "ender"), ENDERS)
def test_who_ended_an_attempt(how: str, code: int | None, reason: str, because: Because | None, ender: Ender) -> None:
    found, words = ender_of(how, code, reason, because)
    assert found is ender
    if because:
        assert because.value in words
