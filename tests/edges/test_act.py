"""Actions over HTTP, on the local API server and the real one: each answer is an outcome, each repeat is safe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from controller.act import Actor, Request, Turns
from controller.kube import ApiError, KubeClient, connect
from controller.local.apiserver import LocalApiServer
from controller.local.manifests import crd_manifest
from controller.model import actions
from controller.model.actions import Action, Because, Outcome, Result
from controller.model.instants import instant_of
from controller.model.replicas import ReplicaType
from controller.model.settings import PolicySettings
from tests.cluster.harness import Api, install_crd, until
from tests.controlplane.server import ControlPlane

NOW = instant_of("2026-01-01T00:00:00Z")
Json = dict[str, Any]


class Target:
    """An API server, a namespace on it, and a TFJob in that."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.actor = Actor(client, PolicySettings())
        self.job: Json = {}

    async def send(self, method: str, path: str, body: Any = None) -> Json:
        answer = await self.client.request(method, path, body=body)
        found: Json = answer.json()
        return found

    async def begin(self) -> None:
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
        manifest = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "a"},
            "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
        }
        self.job = await self.send("POST", f"/apis/kubeflow.org/v1/namespaces/{self.namespace}/tfjobs", manifest)

    def path(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    async def names(self, plural: str) -> list[str]:
        return [each["metadata"]["name"] for each in (await self.send("GET", self.path(plural)))["items"]]

    async def act(self, action: Action, **options: Any) -> Outcome:
        return await self.actor.carry_out(self.request(action, **options), NOW)

    def request(self, action: Action, **options: Any) -> Request:
        found = {
            "job_uid": self.job["metadata"]["uid"],
            "decided_position": 7,
            "ordinal": 0,
            "generation": 1,
            **options,
        }
        return Request(action=action, namespace=self.namespace, name="a", **found)


def written(kubeconfig: Json, folder: Path) -> Path:
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    return file


@pytest_asyncio.fixture
async def local_target(tmp_path: Path) -> AsyncIterator[Target]:
    server = LocalApiServer()
    await server.start()
    server.store.create("customresourcedefinitions.apiextensions.k8s.io", crd_manifest())
    server.store.create("namespaces", {"metadata": {"name": "team"}})
    async with await connect(written(server.kubeconfig(), tmp_path), None, False) as client:
        found = Target(client, "team")
        await found.begin()
        yield found
    await server.stop()


@pytest_asyncio.fixture
async def real_target(control_plane: ControlPlane, real_namespace: str) -> AsyncIterator[Target]:
    async with Api(control_plane) as api:
        await install_crd(api)
    async with await connect(control_plane.kubeconfig, None, False) as client:
        found = Target(client, real_namespace)
        await found.begin()
        yield found


@pytest.fixture(params=["local", "real"])
def target(request: pytest.FixtureRequest) -> Target:
    """The API server under test."""
    found: Target = request.getfixturevalue(f"{request.param}_target")
    return found


CREATE = actions.CreatePod(ReplicaType.WORKER, 1, 1)


async def test_a_pod_is_created_once_and_a_repeat_names_the_holder(target: Target) -> None:
    done = await target.act(CREATE)
    assert (done.result, done.code) == (Result.DONE, 201) and done.uid and done.spec_hash
    again = await target.act(CREATE)
    assert (again.result, again.code, again.reason) == (Result.REFUSED, 409, "AlreadyExists")
    assert again.holder is not None
    assert (again.holder.uid, again.holder.owner_uid, again.holder.owner_kind) == (
        done.uid, target.job["metadata"]["uid"], "TFJob",
    )  # fmt: skip
    assert await target.names("pods") == ["a-worker-1"]


async def test_the_creations_of_one_burst_share_one_look_at_the_job(target: Target) -> None:
    before = target.client.request_count
    burst = [actions.CreateService(ReplicaType.WORKER, index) for index in range(2)]
    found = await asyncio.gather(target.act(CREATE), *(target.act(each) for each in burst))
    assert {each.result for each in found} == {Result.DONE}
    assert target.client.request_count - before == 1 + len(found)
    await target.act(actions.CreatePod(ReplicaType.WORKER, 0, 1))
    assert target.client.request_count - before == 2 + len(found), "the job was looked at again"


async def test_a_service_is_created_headless(target: Target) -> None:
    done = await target.act(actions.CreateService(ReplicaType.WORKER, 0))
    assert done.result is Result.DONE
    service = await target.send("GET", target.path("services", "a-worker-0"))
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True


async def test_only_the_pod_with_that_uid_is_deleted(target: Target) -> None:
    done = await target.act(CREATE)
    other = await target.act(actions.DeletePod("a-worker-1", "another-uid", Because.REPLACED))
    assert (other.result, other.code) == (Result.DONE, 409) and await target.names("pods") == ["a-worker-1"]
    assert (await target.act(actions.DeletePod("a-worker-1", done.uid or "", Because.REPLACED))).result is Result.DONE
    gone = await target.act(actions.DeletePod("a-worker-1", done.uid or "", Because.REPLACED))
    assert (gone.result, gone.code) == (Result.DONE, 404) and await target.names("pods") == []


async def test_one_collection_takes_all_of_the_job_and_nothing_else(target: Target) -> None:
    for index in (0, 1):
        await target.act(actions.CreatePod(ReplicaType.WORKER, index, 1))
        await target.act(actions.CreateService(ReplicaType.WORKER, index))
    main = {"name": "main", "image": "example/train:1"}
    await target.send("POST", target.path("pods"), {"metadata": {"name": "other"}, "spec": {"containers": [main]}})
    for kind in ("pods", "services"):
        assert (await target.act(actions.DeleteOwned(kind, Because.JOB_ENDED))).result is Result.DONE
    assert (await target.names("pods"), await target.names("services")) == (["other"], [])


async def test_a_status_rests_on_one_version_of_one_job(target: Target) -> None:
    version = target.job["metadata"]["resourceVersion"]
    status = {"conditions": [{"type": "Created", "status": "True"}]}
    patch = actions.PatchStatus(urgent=True)
    done = await target.act(patch, status=status, resource_version=version)
    assert done.result is Result.DONE and done.status_digest and done.resource_version != version
    stale = await target.act(patch, status={"conditions": []}, resource_version=version)
    assert (stale.result, stale.code, stale.reason, stale.resource_version) == (
        Result.REFUSED,
        409,
        "Conflict",
        version,
    )
    other = await target.act(
        patch, status={"conditions": []}, resource_version=done.resource_version, job_uid="another-uid"
    )
    assert (other.result, other.code) == (Result.REFUSED, 409)
    found = await target.send("GET", f"/apis/kubeflow.org/v1/namespaces/{target.namespace}/tfjobs/a")
    assert found["status"] == status


async def test_an_event_is_written_once(target: Target) -> None:
    notice = actions.EmitNotice("Warning", "TFJobFailed", "worker-0 failed")
    first, again = await target.act(notice), await target.act(notice)
    assert (first.code, again.code, again.result) == (201, 409, Result.DONE)
    found = (await target.send("GET", target.path("events")))["items"]
    assert [(each["reason"], each["type"], each["involvedObject"]["name"]) for each in found] == [
        ("TFJobFailed", "Warning", "a")
    ]


async def test_the_job_itself_goes_with_its_uid(target: Target) -> None:
    other = await target.act(actions.DeleteJob(Because.TTL), job_uid="another-uid")
    assert (other.result, other.code) == (Result.DONE, 409)
    assert (await target.act(actions.DeleteJob(Because.TTL))).result is Result.DONE
    with pytest.raises(ApiError):
        await target.send("GET", f"/apis/kubeflow.org/v1/namespaces/{target.namespace}/tfjobs/a")


async def test_a_job_that_is_gone_refuses_its_pods(target: Target) -> None:
    await target.act(actions.DeleteJob(Because.TTL))
    refused = await target.act(CREATE)
    assert (refused.result, refused.code, refused.reason) == (Result.REFUSED, 404, "NotFound")


async def test_what_the_server_says_comes_back_in_its_words(tmp_path: Path) -> None:
    answers: list[web.Response] = [
        web.json_response({"kind": "Status", "message": "slow down", "reason": "TooManyRequests"}, status=429,
                          headers={"Retry-After": "7"}),
        web.json_response({"kind": "Status", "message": "exceeded quota: q", "reason": "Forbidden"}, status=403),
        web.Response(text="<html>bad gateway</html>", status=502),
    ]  # fmt: skip

    async def answer(_: web.Request) -> web.Response:
        return answers.pop(0)

    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://{host}:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    async with await connect(written(kubeconfig, tmp_path), None, False) as client:
        target = Target(client, "n")
        target.job = {"metadata": {"uid": "u"}}
        delete = actions.DeletePod("p", "u", Because.REPLACED)
        found = [await target.act(delete) for _ in range(3)]
    await runner.cleanup()
    assert [(each.result, each.code, each.reason) for each in found] == [
        (Result.REFUSED, 429, "TooManyRequests"), (Result.REFUSED, 403, "Forbidden"),
        (Result.UNKNOWN, 502, "ServerFault"),
    ]  # fmt: skip
    assert found[0].retry_after_seconds == 7 and found[1].message == "exceeded quota: q"


class Recorder:
    """An actor that only counts: it says who was sent when."""

    def __init__(self, outcomes: list[Outcome] | None = None) -> None:
        self.sent: list[str] = []
        self.statuses: list[Any] = []
        self.together = self.most_together = 0
        self._outcomes = outcomes or []

    async def carry_out(self, request: Request, now: int) -> Outcome:
        self.sent.append(request.job_uid)
        self.statuses.append(request.status)
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        await asyncio.sleep(0)
        self.together -= 1
        return self._outcomes.pop(0) if self._outcomes else Outcome(Result.DONE)


def turns(recorder: Recorder, outcomes: list[tuple[Request, int, Outcome]], **options: Any) -> Turns:
    found: dict[str, Any] = {
        "is_wanted": lambda request: True, "status_now": lambda uid: ({"of": uid}, "9"), "workers": 2,
        "now": lambda: NOW, "on_outcome": lambda *each: outcomes.append(each), **options,
    }  # fmt: skip
    return Turns(recorder, **found)  # type: ignore[arg-type]


def asked(uid: str, action: Action = CREATE, ordinal: int = 0) -> Request:
    return Request(action=action, job_uid=uid, namespace="n", name="a", decided_position=1, ordinal=ordinal)


async def settled(found: list[Any], count: int) -> None:
    await until(lambda: len(found) >= count, f"{count} outcomes", 10)


async def test_jobs_take_turns_and_no_more_than_the_workers_are_under_way() -> None:
    recorder, outcomes = Recorder(), []
    queue = turns(recorder, outcomes)
    running = asyncio.create_task(queue.run())
    queue.submit([asked("large") for _ in range(50)] + [asked("small")])
    await settled(outcomes, 51)
    running.cancel()
    assert recorder.sent.index("small") <= 3 and recorder.most_together == 2


async def test_what_is_no_longer_wanted_is_dropped_right_before_it_is_sent() -> None:
    recorder, outcomes = Recorder(), []
    queue = turns(recorder, outcomes, is_wanted=lambda request: request.job_uid == "wanted")
    running = asyncio.create_task(queue.run())
    queue.submit([asked("unwanted"), asked("wanted")])
    await settled(outcomes, 2)
    running.cancel()
    assert recorder.sent == ["wanted"]
    assert outcomes[0][2] == Outcome(Result.REFUSED, reason="NotWanted")


async def test_a_status_waits_for_company_until_it_is_urgent_and_is_the_newest_when_sent() -> None:
    recorder, outcomes = Recorder(), []
    queue = turns(recorder, outcomes)
    running = asyncio.create_task(queue.run())
    queue.submit([asked("calm", actions.PatchStatus(urgent=False))])
    queue.submit([asked("other", actions.PatchStatus(urgent=True))])
    await settled(outcomes, 1)
    assert recorder.sent == ["other"]
    queue.hurry("calm")
    await settled(outcomes, 2)
    running.cancel()
    assert recorder.statuses == [{"of": "other"}, {"of": "calm"}]


async def test_an_unknown_outcome_is_told_and_the_request_sent_again() -> None:
    recorder, outcomes = Recorder([Outcome(Result.UNKNOWN)]), []
    queue = turns(recorder, outcomes)
    running = asyncio.create_task(queue.run())
    queue.submit([asked("a")])
    await settled(outcomes, 2)
    running.cancel()
    assert [(attempt, outcome.result) for _, attempt, outcome in outcomes] == [(1, Result.UNKNOWN), (2, Result.DONE)]


async def test_draining_begins_nothing_and_waits_for_what_was_sent() -> None:
    recorder, outcomes = Recorder(), []
    queue = turns(recorder, outcomes, workers=1)
    running = asyncio.create_task(queue.run())
    queue.submit([asked("a", ordinal=n) for n in range(5)])
    await asyncio.sleep(0)
    await queue.drain()
    running.cancel()
    assert len(outcomes) == len(recorder.sent) < 5


async def test_a_server_that_has_too_many_is_left_alone_by_all_for_as_long_as_it_says() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    class Timed(Recorder):
        async def carry_out(self, request: Request, now: int) -> Outcome:
            times.append(loop.time())
            return await super().carry_out(request, now)

    too_many = Outcome(Result.REFUSED, code=429, reason="TooManyRequests", retry_after_seconds=0.3)
    recorder, outcomes = Timed([too_many]), []
    queue = turns(recorder, outcomes, workers=1)
    running = asyncio.create_task(queue.run())
    queue.submit([asked("a"), asked("b"), asked("c")])
    await settled(outcomes, 3)
    running.cancel()
    assert recorder.sent == ["a", "b", "c"]
    assert times[1] - times[0] >= 0.3 and times[2] - times[1] < 0.3


async def test_what_may_not_be_written_any_more_is_not_sent_and_is_no_refusal(local_target: Target) -> None:
    local_target.client.guard_writes(lambda: 0.0)
    outcome = await local_target.act(CREATE)
    assert outcome == Outcome(Result.NOT_SENT, reason="NotLeading")
    local_target.client.guard_writes(lambda: 60.0)
    assert await local_target.names("pods") == []
