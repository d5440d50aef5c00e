"""The watch over real HTTP: what is seen is put, once, in order, with its job. Run against both API servers.

The test modules beside this one give `world`.
"""

from __future__ import annotations

import asyncio

import msgspec

from controller.model.events import GapOpened, GapReason, JobObserved, NoticeObserved, Op, PodObserved
from controller.watch import Mark, Observation, StreamFact
from tests.edges.watch_world import ListSink, LogOfSink, World, eventually, notice, running

FIRST = "tfjobs,pods,services"
DONE = "pods,services,tfjobs"


async def test_a_first_start_is_a_gap_that_ends_when_every_list_is_through(world: World) -> None:
    job = await world.create("TFJob", "job")
    owner = {"kind": "TFJob", "apiVersion": "kubeflow.org/v1", "name": "job", "uid": job["metadata"]["uid"]}
    await world.send(
        "POST",
        f"/api/v1/namespaces/{world.namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "job-worker-0",
                "labels": {"training.kubeflow.org/job-name": "job"},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"restartPolicy": "Never", "containers": [{"name": "tensorflow", "image": "python"}]},
        },
    )
    sink = ListSink()
    watches = world.watches(sink)
    assert not watches.is_connected()
    async with running(watches):
        await sink.until(sink.has(Op.SYNCED))
        rows = sink.rows()
        assert (rows[0], rows[-1]) == (("GAP", FIRST), ("SYNCED", DONE))
        assert sorted(rows[1:-1]) == [("SYNC_ADDED", "job"), ("SYNC_ADDED", "job-worker-0")]
        gap = sink.items[0]
        assert isinstance(gap, StreamFact) and isinstance(gap.fact, GapOpened)
        assert gap.fact.reason is GapReason.FIRST_SYNC
        seen = {each.name: each for each in sink.observations()}
        uid = job["metadata"]["uid"]
        assert (seen["job"].job_uid, seen["job"].job_name) == (uid, "job")
        assert (seen["job-worker-0"].job_uid, seen["job-worker-0"].job_name) == (uid, "job")
        fact = seen["job-worker-0"].fact
        assert isinstance(fact, PodObserved)
        assert (fact.pod.status.phase, fact.pod.spec.restart_policy) == ("Pending", "Never")
        await world.create("TFJob", "second")
        await sink.until(sink.has(Op.ADDED, "second"))
        await eventually(watches.is_connected)
        assert watches.problems() == {}


