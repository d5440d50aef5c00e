"""`expect`: what was expected and what was found, key by key.

In: a step and a player. Out: differences in words; empty when everything holds.
"""

from __future__ import annotations

import json
from typing import Any

from controller.fold.state import JobState
from controller.model.replicas import SlotId, replica_type_of
from controller.scenario.play import PurePlayer
from controller.scenario.world import Held


def differences(expected: dict[str, Any], player: PurePlayer) -> list[str]:
    """Every key of an `expect` that does not hold, as `key: expected …, got …`."""
    job = player.job()
    status = (job.body.get("status") or {}) if job else {}
    found: list[str] = []
    for key, wanted in expected.items():
        found += _CHECKS[key](wanted, status, job, player)
    return found


def refusals(step: dict[str, Any], player: PurePlayer) -> list[str]:
    """The same for a `submit`."""
    said = player.admission(step["job"])
    expected = step["expect"]
    found = []
    if "accepted" in expected and expected["accepted"] != (not said):
        found.append(_differs("accepted", expected["accepted"], said or True))
    text = "; ".join(said)
    found += [_differs("error", word, text) for word in expected.get("error", ()) if word not in text]
    return found


def _differs(key: str, expected: Any, got: Any) -> str:
    return f"{key}: expected {_plain(expected)}, got {_plain(got)}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


Status = dict[str, Any]


def _entries(status: Status) -> dict[str, Status]:
    return {entry["type"]: entry for entry in status.get("conditions") or ()}


def _state(wanted: str, status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    conditions = status.get("conditions") or [{}]
    last = conditions[-1]
    is_right = last.get("type") == wanted and last.get("status") == "True"
    return [] if is_right else [_differs("state", wanted, f"{last.get('type')}={last.get('status')}")]


def _conditions(wanted: Status, status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    entries = _entries(status)
    got = {kind: entries.get(kind, {}).get("status", "absent") for kind in wanted}
    return [_differs(f"conditions.{kind}", each, got[kind]) for kind, each in wanted.items() if got[kind] != each]


def _reason(wanted: Status, status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    entries = _entries(status)
    return [
        _differs(f"reason.{kind}", each, entries.get(kind, {}).get("reason"))
        for kind, each in wanted.items()
        if entries.get(kind, {}).get("reason") != each
    ]


def _message(wanted: Status, status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    entries = _entries(status)
    return [
        _differs(f"message.{kind}", word, entries.get(kind, {}).get("message", ""))
        for kind, words in wanted.items()
        for word in words
        if word not in entries.get(kind, {}).get("message", "")
    ]


def _replicas(wanted: Status, status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    counts = status.get("replicaStatuses") or {}
    return [
        _differs(f"replicas.{kind}.{key}", number, counts.get(kind, {}).get(key, 0))
        for kind, each in wanted.items()
        for key, number in each.items()
        if counts.get(kind, {}).get(key, 0) != number
    ]


def _exactly(kind: str, key: str) -> Any:
    def check(wanted: list[str], _status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
        got = [str(slot) for slot in sorted(player.objects(kind), key=SlotId.order)]
        return [] if sorted(got) == sorted(wanted) else [_differs(key, wanted, got)]

    return check


def _pods_absent(wanted: list[str], _status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
    there = {str(slot) for slot in player.objects("Pod")} & set(wanted)
    return [_differs("pods_absent", wanted, f"{sorted(there)} are there")] if there else []


def _attempts(wanted: dict[str, int], _status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
    state = player.state()
    got = {str(slot.id): slot.attempts for slot in state.slots.values()} if state else {}
    return [
        _differs(f"attempts.{slot}", number, got.get(slot, 0))
        for slot, number in wanted.items()
        if got.get(slot, 0) != number
    ]


def _retries(wanted: dict[str, int], status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    got = {replica_type_of(kind): count for kind, count in (status.get("restarts") or {}).items()}
    return [
        _differs(f"retries.{kind}", number, got.get(replica_type_of(kind), 0))
        for kind, number in wanted.items()
        if got.get(replica_type_of(kind), 0) != number
    ]


def _is_set(key: str) -> Any:
    def check(wanted: str, status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
        return [] if (key in status) == (wanted == "set") else [_differs(key, wanted, status.get(key, "unset"))]

    return check


def _job(wanted: str, _status: Status, job: Held | None, _player: PurePlayer) -> list[str]:
    got = "present" if job else "absent"
    return [] if got == wanted else [_differs("job", wanted, got)]


def _main_container(held: Held) -> dict[str, Any]:
    containers = held.body["spec"].get("containers") or []
    return next((each for each in containers if each.get("name") == "tensorflow"), {})


def _tf_config(wanted: dict[str, Any], _status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
    pods, found = player.objects("Pod"), []
    for slot, each in wanted.items():
        held = next((held for at, held in pods.items() if str(at) == slot), None)
        environment = _main_container(held).get("env") or () if held else ()
        text = next((entry["value"] for entry in environment if entry["name"] == "TF_CONFIG"), None)
        got = json.loads(text) if text else "absent"
        if got != each:
            found.append(_differs(f"tf_config.{slot}", each, got))
    return found


def _labels(wanted: dict[str, dict[str, str]], _status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
    pods, found = player.objects("Pod"), []
    for slot, each in wanted.items():
        held = next((held for at, held in pods.items() if str(at) == slot), None)
        got = (held.metadata.get("labels") or {}) if held else {}
        found += [
            _differs(f"labels.{slot}.{key}", value, got.get(key))
            for key, value in each.items()
            if got.get(key) != value
        ]
    return found


def _events(wanted: list[str], _status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
    missing = [reason for reason in wanted if reason not in player.notices()]
    return [_differs("events", wanted, player.notices())] if missing else []


def _why(wanted: list[str], status: Status, _job: Held | None, player: PurePlayer) -> list[str]:
    text = why_words(status, player.state())
    return [_differs("why", word, text) for word in wanted if word not in text]


def why_words(status: Status, state: JobState | None) -> str:
    """What is known of why a job failed: its Failed message, and each slot's last end."""
    entries = _entries(status)
    words = [entries.get("Failed", {}).get("message", "")]
    for slot in state.slots.values() if state else ():
        if slot.last is not None:
            words.append(
                f"{slot.id} attempt {slot.last.attempt} {slot.last.code} {slot.last.reason} {slot.last.message}"
            )
    return "; ".join(words)


def _nothing(_wanted: Any, _status: Status, _job: Held | None, _player: PurePlayer) -> list[str]:
    """`accepted` and `error` are admission's: they hold for a `submit` only."""
    return []


_CHECKS: dict[str, Any] = {
    "state": _state,
    "conditions": _conditions,
    "reason": _reason,
    "message": _message,
    "replicas": _replicas,
    "pods": _exactly("Pod", "pods"),
    "services": _exactly("Service", "services"),
    "pods_absent": _pods_absent,
    "attempts": _attempts,
    "retries": _retries,
    "startTime": _is_set("startTime"),
    "completionTime": _is_set("completionTime"),
    "job": _job,
    "accepted": _nothing,
    "error": _nothing,
    "tf_config": _tf_config,
    "labels": _labels,
    "events": _events,
    "why": _why,
}
