"""What must be true of every simulated world, by the API server's own record and the log alone.

In: a record. Out: problems in words; none when all is well. Never: a look into the controller's memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from controller.decide import status_of
from controller.fold import decode_state, encode_state
from controller.model.actions import DeletePod
from controller.model.events import Decided, GapOpened, PodObserved
from controller.model.names import JOB_NAME_LABEL, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from controller.scenario.history import History
from tests.sim.world import BEGIN, Record

Json = dict[str, Any]
EXCLUSIVE = ("Running", "Restarting", "Succeeded", "Failed")
FINAL = ("Succeeded", "Failed")
SLACK_SECONDS = 60
"""A gap's list is read a while after the gap was noticed, on a bad way."""
WATCHED = {"tfjobs": "TFJob", "pods": "Pod", "services": "Service"}


def problems_of(record: Record) -> list[str]:
    """Everything that is wrong with a world."""
    if not record.is_at_rest:
        last = [f"{at:.0f} s {request}" for at, request in record.writes[-3:]]
        return [f"the world does not come to rest; last writes: {last}"]
    return [
        *(f"a loop died: {type(each).__name__}: {each}" for each in record.deaths),
        *_statuses(record),
        *_versions_in_the_log(record),
        *_attempts(record),
        *_replay(record),
        *_ends(record),
    ]


def _statuses(record: Record) -> Iterator[str]:
    """RULES §4, "Rules of the list", on every version of every job."""
    ended: dict[str, Json] = {}
    before: dict[str, list[str]] = {}
    for change in record.changes:
        if change.resource[1] != "tfjobs" or change.kind == "DELETED":
            continue
        body = change.now.body
        uid, name = body["metadata"]["uid"], body["metadata"]["name"]
        entries = (body.get("status") or {}).get("conditions") or []
        if not entries:
            continue
        types = [each["type"] for each in entries]
        where = f"{name} at {change.revision}"
        if len(set(types)) != len(types):
            yield f"{where}: an entry twice: {types}"
        if lost := set(before.get(uid, ())) - set(types):
            yield f"{where}: lost {lost}"
        before[uid] = types
        true = [each["type"] for each in entries if each["status"] == "True"]
        if len([each for each in true if each in EXCLUSIVE]) > 1:
            yield f"{where}: {true} are True together"
        if entries[-1]["status"] != "True":
            yield f"{where}: the last entry is not True"
        final = next((each for each in true if each in FINAL), "")
        if bool(final) != ("completionTime" in body["status"]):
            yield f"{where}: completionTime and {final or 'no end'}"
        if uid in ended and entries != ended[uid]:
            yield f"{where}: conditions changed after the end"
        if final:
            ended[uid] = entries


def _versions_in_the_log(record: Record) -> Iterator[str]:
    """Every object version is in the log once, or inside a recorded gap."""
    logged = Counter((e.uid, e.resource_version) for e in record.disk.events if e.resource_version > 0)
    for (uid, version), count in logged.items():
        if count > 1:
            yield f"{uid} at {version} is in the log {count} times"
    begin = int(BEGIN.timestamp() * 1_000_000)
    gaps = [e.fact for e in record.disk.events if isinstance(e.fact, GapOpened)]
    for change, at in zip(record.changes, record.changed_at, strict=True):
        body = change.now.body
        kind = WATCHED.get(change.resource[1])
        if kind is None or (kind != "TFJob" and JOB_NAME_LABEL not in (body["metadata"].get("labels") or {})):
            continue
        if (body["metadata"]["uid"], change.revision) in logged:
            continue
        instant = begin + int(at * 1_000_000)
        if not any(_covers(gap, change.resource[1], instant) for gap in gaps):
            yield f"{kind} {body['metadata']['name']} {change.kind} at {change.revision} ({at:.1f} s) is nowhere"


def _covers(gap: GapOpened, resource: str, instant: int) -> bool:
    """The gap tells of that time: from when it was, and until the list that closed it."""
    return resource in gap.resources and (gap.from_at or 0) <= instant <= gap.to_at + SLACK_SECONDS * 1_000_000


