"""Scenario files: YAML → steps, or one clear line that says where the file is wrong.

In: a path. Out: a `Scenario`. Raises Malformed (file, line, place, what). Never: runs anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from controller.errors import UserError
from controller.scenario.checks import Wrong, check_boolean, check_keys, check_list, check_one_of, check_text
from controller.scenario.model import PodReport, Scenario
from controller.scenario.steps import DURATION, WORD, check_job, step_of

DEFAULT_NAME, DEFAULT_NAMESPACE = "job-a", "team-a"
SETTINGS: dict[str, tuple[Any, ...] | type] = {
    "cluster_domain": str,
    "default_clean_pod_policy": ("All", "Running", "None"),
    "gang_scheduler": ("", "volcano", "scheduler-plugins"),
    "pod_finalizer": bool,
}
_UNIT_MICROSECONDS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class Malformed(UserError):
    """A file that is no scenario; the message is one line: file, line, place, what is wrong."""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: no dates, and a key that stands twice in one map is a mistake."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML reads it from the class and its stub says otherwise
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) != len(keys) and "<<" not in keys:
            twice = next(key for number, key in enumerate(keys) if key in keys[:number])
            mark = [key.start_mark for key, _ in node.value if key.value == twice][-1]
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice} stands twice in one map", mark)
        return super().construct_mapping(node, deep)


def parse_file(file: Path) -> Scenario:
    """Reads one scenario. Raises Malformed."""
    text = _text_of(file)
    try:
        body = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise Malformed(f"{where}: not YAML: {problem}") from None
    except RecursionError:
        raise Malformed(f"{file}: is nested too deeply") from None
    try:
        return parse(body, str(file))
    except Wrong as wrong:
        raise malformed(file, wrong.path, wrong.message) from None
    except RecursionError:
        raise Malformed(f"{file}: is nested too deeply") from None


def malformed(file: Path, path: str, message: str) -> Malformed:
    """The one line for something wrong at a place of a file that is YAML."""
    return Malformed(f"{file}:{_line_of(_text_of(file), path)}: {path or 'file'}: {' '.join(message.split())}")


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise Malformed(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Malformed(f"{file}: is not UTF-8 text") from None


def parse(body: Any, file: str = "") -> Scenario:
    """Checks the plain content of a scenario file and types it. Raises Wrong."""
    check_keys(body, "", ("title", "from", "rules", "job", "settings", "steps", "only"), ("title", "steps"))
    check_text(body["title"], "title")
    check_text(body.get("from", ""), "from")
    for number, rule in enumerate(check_list(body.get("rules", []), "rules")):
        check_text(rule, f"rules[{number}]")
    only = check_list(body.get("only", []), "only")
    for number, way in enumerate(only):
        check_one_of(way, f"only[{number}]", ("core", "local", "cluster"))
    settings = body.get("settings", {})
    _settings(settings)
    if "job" in body:
        check_job(body["job"], "job")
    steps = check_list(body["steps"], "steps")
    if not steps:
        raise Wrong("steps", "at least one step is needed")
    return Scenario(
        file=file,
        title=body["title"],
        job=with_defaults(body["job"]) if "job" in body else {},
        settings=dict(settings),
        steps=tuple(step_of(step, f"steps[{number}]") for number, step in enumerate(steps)),
        only=tuple(only),
    )


def _settings(settings: Any) -> None:
    check_keys(settings, "settings", tuple(SETTINGS))
    for key, value in settings.items():
        allowed = SETTINGS[key]
        if allowed is bool:
            check_boolean(value, f"settings.{key}")
        elif isinstance(allowed, tuple):
            check_one_of(value, f"settings.{key}", allowed)
        else:
            check_text(value, f"settings.{key}")


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
        word = WORD.fullmatch(state)
        assert word is not None
        if state in ("Pending", "Running", "Unknown"):
            return PodReport(phase=state, is_bound=state != "Pending")
        if state == "Succeeded":
            return PodReport(phase="Succeeded", exit_code=0)
        if state == "Evicted":
            return PodReport(phase="Failed", pod_reason="Evicted")
        return PodReport(phase="Failed", exit_code=int(word[3] or 1), reason=word[5] or "")
    waiting = state.get("waiting", "")
    phase = state.get("phase") or ("Pending" if "unschedulable" in state else "Running")
    if waiting and "phase" not in state:
        # A container that waits to be started again is in a pod that runs; one that never started, in a pending one.
        phase = "Running" if waiting == "CrashLoopBackOff" or state.get("restartCount") else "Pending"
    return PodReport(
        phase=phase,
        exit_code=state.get("exitCode"),
        reason=state.get("reason", ""),
        pod_reason=state.get("podReason", ""),
        message=state.get("message", ""),
        restart_count=state.get("restartCount"),
        last_exit_code=state.get("lastExitCode"),
        waiting=waiting,
        unschedulable=state.get("unschedulable", ""),
        main=state.get("main"),
        sidecar=state.get("sidecar"),
        init=state.get("init"),
        disruption=state.get("disruptionTarget", ""),
        is_bound="unschedulable" not in state and (phase != "Pending" or bool(waiting) or "init" in state),
    )


def microseconds_of(duration: str) -> int:
    """`90s` in microseconds (checked before)."""
    found = DURATION.fullmatch(duration)
    assert found is not None
    return int(found[1]) * _UNIT_MICROSECONDS[found[2]]


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
