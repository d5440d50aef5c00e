"""Scenario files: YAML → steps, or one clear line that says where the file is wrong.

In: a path. Out: a `Scenario`. Raises Malformed (file, line, place, what). Never: runs anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from controller.errors import UserError
from controller.scenario.model import PodReport, Scenario, Step

DEFAULT_NAME, DEFAULT_NAMESPACE = "job-a", "team-a"
CONDITIONS = ("Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended", "Stalled")
TYPES = ("Chief", "Master", "Worker", "PS", "Evaluator")
SETTINGS = ("cluster_domain", "default_clean_pod_policy", "gang_scheduler", "pod_finalizer")
_ITEM = r"(\*|(chief|master|worker|ps|evaluator)-(\*|[0-9]+(\.\.[0-9]+)?))"
_WHICH = re.compile(rf"{_ITEM}(,\s*(chief|master|worker|ps|evaluator)-(\*|[0-9]+(\.\.[0-9]+)?))*")
_SLOT = re.compile(r"(chief|master|worker|ps|evaluator)-[0-9]+")
_WORD = re.compile(r"(Pending|Running|Succeeded|Evicted|Unknown|Failed(\((\d+)( ([A-Za-z]+))?\))?)")
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h)")
_UNIT_MICROSECONDS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}


class Malformed(UserError):
    """A file that is no scenario; the message is one line: file, line, place, what is wrong."""


class _Wrong(Exception):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def parse_file(file: Path) -> Scenario:
    """Reads one scenario. Raises Malformed."""
    try:
        text = file.read_text(encoding="utf-8")
        body = yaml.load(text, Loader=yaml.CSafeLoader)
    except OSError as error:
        raise Malformed(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Malformed(f"{file}: is not UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        raise Malformed(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from None
    try:
        return parse(body, str(file))
    except _Wrong as wrong:
        raise Malformed(f"{file}:{_line_of(text, wrong.path)}: {wrong.path or 'file'}: {wrong.message}") from None


def parse(body: Any, file: str = "") -> Scenario:
    """Checks the plain content of a scenario file and types it."""
    _keys(body, "", ("title", "from", "rules", "job", "settings", "steps", "only"), ("title", "steps"))
    _text(body["title"], "title")
    if "from" in body:
        _text(body["from"], "from")
    for number, rule in enumerate(_list(body.get("rules", []), "rules")):
        _text(rule, f"rules[{number}]")
    only = _list(body.get("only", []), "only")
    for number, way in enumerate(only):
        _one_of(way, f"only[{number}]", ("core", "local", "cluster"))
    settings = body.get("settings", {})
    _map(settings, "settings")
    for key in settings:
        _one_of(key, f"settings.{key}", SETTINGS)
    job = with_defaults(body["job"]) if _job(body.get("job"), "job") else {}
    steps = _list(body["steps"], "steps")
    if not steps:
        raise _Wrong("steps", "at least one step is needed")
    return Scenario(
        file=file,
        title=body["title"],
        job=job,
        settings=dict(settings),
        steps=tuple(_step(step, f"steps[{number}]") for number, step in enumerate(steps)),
        only=tuple(only),
    )


def with_defaults(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with its name, namespace, and a template of one container where a replica has none."""
    metadata = {"name": DEFAULT_NAME, "namespace": DEFAULT_NAMESPACE, **(manifest.get("metadata") or {})}
    spec = dict(manifest["spec"])
    replicas = spec.get("tfReplicaSpecs")
    if isinstance(replicas, dict):
        spec["tfReplicaSpecs"] = {
            key: {"template": _template(), **value} if isinstance(value, dict) and "template" not in value else value
            for key, value in replicas.items()
        }
    return {**manifest, "metadata": metadata, "spec": spec}


def _template() -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}}


def report_of(state: Any) -> PodReport:
    """The kubelet's report that a STATE stands for (checked before)."""
    if isinstance(state, str):
        word = _WORD.fullmatch(state)
        assert word is not None
        if state in ("Pending", "Running", "Unknown"):
            return PodReport(phase=state, is_bound=state != "Pending")
        if state == "Succeeded":
            return PodReport(phase="Succeeded", exit_code=0)
        if state == "Evicted":
            return PodReport(phase="Failed", pod_reason="Evicted")
        return PodReport(phase="Failed", exit_code=int(word[3] or 1), reason=word[5] or "")
    phase = state.get("phase") or ("Pending" if "unschedulable" in state else "Running")
    waiting = state.get("waiting", "")
    if waiting and "phase" not in state:
        is_restarted = waiting == "CrashLoopBackOff" or state.get("restartCount")
        phase = "Running" if is_restarted else "Pending"
    return PodReport(
        phase=phase,
        exit_code=state.get("exitCode"),
        reason=state.get("reason", ""),
        pod_reason=state.get("podReason", ""),
        message=state.get("message", ""),
        restart_count=state.get("restartCount", 0),
        last_exit_code=state.get("lastExitCode"),
        waiting=waiting,
        unschedulable=state.get("unschedulable", ""),
        main=state.get("main"),
        sidecar=state.get("sidecar"),
        init=state.get("init"),
        disruption=state.get("disruptionTarget", ""),
        is_bound="unschedulable" not in state and not (state.get("phase") == "Pending" and not waiting),
    )


