"""Tables: what `kubectl get` shows, computed by the server.

In: bodies and the columns of a resource's version. Out: `Table` objects of meta.k8s.io/v1.

Columns follow k8s.io/kubernetes/pkg/printers/internalversion of 1.36; custom kinds bring their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from controller.local.apiserver.resources import ApiVersion, Resource

Json = dict[str, Any]
Cells = Callable[[Json, datetime], list[Any]]

_NAME_TEXT = "Name must be unique within a namespace."


def _column(name: str, kind: str = "string", priority: int = 0, fmt: str = "", description: str = "") -> Json:
    return {"name": name, "type": kind, "format": fmt, "description": description, "priority": priority}


_NAME = _column("Name", fmt="name", description=_NAME_TEXT)
_AGE = _column("Age")

_COLUMNS: dict[str, list[Json]] = {
    "pods": [
        _NAME, _column("Ready"), _column("Status"), _column("Restarts"), _AGE, _column("IP", priority=1),
        _column("Node", priority=1), _column("Nominated Node", priority=1), _column("Readiness Gates", priority=1),
    ],
    "services": [
        _NAME, _column("Type"), _column("Cluster-IP"), _column("External-IP"), _column("Port(s)"), _AGE,
        _column("Selector", priority=1),
    ],
    "namespaces": [_NAME, _column("Status"), _AGE],
    "configmaps": [_NAME, _column("Data"), _AGE],
    "events": [
        _column("Last Seen"), _column("Type"), _column("Reason"), _column("Object"),
        _column("Subobject", priority=1), _column("Source", priority=1), _column("Message"),
        _column("First Seen", priority=1), _column("Count", priority=1), _column("Name", priority=1, fmt="name"),
    ],
    "leases": [_NAME, _column("Holder"), _AGE],
    "customresourcedefinitions": [_NAME, _column("Created At", "date")],
}  # fmt: skip


def age_text(since: str | None, now: datetime) -> str:
    """The time since an RFC 3339 instant as kubectl prints it (`45s`, `3m12s`, `5h`, `12d`)."""
    if not since:
        return "<unknown>"
    instant = datetime.fromisoformat(since.replace("Z", "+00:00"))
    seconds = max(0, int((now - instant.astimezone(UTC)).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d"


def _age(body: Json, now: datetime) -> str:
    return age_text(body["metadata"].get("creationTimestamp"), now)


def _pod_cells(pod: Json, now: datetime) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for container in reversed(containers):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
    if pod["metadata"].get("deletionTimestamp"):
        reason = "Terminating" if status.get("phase") not in ("Failed", "Succeeded") else reason
    ready = sum(bool(c.get("ready")) for c in containers)
    restarts = sum(int(c.get("restartCount") or 0) for c in containers)
    none = "<none>"
    return [
        pod["metadata"]["name"], f"{ready}/{len(spec.get('containers') or [])}", reason, str(restarts),
        _age(pod, now), status.get("podIP") or none, spec.get("nodeName") or none,
        status.get("nominatedNodeName") or none, none,
    ]  # fmt: skip


def _service_cells(service: Json, now: datetime) -> list[Any]:
    spec = service.get("spec") or {}
    ports = ",".join(f"{p['port']}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or []) or "<none>"
    selector = ",".join(f"{k}={v}" for k, v in sorted((spec.get("selector") or {}).items())) or "<none>"
    external = spec.get("externalName") or "<none>"
    address = spec.get("clusterIP") or "<none>"
    return [service["metadata"]["name"], spec.get("type"), address, external, ports, _age(service, now), selector]


def _event_cells(event: Json, now: datetime) -> list[Any]:
    involved, source = event.get("involvedObject") or {}, event.get("source") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or (event.get("series") or {}).get("lastObservedTime") or first
    component = source.get("component") or event.get("reportingComponent") or ""
    return [
        age_text(last, now), event.get("type", ""), event.get("reason", ""),
        f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}", involved.get("fieldPath", ""),
        ", ".join(text for text in (component, source.get("host")) if text), str(event.get("message", "")).strip(),
        age_text(first, now), event.get("count") or 1, event["metadata"]["name"],
    ]  # fmt: skip


_CELLS: dict[str, Cells] = {
    "pods": _pod_cells,
    "services": _service_cells,
    "events": _event_cells,
    "namespaces": lambda b, now: [b["metadata"]["name"], (b.get("status") or {}).get("phase", ""), _age(b, now)],
    "configmaps": lambda b, now: [
        b["metadata"]["name"], len(b.get("data") or {}) + len(b.get("binaryData") or {}), _age(b, now),
    ],
    "leases": lambda b, now: [
        b["metadata"]["name"], (b.get("spec") or {}).get("holderIdentity") or "", _age(b, now),
    ],
    "customresourcedefinitions": lambda b, _: [b["metadata"]["name"], b["metadata"]["creationTimestamp"]],
}  # fmt: skip


def _custom_cells(body: Json, columns: tuple[Json, ...], now: datetime) -> list[Any]:
    cells: list[Any] = [body["metadata"]["name"]]
    for column in columns:
        found = values_at(body, column["jsonPath"])
        value = found[0] if found else None
        if column["type"] == "date":
            cells.append(age_text(value, now) if value is not None else None)
        elif column["type"] == "string" and value is not None and not isinstance(value, str):
            cells.append(str(value).lower() if isinstance(value, bool) else str(value))
        else:
            cells.append(value)
    return cells


def _described(column: Json) -> str:
    default = f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    return str(column.get("description") or default)


def table_of(
    resource: Resource, version: ApiVersion, bodies: list[Json], now: datetime, *, include: str, columns: bool = True
) -> Json:
    """A Table of these bodies; `include` is `None`, `Metadata` or `Object`: what each row carries of its object."""
    if resource.is_custom:
        shown = [
            _column(c["name"], c["type"], c.get("priority", 0), c.get("format", ""), _described(c))
            for c in version.columns
        ]
        definitions = [_NAME, *shown]
    else:
        definitions = _COLUMNS[resource.plural]
    rows = []
    for body in bodies:
        cells = _custom_cells(body, version.columns, now) if resource.is_custom else _CELLS[resource.plural](body, now)
        row: Json = {"cells": cells}
        if include == "Object":
            row["object"] = body
        elif include != "None":
            row["object"] = partial_of(body)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": definitions if columns else [],
        "rows": rows,
    }


def partial_of(body: Json) -> Json:
    """The object's metadata alone, as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}


