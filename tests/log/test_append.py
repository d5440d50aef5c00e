"""What a commit adds: numbered without gaps, in order, each object version and each own fact once."""

from __future__ import annotations

import asyncio

import asyncpg
import msgspec

from controller.log import Append, AttemptRow, EventLog, JobSnapshot, NewEvent, SessionMark
from controller.log.connection import dsn_of
from controller.model.actions import Because
from controller.model.events import GapOpened, GapReason, Op, Synced, Transition
from controller.model.replicas import ReplicaType
from tests.log.words import NOW, job, pod, timer


async def test_events_are_numbered_from_one_and_read_back_as_they_were_committed(log: EventLog) -> None:
    first = await log.commit(Append(events=[job(10, Op.ADDED), pod(0, 11, Op.ADDED)]))
    second = await log.commit(Append(events=[pod(0, 12, phase="Running"), job(13)]))
    assert [event.position for event in first + second] == [1, 2, 3, 4]
    assert await log.read(0) == first + second
    assert await log.read(1, limit=2) == (first + second)[1:3]
    assert await log.read(0, upto=3) == (first + second)[:3]
    assert await log.position() == 4


async def test_a_version_at_or_below_the_head_is_dropped_whatever_its_op(log: EventLog) -> None:
    await log.commit(Append(events=[pod(0, 11, Op.ADDED)]))
    again = [pod(0, 11, Op.SYNC_ADDED), pod(0, 10), pod(0, 12), pod(0, 12, Op.SYNC_MODIFIED), pod(1, 5)]
    events = await log.commit(Append(events=again))
    assert [(e.position, e.uid, e.resource_version) for e in events] == [(2, "job-pod-0", 12), (3, "job-pod-1", 5)]


async def test_a_disappearance_counts_once_and_nothing_after_it(log: EventLog) -> None:
    await log.commit(Append(events=[pod(0, 11, Op.ADDED)]))
    events = await log.commit(
        Append(events=[pod(0, 9, Op.SYNC_DELETED), pod(0, 30, Op.DELETED), pod(0, 31), pod(1, 3, Op.DELETED)])
    )
    assert [(e.op, e.uid) for e in events] == [(Op.SYNC_DELETED, "job-pod-0"), (Op.DELETED, "job-pod-1")]
    assert await log.commit(Append(events=[pod(0, 40, Op.SYNC_DELETED)])) == []
    assert await log.heads("pods") == {}


async def test_the_rest_of_a_commit_is_there_with_it(log: EventLog) -> None:
    transition = Transition(1, 0, "Created", "True", "TFJobCreated", "with a NUL \0 in it", NOW, True)
    snapshot = JobSnapshot("job-uid", "ns", "job", 1, b"{}", "Created", False)
    mark = SessionMark("pods", 2**64, "list", NOW, "")
    append = Append(
        events=[job(10, Op.ADDED)],
        transitions=[("job-uid", transition)],
        cursor=1,
        snapshots=[snapshot],
        marks=[mark],
    )
    await log.commit(append)
    assert await log.transitions_of("job-uid") == [transition]
    assert await log.snapshots() == [snapshot]
    assert await log.marks() == {"pods": mark}
    assert await log.cursor() == 1
    [row] = await log.find_job("ns/job")
    assert (row.job_uid, row.phase, row.first_at, row.last_at, row.is_over) == ("job-uid", "Created", NOW, NOW, False)
    assert await log.list_jobs() == [row] == await log.find_job("job-uid")
    assert await log.list_jobs("other") == []


async def test_commits_at_the_same_time_come_one_after_another(log: EventLog) -> None:
    appends = [Append(events=[pod(number, 1), pod(number, 2)]) for number in range(20)]
    batches = await asyncio.gather(*(log.commit(each) for each in appends))
    events = [event for batch in batches for event in batch]
    assert [event.position for event in events] == list(range(1, 41))
    assert await log.read(0) == events


async def test_an_own_fact_counts_once_by_its_key(log: EventLog) -> None:
    first = await log.commit(Append(events=[timer("a"), timer("b"), timer("a")]))
    second = await log.commit(Append(events=[timer("b"), timer("c")]))
    assert [event.position for event in first + second] == [1, 2, 3]
    assert await log.read(0) == first + second


async def test_a_resource_version_may_have_39_digits(log: EventLog) -> None:
    high = 2**127
    await log.commit(Append(events=[pod(0, 2**63 - 1), pod(1, high)]))
    events = await log.commit(Append(events=[pod(0, 2**63), pod(1, high - 1), pod(1, high), pod(1, high + 1)]))
    assert [(event.uid, event.resource_version) for event in events] == [("job-pod-0", 2**63), ("job-pod-1", high + 1)]
    assert {uid: head.resource_version for uid, head in (await log.heads("pods")).items()} == {
        "job-pod-0": 2**63,
        "job-pod-1": high + 1,
    }