def microseconds_of(duration: str) -> int:
    """`90s` in microseconds (checked before)."""
    found = _DURATION.fullmatch(duration)
    assert found is not None
    return int(found[1]) * _UNIT_MICROSECONDS[found[2]]


# --- checks; each raises _Wrong with the place ---------------------------------------------------------------------


def _step(step: Any, path: str) -> Step:
    _map(step, path)
    if len(step) != 1:
        raise _Wrong(path, f"a step has exactly one verb; this one has {len(step)}")
    ((verb, value),) = step.items()
    check = _VERBS.get(verb)
    if check is None:
        raise _Wrong(f"{path}.{verb}", f"no such verb; there are {', '.join(_VERBS)}")
    return Step(verb, check(value, f"{path}.{verb}"), path)


def _pods(value: Any, path: str) -> Any:
    _map(value, path)
    for which, state in value.items():
        _which(which, f"{path}.{which}")
        _state(state, f"{path}.{which}")
    return value


_STATE_KEYS: dict[str, type | tuple[type, ...]] = {
    "exitCode": int, "reason": str, "podReason": str, "message": str, "restartCount": int, "lastExitCode": int,
    "waiting": str, "unschedulable": str, "main": dict, "sidecar": object, "init": dict, "disruptionTarget": str,
}  # fmt: skip


def _state(state: Any, path: str) -> Any:
    if isinstance(state, str):
        if not _WORD.fullmatch(state):
            raise _Wrong(
                path, f"{state!r} is no state: Pending, Running, Succeeded, Failed(137 OOMKilled), Evicted, Unknown"
            )
        return state
    _keys(state, path, ("phase", *_STATE_KEYS))
    if "phase" in state:
        _one_of(state["phase"], f"{path}.phase", ("Pending", "Running", "Succeeded", "Failed", "Unknown"))
    for key, kind in _STATE_KEYS.items():
        if key in state and (not isinstance(state[key], kind) or (kind is int and isinstance(state[key], bool))):
            raise _Wrong(f"{path}.{key}", "has the wrong type")
    return state


def _which(value: Any, path: str) -> Any:
    if not isinstance(value, str) or not _WHICH.fullmatch(value):
        raise _Wrong(path, f'{value!r} names no slots: worker-0, worker-*, ps-0..1, "worker-0,worker-2", "*"')
    return value


def _after(value: Any, path: str) -> Any:
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _Wrong(path, f"{value!r} is no duration: 500ms, 90s, 5m, 1h")
    return value


def _const(expected: Any) -> Callable[[Any, str], Any]:
    def check(value: Any, path: str) -> Any:
        if value != expected or type(value) is not type(expected):
            raise _Wrong(path, f"must be {expected if isinstance(expected, str) else str(expected).lower()}")
        return value

    return check


def _edit(value: Any, path: str) -> Any:
    _map(value, path)
    return value


def _job(value: Any, path: str) -> bool:
    if value is None:
        return False
    _keys(value, path, ("apiVersion", "kind", "metadata", "spec"), ("apiVersion", "kind", "spec"))
    _one_of(value["apiVersion"], f"{path}.apiVersion", ("kubeflow.org/v1", "kubeflow.org/v1alpha2"))
    _one_of(value["kind"], f"{path}.kind", ("TFJob",))
    _map(value["spec"], f"{path}.spec")
    if "metadata" in value:
        _map(value["metadata"], f"{path}.metadata")
    return True


def _create_job(value: Any, path: str) -> Any:
    if value == "same":
        return None
    if not _job(value, path):
        raise _Wrong(path, "must be a TFJob, or same")
    return with_defaults(value)


def _gap(value: Any, path: str) -> Any:
    return tuple(_step(step, f"{path}[{number}]") for number, step in enumerate(_list(value, path)))


