"""Reading back: a job's own history, what a start needs, and a tail that misses nothing beside a writer."""

from __future__ import annotations

import asyncio

import msgspec

from controller.log import Append, EventLog, JobSnapshot, NewEvent
from controller.model.events import (
    ClockJumped,
    Event,
    GapOpened,
    GapReason,
    LeaderElected,
    Op,
    SettingsRecorded,
    Synced,
)
from controller.model.settings import CleanPodPolicy, PolicySettings
from tests.log.words import NOW, job, pod, timer


def settings(key: str, policy: CleanPodPolicy) -> NewEvent:
    fact = SettingsRecorded(PolicySettings(default_clean_pod_policy=policy))
    return NewEvent(Op.SETTINGS, fact, NOW, key=key)


def leader(epoch: int) -> NewEvent:
    return NewEvent(Op.LEADER, LeaderElected("holder", epoch, "0", 1), NOW, key=f"leader/{epoch}")


def gap(key: str, *resources: str) -> NewEvent:
    return NewEvent(Op.GAP, GapOpened(resources, GapReason.EXPIRED, None, NOW), NOW, key=key)


def synced(key: str) -> NewEvent:
    return NewEvent(Op.SYNCED, Synced(("pods",)), NOW, key=key)


async def test_a_jobs_history_is_its_own_events_its_bystanders_and_what_concerned_all(log: EventLog) -> None:
    events = await log.commit(
        Append(
            events=[
                leader(1),  # before it lived
                pod(9, 1, job="job", job_uid="older-uid"),  # of an older job of its name, before it lived
                pod(0, 2),  # seen before the job itself
                job(3, Op.ADDED),
                job(3, Op.ADDED, name="other", uid="other-uid"),
                pod(9, 5, job="job", job_uid="older-uid"),
                pod(0, 6, job="other", job_uid="other-uid"),
                pod(8, 7, job="job", job_uid="elsewhere-uid", namespace="elsewhere"),
                timer("ours"),
                timer("other's", job_uid="other-uid"),
                gap("gap", "pods"),
                job(8, Op.DELETED),
            ]
        )
    )
    by_position = {event.position: event for event in events}
    own = [event for event in events if event.job_uid == "job-uid"]
    wanted = sorted(
        {event.position for event in own}
        | {event.position for event in events if event.job_uid == "older-uid" and event.resource_version == 5}
        | {event.position for event in events if event.op == Op.GAP}
    )
    assert await log.read_job("job-uid") == [by_position[position] for position in wanted]
    end = events[-1].position
    await log.commit(Append(snapshots=[JobSnapshot("job-uid", "ns", "job", end, b"{}", "Created", True)]))
    await log.commit(Append(events=[pod(9, 20, job="job", job_uid="older-uid"), leader(2)]))
    assert await log.read_job("job-uid") == [by_position[position] for position in wanted]
    assert await log.read_job("nobody") == []


async def test_cluster_facts_are_what_decides_the_context_at_a_position(log: EventLog) -> None:
    clock = NewEvent(Op.CLOCK, ClockJumped(9.0, True), NOW, key="clock")
    events = await log.commit(
        Append(
            events=[
                leader(1),
                settings("s1", CleanPodPolicy.ALL),
                gap("g1", "pods"),
                synced("y1"),
                settings("s2", CleanPodPolicy.NONE),
                job(1),
                gap("g2", "pods"),
                gap("g3", "services"),
                clock,
                leader(2),
                synced("y2"),
            ]
        )
    )

    async def positions(upto: int) -> list[int]:
        found = await log.cluster_facts(upto)
        assert found == [events[event.position - 1] for event in found]
        return [event.position for event in found]

    assert await positions(0) == []
    assert await positions(3) == [1, 2, 3]
    assert await positions(4) == [1, 2, 4]
    assert await positions(6) == [1, 4, 5]
    assert await positions(8) == [1, 4, 5, 7, 8]
    assert await positions(10) == [4, 5, 7, 8, 9, 10]
    assert await positions(11) == [5, 9, 10, 11]


async def test_jobs_are_listed_newest_first_and_found_by_name_and_uid(log: EventLog) -> None:
    await log.commit(
        Append(
            events=[
                job(1, uid="old", at=NOW),
                job(2, uid="new", at=NOW + 10),
                job(3, uid="far", namespace="far", at=NOW + 10),
                job(4, uid="new", at=NOW + 20),
            ],
            snapshots=[
                JobSnapshot("old", "ns", "job", 1, b"{}", "Succeeded", True),
                JobSnapshot("new", "ns", "job", 2, b"{}", "Running", False, "ValueError: a bug"),
                JobSnapshot("far", "far", "job", 3, b"{}", "Created", False),
            ],
        )
    )
    assert [row.job_uid for row in await log.list_jobs()] == ["far", "new", "old"]
    assert [row.job_uid for row in await log.list_jobs("ns")] == ["new", "old"]
    assert [row.job_uid for row in await log.find_job("job")] == ["far", "new", "old"]
    assert [row.job_uid for row in await log.find_job("job", "far")] == ["far"]
    assert [row.job_uid for row in await log.find_job("far/job")] == ["far"]
    [row] = await log.find_job("new")
    assert (row.first_at, row.last_at, row.parked) == (NOW + 10, NOW + 20, "ValueError: a bug")
    assert await log.find_job("jo") == []


async def test_heads_are_the_objects_that_are_there(log: EventLog) -> None:
    await log.commit(Append(events=[job(1), pod(0, 2), pod(1, 3, job_uid=None), pod(2, 4), pod(2, 5, Op.DELETED)]))
    pods = await log.heads("pods")
    assert {uid: (h.namespace, h.name, h.resource_version, h.job_uid, h.job_name) for uid, h in pods.items()} == {
        "job-pod-0": ("ns", "job-worker-0", 2, "job-uid", "job"),
        "job-pod-1": ("ns", "job-worker-1", 3, None, "job"),
    }
    assert list(await log.heads("tfjobs")) == ["job-uid"]
    assert await log.heads("services") == {}


async def test_a_tail_beside_a_writer_sees_every_position_once_and_in_order(log: EventLog, database_url: str) -> None:
    reader = await EventLog.open(database_url)
    seen: list[Event] = []
    written = asyncio.Event()

    async def tail() -> None:
        while True:
            is_last = written.is_set()
            found = await reader.read(seen[-1].position if seen else 0, limit=7)
            seen.extend(found)
            if is_last and not found:
                return

    tailing = asyncio.create_task(tail())
    for number in range(1, 80):
        await log.commit(Append(events=[pod(n, number) for n in range(number % 5 + 1)]))
    written.set()
    await tailing
    assert [event.position for event in seen] == list(range(1, len(seen) + 1))
    assert len(seen) == await log.position()
    await reader.close()


async def test_text_that_postgres_refuses_is_kept(log: EventLog) -> None:
    awkward = "a\0b\ud800\ue000 \U0001f600 \\u0000"
    new = pod(0, 1, message=awkward.replace("\ud800", ""))
    new = msgspec.structs.replace(new, name="n\0", namespace="\ue000")
    events = await log.commit(Append(events=[new]))
    assert await log.read(0) == events
    assert (await log.heads("pods"))["job-pod-0"].name == "n\0"
