"""A log filled with what scenarios of the pure player did: real events, transitions, attempts and snapshots.

In: an open log that the test leads, players that have run. Out: the uids of their jobs, as they are in that log.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import structs

from controller.decide import is_over
from controller.fold import encode_state
from controller.log import Append, AttemptRow, EventLog, JobSnapshot, NewEvent
from controller.log.facts import fact_of, stored_of
from controller.model.events import EVENT_SCHEMA, Event, ObjectFact
from controller.scenario import parse_file
from controller.scenario.play import PurePlayer
from tests.scenarios.test_given import FILES

RICH = """\
title: a job with everything that is asked about
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  spec:
    enableDynamicWorker: true
    tfReplicaSpecs:
      Chief: {replicas: 1}
      PS: {replicas: 1, restartPolicy: ExitCode}
      Worker: {replicas: 3, restartPolicy: ExitCode}
steps:
  - after: 5s
  - pods: {"*": Running}
  - pods: {worker-1: Failed(137 OOMKilled)}
  - pods: {worker-1: Running}
  - pods: {worker-1: Failed(137 OOMKilled)}
  - after: 2s
  - pods: {worker-1: Running}
  - pods: {worker-1: Failed(143)}
  - after: 4s
  - pods: {worker-1: Running}
  - gone: worker-1
  - after: 8s
  - pods: {worker-1: Running}
  - gap: [{pods: {ps-0: Failed(139)}}]
  - pods: {ps-0: Running}
  - pods: {worker-2: {phase: Failed, exitCode: 2, message: "bad shard"}}
  - after: 5s
  - pods: {chief-0: {phase: Failed, exitCode: 1, message: "lost worker 2"}}
"""
STALLED = """\
title: a job that no node takes
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  metadata: {name: job-b}
  spec: {tfReplicaSpecs: {Worker: {replicas: 2}}}
steps:
  - pods: {worker-0: {phase: Pending, unschedulable: "0/3 nodes: no GPU"}}
"""

UID = re.compile(rb"uid-(?=\d)")


def play(file: Path) -> PurePlayer:
    """A scenario, played to its end."""
    player = PurePlayer(parse_file(file))
    player.run(lambda step: None)
    return player


def play_text(tmp_path: Path, text: str) -> PurePlayer:
    """The same of a scenario's text."""
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return play(file)


def given(count: int) -> list[Path]:
    """Some of the given scenarios, spread over all of them."""
    files = [file for file in FILES if parse_file(file).is_for("core")]
    return files[:: max(1, len(files) // count)][:count]


async def fill(log: EventLog, player: PurePlayer, tag: str, namespace: str | None = None) -> list[str]:
    """Writes a player's whole history. `tag` makes its uids unlike those of other players in the same log."""
    before = await log.position()
    history = player.history
    events = [_tagged(event, tag, namespace) for event in history.events]
    committed = []
    for start in range(0, len(events), 500):
        committed += await log.commit(Append(events=events[start : start + 500]))
    assert [event.position for event in committed] == [before + event.position for event in history.events]
    moved = [
        (_uid(uid, tag), structs.replace(each, position=each.position + before)) for uid, each in history.transitions
    ]
    attempts = [_moved(row, tag, before) for row in history.attempts]
    states = [*history.over.values(), *(live.state for live in history.live.values())]
    snapshots = [_snapshot(state, tag, before, namespace) for state in states]
    await log.commit(Append(transitions=moved, attempts=attempts, snapshots=snapshots, cursor=await log.position()))
    return [each.job_uid for each in snapshots]


def _moved(row: AttemptRow, tag: str, before: int) -> AttemptRow:
    uids = {"job_uid": _uid(row.job_uid, tag), "pod_uid": _uid(row.pod_uid, tag)}
    return structs.replace(row, **uids, position=row.position + before)


def _snapshot(state: Any, tag: str, before: int, namespace: str | None) -> JobSnapshot:
    moved = structs.replace(
        state,
        uid=_uid(state.uid, tag),
        namespace=namespace or state.namespace,
        position=state.position + before,
        end_position=state.end_position + before if state.end_position else 0,
    )
    return JobSnapshot(
        job_uid=moved.uid,
        namespace=moved.namespace,
        name=moved.name,
        position=moved.position,
        state=encode_state(moved),
        phase=moved.conditions[-1].type if moved.conditions else "",
        is_over=is_over(moved),
    )


def _tagged(event: Event, tag: str, namespace: str | None) -> NewEvent:
    as_new = NewEvent(event.op, event.fact, event.observed_at)
    stored = stored_of(as_new)
    body = UID.sub(f"uid-{tag}-".encode(), stored.body)
    return NewEvent(
        op=event.op,
        fact=fact_of(event.op, stored.kind, EVENT_SCHEMA, body.decode(), (stored.spec or b"").decode() or None),
        observed_at=event.observed_at,
        namespace=(namespace or event.namespace) if event.namespace else "",
        name=event.name,
        uid=_uid(event.uid, tag),
        resource_version=event.resource_version,
        job_uid=_uid(event.job_uid, tag) if event.job_uid else None,
        job_name=event.job_name,
        key=None if isinstance(event.fact, ObjectFact) else f"{tag}/{event.position}",
        body=body,
        spec=stored.spec,
        spec_hash=stored.spec_hash if stored.spec else None,
    )


def _uid(uid: str, tag: str) -> str:
    return UID.sub(f"uid-{tag}-".encode(), uid.encode()).decode()


def multiply(first: int, upto: int, last: int) -> list[str]:
    """Statements that copy the events up to position `last`, and all beside them, under other uids and namespaces:
    the copies `first` to `upto`, in the order of their positions."""
    copies = f"generate_series({first}, {upto}) AS n"
    return [
        f"""INSERT INTO events (cluster_id, position, epoch, observed_at, incarnation, schema_number, resource_version,
            op, kind, namespace, name, uid, job_uid, job_name, spec_hash, key, body)
        SELECT cluster_id, position + n * {last}, epoch, observed_at, incarnation, schema_number, resource_version, op,
            kind, namespace || '-' || n, name, uid || '-' || n, job_uid || '-' || n, job_name, spec_hash,
            key || '-' || n, body
        FROM events, {copies} WHERE position <= {last} ORDER BY n, position""",
        f"""INSERT INTO transitions
        SELECT cluster_id, job_uid || '-' || n, position + n * {last}, ordinal, at, by_gap, type, status, reason,
            message
        FROM transitions, {copies} WHERE position <= {last}""",
        f"""INSERT INTO attempts
        SELECT cluster_id, job_uid || '-' || n, type, index, attempt, position + n * {last}, started_at, finished_at,
            exit_code, pod_name, pod_uid || '-' || n, node, spec_hash, how, reason, message, ended_by
        FROM attempts, {copies} WHERE position <= {last}""",
        f"""INSERT INTO job_states
        SELECT cluster_id, job_uid || '-' || n, position + n * {last}, is_over, namespace || '-' || n, name, phase,
            parked, state
        FROM job_states, {copies} WHERE position <= {last}""",
        f"""INSERT INTO object_specs SELECT cluster_id, spec_hash || int4send(n), first_position, kind, spec
        FROM object_specs, {copies} WHERE length(spec_hash) = 16""",
        "UPDATE log_head SET position = (SELECT max(position) FROM events)",
    ]
