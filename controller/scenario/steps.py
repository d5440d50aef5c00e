"""What the steps of a scenario file may say: a check for every verb, state and expectation.

In: plain YAML content and the place where it stands. Out: steps. Raises Wrong with the place. Never: reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from controller.scenario.checks import (
    Wrong,
    check_boolean,
    check_keys,
    check_list,
    check_map,
    check_one_of,
    check_text,
    meant,
)
from controller.scenario.model import Step

CONDITIONS = ("Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended", "Stalled")
TYPES = ("Chief", "Master", "Worker", "PS", "Evaluator")
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_ITEM = r"(chief|master|worker|ps|evaluator)-(\*|[0-9]+(\.\.[0-9]+)?)"
_WHICH = re.compile(rf"(\*|{_ITEM})(,\s*{_ITEM})*")
_SLOT = re.compile(r"(chief|master|worker|ps|evaluator)-[0-9]+")
WORD = re.compile(r"(Pending|Running|Succeeded|Evicted|Unknown|Failed(\((\d+)( ([A-Za-z]+))?\))?)")
DURATION = re.compile(r"([0-9]+)(ms|s|m|h)")


def step_of(step: Any, path: str) -> Step:
    """One step, typed. Raises Wrong."""
    check_map(step, path)
    if len(step) != 1:
        raise Wrong(path, f"a step has exactly one verb; this one has {len(step)}")
    ((verb, value),) = step.items()
    check = _VERBS.get(verb) if isinstance(verb, str) else None
    if check is None:
        raise Wrong(f"{path}.{verb}", f"there is no such verb{meant(verb, _VERBS)}; there are {', '.join(_VERBS)}")
    return Step(verb, check(value, f"{path}.{verb}"), path)


def _pods(value: Any, path: str) -> Any:
    check_map(value, path)
    for which, state in value.items():
        _which(which, f"{path}.{which}")
        _state(state, f"{path}.{which}")
    return value


def _state(state: Any, path: str) -> Any:
    if isinstance(state, str):
        if not WORD.fullmatch(state):
            raise Wrong(
                path, f"{state!r} is no state: Pending, Running, Succeeded, Failed(137 OOMKilled), Evicted, Unknown"
            )
        return state
    if not isinstance(state, dict):
        raise Wrong(path, "a state is a word like Failed(137), or a map like {phase: Running, restartCount: 1}")
    check_keys(state, path, tuple(_STATE))
    for key, value in state.items():
        _STATE[key](value, f"{path}.{key}")
    return state


def _which(value: Any, path: str) -> Any:
    if not isinstance(value, str) or not _WHICH.fullmatch(value):
        raise Wrong(path, f'{value!r} names no slots: worker-0, worker-*, ps-0..1, "worker-0,worker-2", "*"')
    return value


def _after(value: Any, path: str) -> Any:
    if not isinstance(value, str) or not DURATION.fullmatch(value):
        raise Wrong(path, f"{value!r} is no duration: 500ms, 90s, 5m, 1h")
    return value


def _const(expected: Any) -> Callable[[Any, str], Any]:
    def check(value: Any, path: str) -> Any:
        if value != expected or type(value) is not type(expected):
            raise Wrong(path, f"must be {expected if isinstance(expected, str) else str(expected).lower()}")
        return value

    return check


def _edit(value: Any, path: str) -> Any:
    check_map(value, path)
    return value


def check_job(value: Any, path: str) -> None:
    """A manifest, as far as it must be one to be sent at all; other keys may stand in it. Raises Wrong."""
    check_map(value, path)
    for key in ("apiVersion", "kind", "spec"):
        if key not in value:
            raise Wrong(path, f"needs the key {key}")
    check_one_of(value["apiVersion"], f"{path}.apiVersion", ("kubeflow.org/v1", "kubeflow.org/v1alpha2"))
    check_one_of(value["kind"], f"{path}.kind", ("TFJob",))
    check_map(value["spec"], f"{path}.spec")
    if "metadata" in value:
        check_map(value["metadata"], f"{path}.metadata")


def _create_job(value: Any, path: str) -> Any:
    if value != "same":
        if not isinstance(value, dict):
            raise Wrong(path, "must be a TFJob, or same")
        check_job(value, path)
    return value


def _gap(value: Any, path: str) -> Any:
    return tuple(step_of(step, f"{path}[{number}]") for number, step in enumerate(check_list(value, path)))


def _refuse(value: Any, path: str) -> Any:
    check_keys(value, path, ("pods", "services"))
    for key, message in value.items():
        check_text(message, f"{path}.{key}")
    return value


def _foreign(value: Any, path: str) -> Any:
    check_keys(value, path, ("kind", "name", "namespace", "labels", "owner", "state"), ("kind", "name"))
    check_one_of(value["kind"], f"{path}.kind", ("Pod", "Service"))
    for key in ("name", "namespace"):
        if key in value:
            check_text(value[key], f"{path}.{key}")
    check_map(value.get("labels", {}), f"{path}.labels")
    if "owner" in value:
        check_one_of(value["owner"], f"{path}.owner", ("none", "other", "self"))
    if "state" in value:
        _state(value["state"], f"{path}.state")
    return value


def _submit(value: Any, path: str) -> Any:
    check_keys(value, path, ("job", "expect"), ("job", "expect"))
    check_map(value["job"], f"{path}.job")
    _expect(value["expect"], f"{path}.expect")
    return value


def _expect(value: Any, path: str) -> Any:
    check_keys(value, path, tuple(_EXPECT))
    if not value:
        raise Wrong(path, "expects nothing")
    for key, wanted in value.items():
        _EXPECT[key](wanted, f"{path}.{key}")
    return value


def _slots(value: Any, path: str) -> None:
    for number, slot in enumerate(check_list(value, path)):
        _slot(slot, f"{path}[{number}]")
    if len(set(value)) != len(value):
        raise Wrong(path, "a slot stands twice")


def _slot(value: Any, path: str) -> None:
    if not isinstance(value, str) or not _SLOT.fullmatch(value):
        raise Wrong(path, f"{value!r} is no slot: worker-0")


def _texts(value: Any, path: str) -> None:
    for number, word in enumerate(check_list(value, path)):
        check_text(word, f"{path}[{number}]")


def _map_of(key: Callable[[Any, str], Any], value: Callable[[Any, str], Any]) -> Callable[[Any, str], None]:
    def check(found: Any, path: str) -> None:
        check_map(found, path)
        for each, content in found.items():
            key(each, f"{path}.{each}")
            value(content, f"{path}.{each}")

    return check


def _counts(value: Any, path: str) -> None:
    check_keys(value, path, ("active", "succeeded", "failed"))
    for key, count in value.items():
        _number(count, f"{path}.{key}")


def _number(value: Any, path: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Wrong(path, "must be a whole number")


def _choice(*allowed: Any) -> Callable[[Any, str], None]:
    return lambda value, path: check_one_of(value, path, allowed)


def _anything(_value: Any, _path: str) -> None:
    pass


_VERBS: dict[str, Callable[[Any, str], Any]] = {
    "pods": _pods,
    "delete": _which,
    "gone": _which,
    "linger": _which,
    "after": _after,
    "edit": _edit,
    "delete_job": _const(True),
    "create_job": _create_job,
    "restart": _const("controller"),
    "stop": _const("controller"),
    "start": _const("controller"),
    "gap": _gap,
    "refuse": _refuse,
    "foreign": _foreign,
    "submit": _submit,
    "expect": _expect,
}

_STATE: dict[str, Callable[[Any, str], Any]] = {
    "phase": _choice(*PHASES),
    "exitCode": _number,
    "reason": check_text,
    "podReason": check_text,
    "message": check_text,
    "restartCount": _number,
    "lastExitCode": _number,
    "waiting": check_text,
    "unschedulable": check_text,
    "main": check_map,
    "sidecar": _anything,
    "init": check_map,
    "disruptionTarget": check_text,
}

_condition = _choice(*CONDITIONS)
_EXPECT: dict[str, Callable[[Any, str], None]] = {
    "state": _condition,
    "conditions": _map_of(_condition, _choice("True", "False", "absent")),
    "reason": _map_of(_condition, check_text),
    "message": _map_of(_condition, _texts),
    "replicas": _map_of(_choice(*TYPES), _counts),
    "pods": _slots,
    "pods_absent": _slots,
    "services": _slots,
    "attempts": _map_of(_slot, _number),
    "retries": _map_of(_anything, _number),
    "startTime": _choice("set", "unset"),
    "completionTime": _choice("set", "unset"),
    "job": _choice("present", "absent"),
    "accepted": check_boolean,
    "error": _texts,
    "tf_config": _map_of(_slot, _anything),
    "labels": _map_of(_slot, _anything),
    "events": _texts,
    "why": _texts,
}