async def test_observed_at_never_runs_back(log: EventLog) -> None:
    await log.commit(Append(events=[pod(0, 1, at=NOW)]))
    events = await log.commit(Append(events=[pod(0, 2, at=NOW - 5), pod(0, 3, at=NOW + 1), pod(0, 4, at=NOW)]))
    assert [event.observed_at for event in events] == [NOW, NOW + 1, NOW + 1]
    assert await log.read(1) == events


async def test_a_spec_is_stored_once_and_joined_again(log: EventLog, database_url: str) -> None:
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"x": [1, 2.5, None, "é\0"]}}}}}
    events = await log.commit(Append(events=[job(1, spec=spec), job(2, spec=spec), job(3, spec={"other": True})]))
    events += await log.commit(Append(events=[job(4, spec=spec)]))
    assert await log.read(0) == events
    connection = await asyncpg.connect(dsn_of(database_url))
    assert await connection.fetchval("SELECT count(*) FROM object_specs") == 2
    await connection.close()


async def test_after_a_restore_of_the_cluster_any_other_version_counts_until_synced(log: EventLog) -> None:
    await log.commit(Append(events=[pod(0, 100), pod(1, 100), pod(2, 50, Op.DELETED)]))
    gap = NewEvent(Op.GAP, GapOpened(("pods",), GapReason.CLUSTER_RESTORED, None, NOW), NOW, key="gap")
    synced = NewEvent(Op.SYNCED, Synced(("pods",)), NOW, key="synced")
    await log.commit(Append(events=[gap]))
    events = await log.commit(Append(events=[pod(0, 40), pod(1, 100), pod(2, 40), synced, pod(0, 39), pod(2, 41)]))
    assert [(event.op, event.uid, event.resource_version) for event in events] == [
        (Op.MODIFIED, "job-pod-0", 40),
        (Op.MODIFIED, "job-pod-2", 40),
        (Op.SYNCED, "", 0),
        (Op.MODIFIED, "job-pod-2", 41),
    ]


async def test_a_snapshot_never_goes_back(log: EventLog) -> None:
    snapshot = JobSnapshot("job-uid", "ns", "job", 1, b"one", "Created", False)
    newer = msgspec.structs.replace(snapshot, position=7, state=b"seven")
    await log.commit(Append(snapshots=[snapshot, newer]))
    await log.commit(Append(snapshots=[msgspec.structs.replace(snapshot, position=6, state=b"six")]))
    assert await log.snapshots() == [newer]
    over = msgspec.structs.replace(newer, position=8, is_over=True)
    await log.commit(Append(snapshots=[over], cursor=7))
    assert await log.snapshots() == [over], "the events behind the cursor tell of it once more"
    await log.commit(Append(cursor=8))
    assert await log.snapshots() == []


async def test_an_attempt_is_one_row_as_last_known(log: EventLog, database_url: str) -> None:
    running = AttemptRow("job-uid", ReplicaType.WORKER, 0, 1, "job-worker-0", "pod-uid", 5, node="n1", started_at=NOW)
    failed = msgspec.structs.replace(
        running, position=9, finished_at=NOW + 1, exit_code=137, how="failed", reason="OOMKilled", spec_hash="00ff"
    )
    await log.commit(Append(attempts=[running]))
    await log.commit(Append(attempts=[failed, msgspec.structs.replace(running, attempt=2, ended_by=Because.REPLACED)]))
    await log.commit(Append(attempts=[running]))
    connection = await asyncpg.connect(dsn_of(database_url))
    rows = await connection.fetch("SELECT attempt, exit_code, how, spec_hash, ended_by FROM attempts ORDER BY attempt")
    await connection.close()
    assert [tuple(row) for row in rows] == [(1, 137, "failed", b"\x00\xff", None), (2, None, None, None, "Replaced")]


async def test_two_clusters_in_one_database_have_logs_of_their_own(log: EventLog, database_url: str) -> None:
    other = await EventLog.open(database_url, cluster="other")
    assert await other.read(0) == []
    assert await other.lead("test", "0") == 1
    ours = await log.commit(Append(events=[pod(0, 5)]))
    theirs = await other.commit(Append(events=[pod(0, 3), timer("a")]))
    assert [event.position for event in ours + theirs] == [1, 1, 2]
    assert (await log.read(0), await other.read(0)) == (ours, theirs)
    await other.close()


async def test_the_statements_of_a_commit_do_not_grow_with_it(log: EventLog) -> None:
    await log.commit(Append(events=[timer("the driver has looked up its types")]))
    sent: list[str] = []
    connection = log._writer._connection
    assert connection is not None
    connection.add_query_logger(lambda record: sent.append(record.query))
    append = Append(
        events=[job(1), *(pod(number, 1) for number in range(400)), timer("a")],
        transitions=[("job-uid", Transition(1, n, "Created", "True", "r", "m", NOW)) for n in range(50)],
        snapshots=[JobSnapshot(f"uid-{n}", "ns", f"job-{n}", 1, b"{}", "Created", False) for n in range(50)],
        marks=[SessionMark("pods", 1, "list", NOW)],
        cursor=1,
    )
    assert len(await log.commit(append)) == 402
    assert len(sent) <= 6, sent