def _attempts(record: Record) -> Iterator[str]:
    """As many pods of a slot were made as the log knows attempts; none while another one of it lived, or after one
    whose success was in the log before its deletion was asked for (RULES §11)."""
    succeeded = set(_successes(record))
    made: dict[tuple[str, str, str], int] = Counter()
    done: set[tuple[str, str, str]] = set()
    alive: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for change in record.changes:
        if change.resource[1] != "pods":
            continue
        metadata = change.now.body["metadata"]
        owner = next((each["uid"] for each in metadata.get("ownerReferences") or ()), "")
        labels = metadata.get("labels") or {}
        slot = (owner, labels.get(REPLICA_TYPE_LABEL, ""), labels.get(REPLICA_INDEX_LABEL, ""))
        if change.kind == "ADDED":
            made[slot] += 1
            if slot in done:
                yield f"pod {metadata['name']} was made although its slot has succeeded"
            if alive[slot]:
                yield f"pod {metadata['name']} was made while another one of its slot was there"
            alive[slot].add(metadata["uid"])
        elif change.kind == "MODIFIED" and (change.now.body.get("status") or {}).get("phase") == "Succeeded":
            done |= {slot} if metadata["uid"] in succeeded else set()
        elif change.kind == "DELETED":
            alive[slot].discard(metadata["uid"])
    for snapshot in record.disk.saved.values():
        state = decode_state(snapshot.state)
        for slot_id, slot in state.slots.items():
            count = made.get((state.uid, slot_id.type.label, str(slot_id.index)), 0)
            # A creation that crosses with the end of the job itself makes a pod that is nobody's attempt.
            if count < slot.attempts or (count > slot.attempts and not state.is_deleted):
                yield f"{state.name}: {slot_id} had {count} pods, and the log knows {slot.attempts} attempts"


def _successes(record: Record) -> Iterator[str]:
    """The uids of pods that were seen to have succeeded before this controller asked for their deletion."""
    asked: set[str] = set()
    for event in record.disk.events:
        if isinstance(event.fact, Decided):
            asked |= {each.uid for each in event.fact.actions if isinstance(each, DeletePod)}
            continue
        has_succeeded = isinstance(event.fact, PodObserved) and event.fact.pod.status.phase == "Succeeded"
        if has_succeeded and event.uid not in asked:
            yield event.uid


def _replay(record: Record) -> Iterator[str]:
    """The whole log, folded anew, gives the states that were saved."""
    history = History()
    for event in record.disk.events:
        history.take(event)
    for uid, snapshot in record.disk.saved.items():
        again = history.state(uid)
        if again is None or encode_state(again) != snapshot.state:
            yield f"{snapshot.name}: the state that was saved is not what the log gives"


def _ends(record: Record) -> Iterator[str]:
    """At rest every job has ended, and says so; what the policy gives up is gone."""
    pods = [each for each in record.objects if each.get("kind") == "Pod" or "containers" in each.get("spec", {})]
    for body in record.objects:
        if "tfReplicaSpecs" not in (body.get("spec") or {}):
            continue
        metadata, status = body["metadata"], body.get("status") or {}
        entries = status.get("conditions") or [{}]
        if entries[-1].get("type") not in FINAL:
            yield f"{metadata['name']} is {entries[-1].get('type')} in the end: {entries[-1].get('message', '')[:200]}"
            continue
        snapshot = record.disk.saved.get(metadata["uid"])
        if snapshot is None:
            yield f"{metadata['name']} has no state in the log"
            continue
        wanted = status_of(decode_state(snapshot.state))
        if wanted["conditions"] != status["conditions"]:
            yield f"{metadata['name']}: the API server has other conditions than the log"
        policy = (body["spec"].get("runPolicy") or {}).get("cleanPodPolicy", "Running")
        own = [
            each
            for each in pods
            if any(ref["uid"] == metadata["uid"] for ref in each["metadata"].get("ownerReferences") or ())
        ]
        left = [each for each in own if each["status"]["phase"] in ("Pending", "Running") or policy == "All"]
        if left and policy != "None":
            yield f"{metadata['name']}: {len(left)} pods are left under {policy}"
