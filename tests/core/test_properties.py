"""What must hold for any job and anything that happens to it (RULES §4 "Rules of the list", §11).

The world is the scenario player's; each event is checked as it is folded. TFJOB_EXAMPLES sets how many are tried.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.decide import advance
from controller.fold import JobState, encode_state
from controller.fold.state import Condition
from controller.model.events import Event
from controller.model.replicas import SlotId
from controller.scenario.history import History
from controller.scenario.model import Scenario
from controller.scenario.parse import with_defaults
from controller.scenario.play import PurePlayer
from controller.scenario.world import slot_of_held

EXAMPLES = int(os.environ.get("TFJOB_EXAMPLES", "150"))
ONE_OF = ("Running", "Restarting", "Succeeded", "Failed")
STATES: tuple[Any, ...] = (
    "Pending", "Running", "Succeeded", "Failed", "Failed(137)", "Failed(2)", "Failed(137 OOMKilled)", "Evicted",
    "Unknown", {"phase": "Running", "restartCount": 1, "lastExitCode": 1},
    {"waiting": "CrashLoopBackOff", "restartCount": 2, "lastExitCode": 1}, {"waiting": "ImagePullBackOff"},
    {"unschedulable": "0/3 nodes"}, {"phase": "Running", "main": {"exitCode": 0}, "sidecar": "running"},
    {"phase": "Failed", "main": {"exitCode": 0}, "sidecar": {"exitCode": 1}},
    {"phase": "Failed", "init": {"exitCode": 3}},
    {"phase": "Failed", "exitCode": 143, "disruptionTarget": "PreemptionByScheduler"},
)  # fmt: skip


class CheckedHistory(History):
    """A history whose every step is held to the rules of the list."""

    def _advance(self, uid: str, event: Event) -> None:
        live = self.live.get(uid)
        before = live.state if live else None
        frozen = encode_state(before) if before else b""
        super()._advance(uid, event)
        after = self.live[uid].state if uid in self.live else self.over.get(uid)
        if before is not None:
            assert encode_state(before) == frozen, "the state that came in was written to"
        if after is not None:
            check_list(before, after, event)
            check_repeat(after, event, self)


def check_list(before: JobState | None, after: JobState, event: Event) -> None:
    entries = {entry.type: entry for entry in after.conditions}
    assert len(entries) == len(after.conditions), "an entry stands twice"
    assert sum(entries[kind].is_true for kind in ONE_OF if kind in entries) <= 1
    if after.conditions:
        assert after.conditions[-1].is_true, "the last entry is the state"
        current = [kind for kind in (*ONE_OF, "Suspended") if kind in entries and entries[kind].is_true]
        assert after.conditions[-1].type in (current or ["Created"])
    if before is None:
        return
    old = {entry.type: entry for entry in before.conditions}
    assert old.keys() <= entries.keys(), "an entry was lost"
    for kind, entry in entries.items():
        check_times(old.get(kind), entry, event)
    if before.has_ended():
        assert after.verdict == before.verdict
        assert without_stalled(after) == without_stalled(before), "a final list changed"
    if after.has_ended() and not after.is_adopted_end:
        assert not any(entries[kind].is_true for kind in ("Running", "Restarting") if kind in entries)
        assert after.completion_time is not None


def check_times(old: Condition | None, new: Condition, event: Event) -> None:
    if old is None:
        assert new.last_transition_time == event.observed_at
    elif old != new:
        assert new.last_update_time == event.observed_at
        moved = old.status != new.status
        assert new.last_transition_time == (event.observed_at if moved else old.last_transition_time)
        assert (old.status, old.reason, old.message) != (new.status, new.reason, new.message)


def without_stalled(state: JobState) -> list[Condition]:
    return [entry for entry in state.conditions if entry.type != "Stalled"]


def check_repeat(after: JobState, event: Event, history: History) -> None:
    """The same observation once more says nothing new."""
    if event.op.value not in ("ADDED", "MODIFIED") or history.context.gap_open or event.uid not in history.heads:
        return
    again = msgspec.structs.replace(event, position=event.position + 1)
    step = advance(after, again, history.context)
    assert step is not None and step.transitions == ()
    assert step.state.conditions == after.conditions and step.state.retries == after.retries
    assert {k: s.attempts for k, s in step.state.slots.items()} == {k: s.attempts for k, s in after.slots.items()}


replica = st.fixed_dictionaries(
    {"replicas": st.integers(1, 3)},
    optional={"restartPolicy": st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"])},
)
run_policy = st.fixed_dictionaries(
    {},
    optional={
        "cleanPodPolicy": st.sampled_from(["All", "Running", "None"]),
        "backoffLimit": st.integers(0, 3),
        "activeDeadlineSeconds": st.integers(1, 120),
        "ttlSecondsAfterFinished": st.integers(0, 60),
        "suspend": st.booleans(),
    },
)
jobs = st.builds(
    lambda version, types, policy, extra, chief: {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "spec": {
            "tfReplicaSpecs": {**types, **({"Chief": {**chief, "replicas": 1}} if chief else {})},
            "runPolicy": policy,
            **extra,
        },
    },
    st.sampled_from(["v1", "v1alpha2"]),
    st.dictionaries(st.sampled_from(["Worker", "PS", "Evaluator"]), replica, min_size=1),
    run_policy,
    st.fixed_dictionaries({}, optional={"successPolicy": st.just("AllWorkers"), "enableDynamicWorker": st.booleans()}),
    st.none() | replica,
)
slots = st.tuples(st.sampled_from(["chief", "ps", "worker", "evaluator"]), st.integers(0, 3))
happenings = st.one_of(
    st.tuples(st.just("pod"), slots, st.sampled_from(STATES)),
    st.tuples(st.just("pod"), slots, st.sampled_from(STATES)),
    st.tuples(st.just("pod"), slots, st.just("Running")),
    st.tuples(st.sampled_from(["delete", "gone", "linger"]), slots, st.none()),
    st.tuples(st.just("after"), st.integers(0, 400), st.none()),
    st.tuples(st.just("edit"), st.fixed_dictionaries({}, optional={
        "suspend": st.booleans(), "backoffLimit": st.integers(0, 2), "activeDeadlineSeconds": st.integers(1, 100),
        "cleanPodPolicy": st.sampled_from(["All", "Running", "None"]),
    }), st.none()),
    st.tuples(st.just("scale"), st.sampled_from(["Worker", "PS"]), st.integers(0, 4)),
    st.tuples(st.sampled_from(["restart", "cut", "relist", "delete_job", "create_job", "refuse", "allow"]),
              st.none(), st.none()),
)  # fmt: skip


class Driver:
    """Does to a job what the happenings say; what cannot be is passed over."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.player = PurePlayer(Scenario("", "", with_defaults(manifest), {}, (), ()))
        self.player.history = CheckedHistory()
        self.player._create(self.player.manifest)
        self.player._settle()

    def do(self, verb: str, what: Any, value: Any) -> None:
        player, world = self.player, self.player.world
        job = player.job()
        pod = None
        if isinstance(what, tuple):
            slot = f"{what[0]}-{what[1]}"
            found = [held for held in world.of_kind("Pod") if str(slot_of_held(held)) == slot]
            pod = found[0] if found else None
        if verb == "pod" and pod is not None:
            if pod.phase in ("Succeeded", "Failed"):
                return
            player._pods({slot: value})
        elif verb == "delete" and pod is not None:
            world.delete_pod(pod)
        elif verb == "gone" and pod is not None:
            world.vanish(pod)
        elif verb == "linger" and pod is not None:
            pod.lingers = True
        elif verb == "after":
            player._pass(what * 1_000_000)
        elif verb == "edit" and job is not None:
            world.edit_job(job, {"spec": {"runPolicy": what}})
        elif verb == "scale" and job is not None and what in job.body["spec"]["tfReplicaSpecs"]:
            world.edit_job(job, {"spec": {"tfReplicaSpecs": {what: {"replicas": value}}}})
        elif verb == "restart" and player.is_watching:
            player.history.restart()
        elif verb == "cut" and player.is_watching:
            player._cut()
        elif verb == "relist" and not player.is_watching:
            player._relist()
        elif verb == "delete_job" and job is not None:
            world.delete_job(job)
        elif verb == "create_job" and job is None:
            player._create(player.manifest)
        elif verb in ("refuse", "allow"):
            world.refusals = {"pods": "exceeded quota"} if verb == "refuse" else {}
        player._settle()
        self.check_pods()

    def check_pods(self) -> None:
        """No action makes a second pod for a live slot."""
        seen: set[tuple[str | None, SlotId | None]] = set()
        for held in self.player.world.of_kind("Pod"):
            key = (held.owner_uid, slot_of_held(held))
            assert key not in seen, f"two pods for {key}"
            seen.add(key)

    def finish(self) -> None:
        """The world becomes quiet: nothing more is asked for, and replay gives the same."""
        if not self.player.is_watching:
            self.player._relist()
        self.player._settle()
        before = len(self.player.world.requests)
        self.player._settle()
        assert len(self.player.world.requests) == before
        self.player.history.restart()
        self.player._settle()
        assert len(self.player.world.requests) == before, "a restart asked for something"


def play(manifest: dict[str, Any], happened: list[tuple[str, Any, Any]]) -> None:
    driver = Driver(manifest)
    for verb, what, value in happened:
        driver.do(verb, what, value)
    driver.finish()


@given(jobs, st.lists(happenings, max_size=25))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_whatever_happens(manifest: dict[str, Any], happened: list[tuple[str, Any, Any]]) -> None:
    play(manifest, happened)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@given(jobs, st.lists(happenings, max_size=40))
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_whatever_happens_ten_thousand_times(manifest: dict[str, Any], happened: list[tuple[str, Any, Any]]) -> None:
    play(manifest, happened)