async def test_every_change_is_observed_once_and_in_order(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        await world.create("Pod", "p")
        for phase in ("Running", "Succeeded"):
            await world.patch("Pod", "p", {"status": {"phase": phase}}, sub="/status")
        await world.delete("Pod", "p", gracePeriodSeconds=0)
        await sink.until(sink.has(Op.DELETED, "p"))
        seen = sink.observations("pods")
        assert [(each.op, each.fact.pod.status.phase) for each in seen if isinstance(each.fact, PodObserved)] == [
            (Op.ADDED, "Pending"),
            (Op.MODIFIED, "Running"),
            (Op.MODIFIED, "Succeeded"),
            (Op.MODIFIED, "Succeeded"),  # its deletion is asked for
            (Op.DELETED, "Succeeded"),
        ]
        versions = [each.resource_version for each in seen]
        assert versions == sorted(set(versions))
        times = [item.observed_at for item in sink.items if isinstance(item, Observation)]
        assert times == sorted(times)


async def test_env_values_reach_neither_body_nor_spec_nor_fact(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        await world.create("TFJob", "job")
        await world.create("Pod", "p")
        await sink.until(lambda: len(sink.observations()) == 2)
    for seen in sink.observations():
        assert seen.spec is not None
        assert b"hidden" not in seen.body + seen.spec + msgspec.json.encode(seen.fact)
        assert b'"valueHash"' in seen.spec
        assert b"managedFields" not in seen.body
        if isinstance(seen.fact, JobObserved):
            assert b"tfReplicaSpecs" not in seen.body
            assert seen.fact.job.spec == msgspec.json.decode(seen.spec)


async def test_a_later_start_resumes_from_the_mark_without_a_gap(world: World) -> None:
    before = ListSink()
    async with running(world.watches(before)):
        await before.until(before.has(Op.SYNCED))
        await world.create("Pod", "p")
        await before.until(lambda: isinstance(before.items[-1], Mark) and bool(before.observations("pods")))
    await world.patch("Pod", "p", {"status": {"phase": "Running"}}, sub="/status")
    await world.create("Pod", "q")
    after = ListSink()
    async with running(world.watches(after, LogOfSink(before))):
        await after.until(after.has(Op.ADDED, "q"))
    assert after.rows() == [("MODIFIED", "p"), ("ADDED", "q")]


async def test_an_expired_mark_is_a_gap_with_what_differs(world: World) -> None:
    before = ListSink()
    async with running(world.watches(before)):
        await before.until(before.has(Op.SYNCED))
        for name in ("kept", "changed", "gone", "again"):
            await world.create("Pod", name)
        await before.until(before.has(Op.ADDED, "again"))
    await world.patch("Pod", "changed", {"status": {"phase": "Running"}}, sub="/status")
    await world.delete("Pod", "gone", gracePeriodSeconds=0)
    await world.delete("Pod", "again", gracePeriodSeconds=0)
    await world.create("Pod", "again")
    await world.create("Pod", "new")
    await world.compact()
    after = ListSink()
    async with running(world.watches(after, LogOfSink(before))):
        await after.until(after.in_step("pods"))
        await world.create("Pod", "later")
        await after.until(after.has(Op.ADDED, "later"))
    rows = [row for row in after.rows("pods") if row[0] not in ("GAP", "SYNCED") or "pods" in row[1].split(",")]
    assert (rows[0][0], rows[-2][0], rows[-1]) == ("GAP", "SYNCED", ("ADDED", "later"))
    assert sorted(row for row in rows if row[0].startswith("SYNC_")) == [
        ("SYNC_ADDED", "again"),
        ("SYNC_ADDED", "new"),
        ("SYNC_DELETED", "again"),
        ("SYNC_DELETED", "gone"),
        ("SYNC_MODIFIED", "changed"),
    ]
    facts = [item.fact for item in after.items if isinstance(item, StreamFact)]
    assert isinstance(facts[0], GapOpened)
    assert facts[0].reason is GapReason.EXPIRED
    first = {each.name: each.uid for each in before.observations("pods")}
    lost = {each.name: each.uid for each in after.observations("pods") if each.op is Op.SYNC_DELETED}
    assert lost == {"gone": first["gone"], "again": first["again"]}


async def test_a_label_edit_is_no_deletion(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        await world.create("Service", "s")
        await sink.until(sink.has(Op.ADDED, "s"))
        await world.patch("Service", "s", {"metadata": {"labels": {"training.kubeflow.org/job-name": None}}})
        await sink.until(sink.has(Op.MODIFIED, "s"))
        edited = sink.observations("services")[-1]
        assert edited.job_name is None
        await world.create("Service", "t")
        await sink.until(sink.has(Op.ADDED, "t"))
        await world.delete("Service", "t")
        await sink.until(sink.has(Op.DELETED, "t"))
    assert sink.rows("services")[2:] == [("ADDED", "s"), ("MODIFIED", "s"), ("ADDED", "t"), ("DELETED", "t")]


async def test_many_deletions_are_proven_by_one_list(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        for index in range(7):
            await world.create("Service", f"s{index}")
        await sink.until(sink.has(Op.ADDED, "s6"))
        count = world.client.request_count
        await world.send("DELETE", f"/api/v1/namespaces/{world.namespace}/services")
        await sink.until(lambda: sum(row[0] == "DELETED" for row in sink.rows()) == 7)
        assert world.client.request_count - count <= 1 + 4


async def test_what_a_relist_lacks_but_exists_is_not_deleted(world: World) -> None:
    before = ListSink()
    async with running(world.watches(before)):
        await before.until(before.has(Op.SYNCED))
        await world.create("Pod", "p")
        await before.until(before.has(Op.ADDED, "p"))
    await world.patch("Pod", "p", {"metadata": {"labels": {"training.kubeflow.org/job-name": None}}})
    await world.compact()
    after = ListSink()
    async with running(world.watches(after, LogOfSink(before))):
        await after.until(after.in_step("pods"))
    assert [row for row in after.rows("pods") if row[0] not in ("GAP", "SYNCED")] == [("SYNC_MODIFIED", "p")]


async def test_warnings_about_our_objects_are_kept_with_their_job(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        early = {"kind": "Pod", "metadata": {"name": "p", "namespace": world.namespace, "uid": "not-yet"}}
        job = await world.create("TFJob", "job")
        pod = await world.create("Pod", "p")
        node = {"kind": "Node", "metadata": {"name": "n", "namespace": world.namespace, "uid": "n"}}
        events = f"/api/v1/namespaces/{world.namespace}/events"
        await world.send("POST", events, notice("foreign", early))
        await world.send("POST", events, notice("node", node))
        await world.send("POST", events, notice("normal", pod, type="Normal"))
        await world.send("POST", events, notice("ours", job, reportingComponent="tfjob-controller"))
        await world.send("POST", events, notice("about-pod", pod, message="pull failed: password=hunter2"))
        await world.send("POST", events, notice("about-job", job))
        await sink.until(sink.has(Op.ADDED, "about-job"))
        await sink.until(sink.has(Op.ADDED, "about-pod"))
    seen = {each.name: each for each in sink.observations("events")}
    assert set(seen) == {"about-pod", "about-job"}
    assert (seen["about-job"].job_uid, seen["about-job"].job_name) == (job["metadata"]["uid"], "job")
    fact = seen["about-pod"].fact
    assert isinstance(fact, NoticeObserved)
    assert (fact.notice.message, seen["about-pod"].job_name) == ("pull failed: password=REDACTED", "job")


async def test_a_full_sink_stops_the_reading_and_loses_nothing(world: World) -> None:
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
        sink.gate.clear()
        for index in range(20):
            await world.create("Pod", f"p{index}")
        held = len(sink.items)
        await asyncio.sleep(0)
        assert len(sink.items) == held
        sink.gate.set()
        await sink.until(sink.has(Op.ADDED, "p19"))
    assert [row[1] for row in sink.rows("pods") if row[0] == "ADDED"] == [f"p{index}" for index in range(20)]


async def test_a_look_at_a_jobs_pods_puts_what_differs(world: World) -> None:
    sink = ListSink()
    watches = world.watches(sink)
    async with running(watches):
        await sink.until(sink.has(Op.SYNCED))
        await world.create("Pod", "p")
        await sink.until(sink.has(Op.ADDED, "p"))
        await watches.look_at_pods(world.namespace, "job")
        assert sink.rows("pods")[2:] == [("ADDED", "p")]


async def test_nothing_is_left_when_it_is_cancelled(world: World) -> None:
    before = asyncio.all_tasks()
    sink = ListSink()
    async with running(world.watches(sink)):
        await sink.until(sink.has(Op.SYNCED))
    left = {task for task in asyncio.all_tasks() - before if task.get_name().startswith("watch ")}
    assert left == set()
