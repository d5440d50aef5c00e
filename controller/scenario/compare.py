"""`expect`: what was expected and what was found, key by key.

In: a step and a player. Out: differences; none when everything holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from controller.fold.spec import MAIN_CONTAINER
from controller.history import lines_of
from controller.model.replicas import SlotId, replica_type_of, slot_of
from controller.scenario.seen import Seen


class Difference(msgspec.Struct, frozen=True):
    """One thing that does not hold: its place in the `expect`, what was expected there and what was found."""

    key: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.key}: expected {_plain(self.expected)}, got {_plain(self.got)}"


def differences(expected: dict[str, Any], player: Seen) -> list[Difference]:
    """Every key of an `expect` that does not hold."""
    status = (player.job_body() or {}).get("status") or {}
    found: list[Difference] = []
    for key, wanted in expected.items():
        found += _CHECKS[key](wanted, status, player)
    return found


def refusals(step: dict[str, Any], player: Seen) -> list[Difference]:
    """The same for a `submit`: what admission says to another manifest."""
    said = player.admission(step["job"])
    expected, text = step["expect"], "; ".join(said)
    found = []
    if "accepted" in expected and expected["accepted"] != (not said):
        found.append(Difference("accepted", expected["accepted"], said or True))
    found += [Difference("error", word, text) for word in expected.get("error", ()) if word not in text]
    return found


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


Status = dict[str, Any]


def _entries(status: Status) -> dict[str, Status]:
    return {entry["type"]: entry for entry in status.get("conditions") or ()}


def _state(wanted: str, status: Status, _player: Seen) -> list[Difference]:
    conditions = status.get("conditions") or [{}]
    last = conditions[-1]
    is_right = last.get("type") == wanted and last.get("status") == "True"
    got = f"{last['type']} ({last['status']})" if last else "no conditions"
    return [] if is_right else [Difference("state", wanted, got)]


def _conditions(wanted: Status, status: Status, _player: Seen) -> list[Difference]:
    entries = _entries(status)
    got = {kind: entries.get(kind, {}).get("status", "absent") for kind in wanted}
    return [Difference(f"conditions.{kind}", each, got[kind]) for kind, each in wanted.items() if got[kind] != each]


def _reason(wanted: Status, status: Status, _player: Seen) -> list[Difference]:
    entries = _entries(status)
    return [
        Difference(f"reason.{kind}", each, entries.get(kind, {}).get("reason"))
        for kind, each in wanted.items()
        if entries.get(kind, {}).get("reason") != each
    ]


def _message(wanted: Status, status: Status, _player: Seen) -> list[Difference]:
    entries = _entries(status)
    return [
        Difference(f"message.{kind}", word, entries.get(kind, {}).get("message", ""))
        for kind, words in wanted.items()
        for word in words
        if word not in entries.get(kind, {}).get("message", "")
    ]


def _replicas(wanted: Status, status: Status, _player: Seen) -> list[Difference]:
    counts = status.get("replicaStatuses") or {}
    return [
        Difference(f"replicas.{kind}.{key}", number, counts.get(kind, {}).get(key, 0))
        for kind, each in wanted.items()
        for key, number in each.items()
        if counts.get(kind, {}).get(key, 0) != number
    ]


_Check = Callable[[Any, Status, Seen], list[Difference]]


def _exactly(kind: str, key: str) -> _Check:
    def check(wanted: list[str], _status: Status, player: Seen) -> list[Difference]:
        got = [str(slot) for slot in sorted(player.objects(kind), key=SlotId.order)]
        return [] if sorted(got) == sorted(wanted) else [Difference(key, wanted, got)]

    return check


def _pods_absent(wanted: list[str], _status: Status, player: Seen) -> list[Difference]:
    there = {str(slot) for slot in player.objects("Pod")} & set(wanted)
    return [Difference("pods_absent", wanted, f"{sorted(there)} are there")] if there else []


def _attempts(wanted: dict[str, int], _status: Status, player: Seen) -> list[Difference]:
    state = player.state()
    got = {str(slot.id): slot.attempts for slot in state.slots.values()} if state else {}
    return [
        Difference(f"attempts.{slot}", number, got.get(slot, 0))
        for slot, number in wanted.items()
        if got.get(slot, 0) != number
    ]


def _retries(wanted: dict[str, int], status: Status, _player: Seen) -> list[Difference]:
    got = {replica_type_of(kind): count for kind, count in (status.get("restarts") or {}).items()}
    return [
        Difference(f"retries.{kind}", number, got.get(replica_type_of(kind), 0))
        for kind, number in wanted.items()
        if got.get(replica_type_of(kind), 0) != number
    ]


def _is_set(key: str) -> _Check:
    def check(wanted: str, status: Status, _player: Seen) -> list[Difference]:
        return [] if (key in status) == (wanted == "set") else [Difference(key, wanted, status.get(key, "unset"))]

    return check


def _job(wanted: str, _status: Status, player: Seen) -> list[Difference]:
    got = "present" if player.job_body() else "absent"
    return [] if got == wanted else [Difference("job", wanted, got)]


def _tf_config(wanted: dict[str, Any], _status: Status, player: Seen) -> list[Difference]:
    got = {slot: _tf_config_of(_newest(slot, player)) for slot in wanted}
    return [Difference(f"tf_config.{slot}", each, got[slot]) for slot, each in wanted.items() if got[slot] != each]


def _tf_config_of(pod: dict[str, Any] | None) -> Any:
    """The parsed TF_CONFIG of the main container; words where there is none to parse."""
    if pod is None:
        return "no pod"
    containers = pod["spec"].get("containers") or ()
    main: dict[str, Any] = next((each for each in containers if each.get("name") == MAIN_CONTAINER), {})
    # Of two entries of one name the last one counts, as for the kubelet.
    entry = next((each for each in reversed(main.get("env") or ()) if each.get("name") == "TF_CONFIG"), None)
    if entry is None:
        return "absent"
    text = entry.get("value", "")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _labels(wanted: dict[str, dict[str, str]], _status: Status, player: Seen) -> list[Difference]:
    found = []
    for slot, each in wanted.items():
        pod = _newest(slot, player)
        got = (pod["metadata"].get("labels") or {}) if pod else {}
        found += [
            Difference(f"labels.{slot}.{key}", value, got.get(key, "absent") if pod else "no pod")
            for key, value in (each or {}).items()
            if got.get(key) != value
        ]
    return found


def _newest(slot: str, player: Seen) -> dict[str, Any] | None:
    found = slot_of(slot)
    return player.newest_pod(found) if found else None


def _events(wanted: list[str], _status: Status, player: Seen) -> list[Difference]:
    missing = [reason for reason in wanted if reason not in player.notices()]
    return [Difference("events", missing, player.notices())] if missing else []


def _why(wanted: list[str], _status: Status, player: Seen) -> list[Difference]:
    text = "\n".join(lines_of(answer)) if (answer := player.why()) else "no such job"
    return [Difference("why", word, text) for word in wanted if word not in text]


def _accepted(wanted: bool, _status: Status, player: Seen) -> list[Difference]:
    """A job that stands on the API server was accepted; without admission every one is."""
    got = player.job_body() is not None
    return [] if got == wanted else [Difference("accepted", wanted, got)]


def _error(wanted: list[str], _status: Status, player: Seen) -> list[Difference]:
    text = "; ".join(player.admission(player.manifest))
    return [Difference("error", word, text) for word in wanted if word not in text]


_CHECKS: dict[str, _Check] = {
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
    "accepted": _accepted,
    "error": _error,
    "tf_config": _tf_config,
    "labels": _labels,
    "events": _events,
    "why": _why,
}