# --- JSONPath of printer columns -----------------------------------------------------------------------------------

_STEP = re.compile(
    r"\.?(?P<name>(?:\\.|[^.\[\]\\])+)"
    r"|\[\s*['\"](?P<quoted>[^'\"]+)['\"]\s*\]"
    r"|\[\?\(\s*@\.(?P<field>[\w.]+)\s*(?P<op>==|!=)\s*['\"](?P<value>[^'\"]*)['\"]\s*\)\]"
    r"|\[(?P<from>-?\d*):(?P<to>-?\d*)\]"
    r"|\[(?P<index>-?\d+)\]"
    r"|(?P<all>\[\*\])"
)


def values_at(body: Any, path: str) -> list[Any]:
    """What a column's JSONPath finds; nothing where a step leads nowhere. Steps: names, indexes, slices, filters."""
    found, place = [body], 0
    path = path.removeprefix("{").removesuffix("}")
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            return []
        place = step.end()
        found = [value for current in found for value in _stepped(current, step)]
    return [value for value in found if value is not None]


def _stepped(current: Any, step: re.Match[str]) -> list[Any]:
    name = step["quoted"] or (step["name"] and re.sub(r"\\(.)", r"\1", step["name"]))
    if name is not None:
        return [current[name]] if isinstance(current, dict) and name in current else []
    if step["all"] and isinstance(current, dict):
        return list(current.values())
    if not isinstance(current, list):
        return []
    if step["field"]:
        wanted = step["op"] == "=="
        return [item for item in current if (step["value"] in map(str, values_at(item, step["field"]))) == wanted]
    if step["index"] is not None:
        index = int(step["index"])
        return [current[index]] if -len(current) <= index < len(current) else []
    if step["all"]:
        return current
    start, end = step["from"], step["to"]
    return current[int(start) if start else None : int(end) if end else None]
