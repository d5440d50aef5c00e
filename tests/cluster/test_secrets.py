"""No secret reaches the database: canaries are planted wherever a manifest, a container or others can put one, on the
real API server; then the whole database, and what the controller said, is searched for them."""

from __future__ import annotations

import base64
import json
import secrets
import time
from pathlib import Path

import pytest

from controller.run.said import without_secrets
from tests.cluster.harness import CORE, TFJOBS, Api, ControllerProcess, Json, Kubelet, running, until
from tests.controlplane.server import ControlPlane
from tests.history.dump import dump

POLICIES = "/apis/admissionregistration.k8s.io/v1"
HARMLESS = "stays-readable-4711"
"""Words beside the secrets, which must be in the dump: else nothing was recorded and nothing proven."""


class Canaries:
    """Makes secrets and remembers where each was put."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}

    def at(self, place: str, prefix: str = "") -> str:
        self.planted[place] = prefix + secrets.token_hex(12)
        return self.planted[place]

    def found_in(self, parts: list[tuple[str, str]]) -> dict[str, list[str]]:
        """Place of planting → where it turned up: as it is, in hex or in base64."""
        found: dict[str, list[str]] = {}
        for place, canary in self.planted.items():
            raw = canary.encode()
            forms = (canary, raw.hex(), base64.b64encode(raw).decode().rstrip("=")[:-1])
            where = sorted({part for part, text in parts if any(form in text for form in forms)})
            if where:
                found[place] = where
        return found


def container(put: Canaries, name: str) -> Json:
    """A container with secrets in its variables, command, arguments, probes and hooks."""
    header = {"name": "X-Auth", "value": put.at(f"{name}: probe header")}
    return {
        "name": name,
        "image": "example/train:1",
        "command": ["train", f"--api-key={put.at(f'{name}: command')}", HARMLESS],
        "args": ["--token", put.at(f"{name}: argument after its flag"), f"--password={put.at(f'{name}: argument')}",
                 f"postgres://me:{put.at(f'{name}: password in a URL')}@db/x",
                 f"Authorization: Bearer {put.at(f'{name}: bearer')}"],
        "env": [{"name": "PLAIN", "value": put.at(f"{name}: env value")},
                {"name": "JSON", "value": json.dumps({"key": put.at(f"{name}: env value in JSON")})}],
    } | ({"livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [header]}},
          "lifecycle": {"preStop": {"exec": {"command": ["bye", "--secret", put.at(f"{name}: hook")]}}}}
         if name != "init" else {})  # fmt: skip


def manifest(put: Canaries) -> Json:
    template = {
        "metadata": {"annotations": {"example.com/api-token": put.at("template annotation"), "note": HARMLESS}},
        "spec": {
            "initContainers": [container(put, "init")],
            "containers": [container(put, "tensorflow"), container(put, "sidecar")],
        },
    }
    job: Json = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {
            "name": "canary",
            "annotations": {
                "example.com/password": put.at("job annotation"),
                "example.com/hint": f"use token={put.at('token in an annotation')} to log in",
            },
        },
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    }
    last_applied = json.dumps({**job, "note": put.at("last-applied")})
    job["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = last_applied
    return job


async def refuse_worker_1(api: Api, namespace: str) -> None:
    """A policy that refuses a pod and quotes its variables and arguments."""
    quoted = (
        "'refused "
        + HARMLESS
        + ": ' + object.spec.containers[0].env[0].value + ' ' + object.spec.containers[0].args[1]"
    )
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "validations": [{"expression": "!object.metadata.name.endsWith('worker-1')", "messageExpression": quoted}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"], "matchResources": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}},
    }  # fmt: skip
    await api.call("POST", f"{POLICIES}/validatingadmissionpolicies", policy)
    await api.call("POST", f"{POLICIES}/validatingadmissionpolicybindings", binding)
    env = [{"name": "A", "value": "a"}]
    probe = {"metadata": {"name": "x-worker-1"}, "spec": {"containers": [
        {"name": "a", "image": "a", "env": env, "args": ["a", "b"]}]}}  # fmt: skip

    async def is_refused() -> bool:
        answer = await api.try_call("POST", f"{CORE}/namespaces/{namespace}/pods?dryRun=All", probe, "application/json")
        return HARMLESS in answer.get("message", "")

    await until(is_refused, "the policy is in force")


async def end_with_secrets(api: Api, namespace: str, put: Canaries) -> None:
    """Worker 0 fails with secrets in its last words, and the kubelet's Event quotes some."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    words = (
        f"{HARMLESS} login failed: password={put.at('termination message: password')}\n"
        f"Authorization: Bearer {put.at('termination message: bearer')}\n"
        f"using {put.at('termination message: well-known token', 'hf_')}"
    )
    ended = {"exitCode": 1, "reason": "Error", "message": words, "startedAt": now, "finishedAt": now}
    status = {"name": "tensorflow", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
              "state": {"terminated": ended}}  # fmt: skip
    pods = f"{CORE}/namespaces/{namespace}/pods"
    pod = await api.call("GET", f"{pods}/canary-worker-0")
    event = {
        "metadata": {"name": "canary-event", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "canary-worker-0",
                           "uid": pod["metadata"]["uid"], "apiVersion": "v1"},
        "type": "Warning", "reason": "Failed",
        "message": f"{HARMLESS} pull with token={put.at('Event message')} failed",
        "reportingComponent": "kubelet", "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    }  # fmt: skip
    await api.call("POST", f"{CORE}/namespaces/{namespace}/events", event)
    body = {"status": {"phase": "Failed", "containerStatuses": [status]}}
    await api.call("PATCH", f"{pods}/canary-worker-0/status", body, "application/merge-patch+json")


@pytest.mark.cluster
async def test_no_canary_is_in_a_dump_of_the_database(
    control_plane: ControlPlane, api: Api, kubelet: Kubelet, real_namespace: str, database_url: str, tmp_path: Path
) -> None:
    put = Canaries()
    job = manifest(put)
    await refuse_worker_1(api, real_namespace)
    controller = ControllerProcess(
        control_plane, database_url, real_namespace, tmp_path / "controller.log", "--log-level", "debug"
    )
    path = f"{TFJOBS}/namespaces/{real_namespace}/tfjobs"

    async def state(kind: str) -> bool:
        entries = ((await api.call("GET", f"{path}/canary")).get("status") or {}).get("conditions") or []
        return any(entry["type"] == kind and entry["status"] == "True" for entry in entries)

    async def is_recorded() -> bool:
        parts = await dump(database_url)
        return all(
            any(HARMLESS in text and word in text for _, text in parts)
            for word in ("login failed", "pull with", "refused", "train")
        )

    async with running(controller):
        await until(lambda: "leading" in controller.said(), "the controller leads")
        await api.call("POST", path, job)
        await until(lambda: state("Stalled"), "the policy stalls the job")
        await kubelet.report("canary-worker-0", "Running")
        await end_with_secrets(api, real_namespace, put)
        await until(lambda: state("Failed"), "the job has failed")
        await api.call("DELETE", f"{path}/canary")
        await until(is_recorded, "manifest, last words, Event and refusal are in the log")
        assert await controller.terminate() == 0
    assert len(put.planted) >= 25
    assert put.found_in(await dump(database_url)) == {}
    assert put.found_in([("the controller's own words", controller.said())]) == {}


def test_the_search_finds_what_is_there() -> None:
    """Else an empty result says nothing."""
    put = Canaries()
    canary = put.at("somewhere")
    for text in (f"a {canary} b", canary.encode().hex(), base64.b64encode(canary.encode()).decode()):
        assert put.found_in([("t.c", text)]) == {"somewhere": ["t.c"]}
    assert put.found_in([("t.c", "nothing")]) == {}


def test_words_of_the_server_come_without_the_jobs_values() -> None:
    job = {"spec": {"containers": [{"env": [{"name": "A", "value": "hunter2hunter2"}, {"name": "B", "value": "yes"}]}]}}
    said = without_secrets("env A is hunter2hunter2, yes; --token abcdef refused", job)
    assert said == "env A is REDACTED, yes; --token REDACTED refused"
    assert without_secrets("", job) == "" and without_secrets("quota exceeded", None) == "quota exceeded"