def _refuse(value: Any, path: str) -> Any:
    _keys(value, path, ("pods", "services"))
    for key, message in value.items():
        _text(message, f"{path}.{key}")
    return value


def _foreign(value: Any, path: str) -> Any:
    _keys(value, path, ("kind", "name", "namespace", "labels", "owner", "state"), ("kind", "name"))
    _one_of(value["kind"], f"{path}.kind", ("Pod", "Service"))
    for key in ("name", "namespace"):
        if key in value:
            _text(value[key], f"{path}.{key}")
    _map(value.get("labels", {}), f"{path}.labels")
    if "owner" in value:
        _one_of(value["owner"], f"{path}.owner", ("none", "other", "self"))
    if "state" in value:
        _state(value["state"], f"{path}.state")
    return value


def _submit(value: Any, path: str) -> Any:
    _keys(value, path, ("job", "expect"), ("job", "expect"))
    _map(value["job"], f"{path}.job")
    _expect(value["expect"], f"{path}.expect")
    return value


def _expect(value: Any, path: str) -> Any:
    _keys(value, path, tuple(_EXPECT))
    if not value:
        raise _Wrong(path, "expects nothing")
    for key, wanted in value.items():
        _EXPECT[key](wanted, f"{path}.{key}")
    return value


def _slots(value: Any, path: str) -> None:
    for number, slot in enumerate(_list(value, path)):
        _slot(slot, f"{path}[{number}]")
    if len(set(value)) != len(value):
        raise _Wrong(path, "a slot stands twice")


def _slot(value: Any, path: str) -> None:
    if not isinstance(value, str) or not _SLOT.fullmatch(value):
        raise _Wrong(path, f"{value!r} is no slot: worker-0")


def _texts(value: Any, path: str) -> None:
    for number, word in enumerate(_list(value, path)):
        _text(word, f"{path}[{number}]")


def _map_of(key: Callable[[Any, str], Any], value: Callable[[Any, str], Any]) -> Callable[[Any, str], None]:
    def check(found: Any, path: str) -> None:
        _map(found, path)
        for each, content in found.items():
            key(each, f"{path}.{each}")
            value(content, f"{path}.{each}")

    return check


def _counts(value: Any, path: str) -> None:
    _keys(value, path, ("active", "succeeded", "failed"))
    for key, count in value.items():
        _number(count, f"{path}.{key}")


def _number(value: Any, path: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong(path, "must be a whole number")


def _choice(*allowed: Any) -> Callable[[Any, str], None]:
    return lambda value, path: _one_of(value, path, allowed)


def _anything(_value: Any, _path: str) -> None:
    pass


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise _Wrong(path, "must be text")


def _boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise _Wrong(path, "must be true or false")


def _map(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise _Wrong(path, "must be a map")


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Wrong(path, "must be a list")
    return value


def _keys(value: Any, path: str, allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
    _map(value, path)
    for key in value:
        if key not in allowed:
            raise _Wrong(f"{path}.{key}".lstrip("."), f"unknown key; there are {', '.join(allowed)}")
    for key in needed:
        if key not in value:
            raise _Wrong(path, f"needs the key {key}")


def _one_of(value: Any, path: str, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise _Wrong(path, f"{value!r} must be one of {', '.join(map(str, allowed))}")


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

_condition = _choice(*CONDITIONS)
_EXPECT: dict[str, Callable[[Any, str], None]] = {
    "state": _condition,
    "conditions": _map_of(_condition, _choice("True", "False", "absent")),
    "reason": _map_of(_condition, _text),
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
    "accepted": _boolean,
    "error": _texts,
    "tf_config": _map_of(_slot, _anything),
    "labels": _map_of(_slot, _anything),
    "events": _texts,
    "why": _texts,
}


def _line_of(text: str, path: str) -> int:
    """The 1-based line of a place like `steps[3].gap[0].pods.worker-0`, or of its nearest parent."""
    node = yaml.compose(text, Loader=yaml.CSafeLoader)
    line = 1
    rest = path
    while node is not None and rest:
        found = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if rest == key.value or rest.startswith((f"{key.value}.", f"{key.value}[")):
                    found, line, rest = value, key.start_mark.line + 1, rest[len(key.value) :].lstrip(".")
                    break
        elif isinstance(node, yaml.SequenceNode) and rest.startswith("["):
            number, _, rest = rest[1:].partition("]")
            if int(number) < len(node.value):
                found = node.value[int(number)]
                line = found.start_mark.line + 1
            rest = rest.lstrip(".")
        node = found
    return line
