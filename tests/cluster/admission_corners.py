"""Every field that admission looks at, with every kind of value: what the CRD and the Python checks must agree on."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.cluster.admission_cases import valid

Json = dict[str, Any]
_REPLICA = ("spec", "tfReplicaSpecs", "Worker")
_TEMPLATE = (*_REPLICA, "template")
_CONTAINERS = (*_TEMPLATE, "spec", "containers")
_RUN = ("spec", "runPolicy")
_POLICIES = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
_FIELDS: list[tuple[str | int, ...]] = [
    ("spec",),
    ("spec", "tfReplicaSpecs"),
    ("spec", "rules"),
    ("spec", "successPolicy"),
    ("spec", "enableDynamicWorker"),
    *(("spec", field) for field in _POLICIES),
    _RUN,
    *((*_RUN, field) for field in (*_POLICIES, "suspend", "managedBy", "schedulingPolicy")),
    *(
        (*_RUN, "schedulingPolicy", field)
        for field in ("minAvailable", "scheduleTimeoutSeconds", "queue", "priorityClass", "minResources", "other")
    ),
    (*_RUN, "schedulingPolicy", "minResources", "cpu"),
    *(("spec", "tfReplicaSpecs", kind) for kind in ("Worker", "Chief", "other", "")),
    (*_REPLICA, "replicas"),
    ("spec", "tfReplicaSpecs", "Chief", "replicas"),
    (*_REPLICA, "restartPolicy"),
    (*_REPLICA, "other"),
    *((*_REPLICA, field) for field in ("metadata", "spec", "containers", "volumes", "serviceAccountName")),
    (*_REPLICA, "hostNetwork"),
    _TEMPLATE,
    (*_TEMPLATE, "metadata"),
    (*_TEMPLATE, "other"),
    (*_TEMPLATE, "spec"),
    (*_TEMPLATE, "spec", "other"),
    _CONTAINERS,
    (*_CONTAINERS, 0),
    (*_CONTAINERS, 0, "name"),
    (*_CONTAINERS, 0, "image"),
    (*_CONTAINERS, 0, "other"),
    (*_CONTAINERS, 1),
    (*_CONTAINERS, 1, "name"),
    (*_CONTAINERS, 1, "image"),
]
_VALUES: list[Any] = [
    None, True, -1, 0, 1, 2, 1.0, 1.5, 2**31 - 1, 2**31, 2**63 - 1, "", "v1", "all", "All", "AllWorkers", "Never",
    "tensorflow", "a.example/b", "a..example/b", "1", "a" * 64, {}, {"a": 1}, [], [None], ["a"], [{}], [{"a": 1}],
]  # fmt: skip


class Corner(NamedTuple):
    """One manifest; `id` says what is in which field."""

    id: str
    manifest: Json


def _full() -> Json:
    manifest = valid("corner")
    specs = manifest["spec"]["tfReplicaSpecs"]
    specs["Worker"]["template"]["metadata"] = {"labels": {"a": "b"}}
    specs["Worker"]["template"]["spec"]["containers"].append({"name": "side", "image": "example/side:1"})
    specs["Chief"] = copy.deepcopy(specs["Worker"])
    manifest["spec"]["runPolicy"] = {"schedulingPolicy": {"minResources": {"memory": "1Gi"}}}
    return manifest


def _set(manifest: Json, field: tuple[str | int, ...], value: Any) -> None:
    holder: Any = manifest
    for key in field[:-1]:
        holder = holder[key]
    holder[field[-1]] = value


def corners() -> Iterator[Corner]:
    """Every field with every value."""
    for field in _FIELDS:
        for value in _VALUES:
            manifest = _full()
            _set(manifest, field, copy.deepcopy(value))
            yield Corner(f"{'.'.join(map(str, field))} = {value!r}", manifest)
    for name in ("a", "-", "a-", "A", "a_b", "é", "1", "a" * 54, "a" * 55, "a" * 63, "a" * 64, "a" * 254, ""):
        manifest = _full()
        manifest["metadata"]["name"] = name
        yield Corner(f"metadata.name = {name!r}", manifest)
    for kinds in (("worker",), ("wOrKeR", "Worker"), ("WorKer",), ("worker ",), ("Ps", "EVALUATOR"), ("cHief", "ps")):
        manifest = _full()
        replica = manifest["spec"]["tfReplicaSpecs"]["Worker"]
        manifest["spec"]["tfReplicaSpecs"] = dict.fromkeys(kinds, replica)
        yield Corner(f"replica types {', '.join(kinds)}", manifest)
    for count in (100, 101):
        manifest = _full()
        containers = [{"name": "tensorflow", "image": "a"}, *({"name": f"a{n}", "image": "a"} for n in range(1, count))]
        _set(manifest, _CONTAINERS, containers)
        yield Corner(f"{count} containers", manifest)
    for length in (253, 254):
        manifest = _full()
        _set(manifest, (*_RUN, "managedBy"), "a/" + "b" * (length - 2))
        yield Corner(f"managedBy of {length} characters", manifest)
    for replicas in (10**9, 10**7, 10):
        manifest = _full()
        manifest["metadata"]["name"] = "a" * 47
        _set(manifest, (*_REPLICA, "replicas"), replicas)
        yield Corner(f"{replicas} replicas", manifest)
    for length in (4096, 4097):
        manifest = _full()
        _set(manifest, (*_CONTAINERS, 0, "image"), "a" * length)
        yield Corner(f"an image of {length} characters", manifest)
