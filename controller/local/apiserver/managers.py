"""Who set which field: `metadata.managedFields`, and server-side apply, which is decided by it.

In: the body before and after a write, the manager's name. Out: the body with its managers, merged for an apply.
Never: storage; an apply's result is written like any other update.

A field set is a set of paths in the form of FieldsV1 (`f:` a field, `k:` an element of a keyed list, `v:` of a set).
Kept simple: ownership is by leaf; a change of a list's or map's kind in a newer CRD version does not move ownership,
and applied fields keep the API version they were first written in.
https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import copy
import json
from typing import Any

from controller.local.apiserver.failures import Cause, apply_conflict
from controller.local.apiserver.fieldsets import Path, child_of, element_of, is_keyed, leaves_of, nested, paths_of
from controller.local.apiserver.resources import ApiVersion, Resource
from controller.local.apiserver.schema import Node

Json = dict[str, Any]


def _same_entry(entry: Json, manager: str, operation: str, api_version: str, subresource: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == operation
        and entry.get("apiVersion") == api_version
        and entry.get("subresource", "") == subresource
    )


def same_but_times(left: Json, right: Json) -> bool:
    """Whether two bodies say the same; entries of managedFields may differ in their time."""
    if left is right:
        return True
    return _timeless(left) == _timeless(right)


def _timeless(body: Json) -> Json:
    entries = [{k: v for k, v in e.items() if k != "time"} for e in body["metadata"].get("managedFields") or []]
    return body | {"metadata": body["metadata"] | {"managedFields": entries}}


def with_managers(
    resource: Resource, version: ApiVersion, new: Json, old: Json | None, manager: str, now: str, subresource: str = ""
) -> None:
    """Records in `new`, in place, that `manager` set what differs from `old` (everything, when there is no old)."""
    before = {} if old is None else leaves_of(old, version)
    after = leaves_of(new, version)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    changed = {path for path in changed if path[-1] != "." or path not in before}
    gone = before.keys() - after.keys()
    entries = [] if old is None else copy.deepcopy(old["metadata"].get("managedFields") or [])
    if changed or gone:
        api_version = resource.api_version_of(version.name)
        own = next((e for e in entries if _same_entry(e, manager, "Update", api_version, subresource)), None)
        for entry in entries:
            if entry is not own:
                entry["fieldsV1"] = nested(paths_of(entry["fieldsV1"]) - changed - gone)
        if own is None and changed:
            own = _entry(manager, "Update", api_version, subresource)
            entries.append(own)
        if own is not None:
            own["fieldsV1"] = nested((paths_of(own["fieldsV1"]) - gone) | changed)
            own["time"] = now
    _set(new, entries)


def _entry(manager: str, operation: str, api_version: str, subresource: str) -> Json:
    entry = {"manager": manager, "operation": operation, "apiVersion": api_version, "fieldsType": "FieldsV1"}
    return entry | {"fieldsV1": {}} | ({"subresource": subresource} if subresource else {})


def _set(body: Json, entries: list[Json]) -> None:
    kept = [entry for entry in entries if entry["fieldsV1"]]
    if kept:
        body["metadata"]["managedFields"] = kept
    else:
        body["metadata"].pop("managedFields", None)


def applied(
    resource: Resource,
    version: ApiVersion,
    live: Json | None,
    config: Json,
    manager: str,
    now: str,
    *,
    force: bool,
    subresource: str = "",
) -> Json:
    """The body that a server-side apply of `config` leads to, its managedFields included.

    `ApiFailure` 409 lists the fields that another manager owns with another value, unless `force`.
    """
    wanted = {
        path: value
        for path, value in leaves_of(config, version).items()
        if path[-1] != "." or path[-2].startswith("k:") or _is_entry(path[:-1], version.schema)
    }
    if live is None:
        body = copy.deepcopy(config)
        entry = _entry(manager, "Apply", resource.api_version_of(version.name), subresource)
        entry |= {"fieldsV1": nested(set(wanted)), "time": now}
        _set(body, [entry])
        return body
    present = leaves_of(live, version)
    entries = copy.deepcopy(live["metadata"].get("managedFields") or [])
    api_version = resource.api_version_of(version.name)
    own = next((e for e in entries if _same_entry(e, manager, "Apply", api_version, subresource)), None)
    others = [entry for entry in entries if entry is not own]
    contested = {p for p, v in wanted.items() if p[-1] != "." and p in present and present[p] != v}
    _refuse_conflicts(others, contested, force)
    for entry in others:
        entry["fieldsV1"] = nested(paths_of(entry["fieldsV1"]) - contested)
    mine_before = paths_of(own["fieldsV1"]) if own else set()
    held_by_others = {path for entry in others for path in paths_of(entry["fieldsV1"])}
    dropped = {path for path in mine_before - set(wanted) - held_by_others if path in present}
    body = _without(copy.deepcopy(live), dropped, version)
    body = dict(_merged(body, config, version.schema))
    if own is None:
        own = _entry(manager, "Apply", api_version, subresource)
        entries.append(own)
    if own["fieldsV1"] != (fields := nested(set(wanted))) or "time" not in own:
        own |= {"fieldsV1": fields, "time": now}
    _set(body, entries)
    return body


def _refuse_conflicts(others: list[Json], contested: set[Path], force: bool) -> None:
    if force:
        return
    found = [
        (_told(entry), _dotted(path)) for entry in others for path in sorted(paths_of(entry["fieldsV1"]) & contested)
    ]
    if not found:
        return
    causes = [Cause(field, "FieldManagerConflict", f"conflict with {manager}") for manager, field in found]
    if len(found) == 1:
        raise apply_conflict(f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}", causes)
    lines = []
    for manager in dict.fromkeys(manager for manager, _ in found):
        lines += [f"conflicts with {manager}:", *(f"- {field}" for other, field in found if other == manager)]
    raise apply_conflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(lines), causes)


def _told(entry: Json) -> str:
    text = json.dumps(entry["manager"])
    if entry.get("subresource"):
        text += f" with subresource {json.dumps(entry['subresource'])}"
    if entry["operation"] == "Update":
        text += f" using {entry['apiVersion']}" + (f" at {entry['time']}" if entry.get("time") else "")
    return text


def _dotted(path: Path) -> str:
    text = ""
    for part in path:
        kind, _, value = part.partition(":")
        if kind == "k":
            text += "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(value).items()) + "]"
        elif kind == "v":
            text += f"[={value}]"
        elif kind == "f":
            text += f".{value}"
    return text


def _is_entry(path: Path, node: Node | None) -> bool:
    """Whether a path leads to an entry of a map (not to a field that the schema names)."""
    for part in path[:-1]:
        if node is None:
            return False
        node = child_of(node, part[2:]) if part.startswith("f:") else node.items
    return node is not None and path[-1].startswith("f:") and path[-1][2:] not in node.properties


def _without(body: Json, paths: set[Path], version: ApiVersion) -> Json:
    # leaves first, then the containers they leave empty
    for path in sorted((p for p in paths if p[-1] != "."), key=len, reverse=True):
        _drop(body, path, version.schema)
    # then what they leave empty: nobody owns that any more
    emptied = {path[:length] for path in paths for length in range(2, len(path))}
    for path in sorted(emptied, key=len, reverse=True):
        _drop(body, path, version.schema, only_if_empty=True)
    return body


def _drop(place: Any, path: Path, node: Node | None, *, only_if_empty: bool = False) -> None:
    head, rest = path[0], path[1:]
    if head.startswith("f:") and isinstance(place, dict):
        key = head[2:]
        if key not in place:
            return
        if rest:
            _drop(place[key], rest, child_of(node, key), only_if_empty=only_if_empty)
        elif not only_if_empty or not place[key]:
            del place[key]
    elif isinstance(place, list) and node is not None:
        index = next((i for i, item in enumerate(place) if element_of(item, node) == head), None)
        if index is None:
            return
        keys = set(node.raw.get("x-kubernetes-list-map-keys") or [])
        if rest and not (rest[0][2:] in keys and len(rest) == 1):
            _drop(place[index], rest, node.items, only_if_empty=only_if_empty)
        elif not rest and (not only_if_empty or not (set(place[index]) - keys)):
            del place[index]


def _merged(live: Any, config: Any, node: Node | None) -> Any:
    if isinstance(live, dict) and isinstance(config, dict):
        result = dict(live)
        for key, value in config.items():
            result[key] = _merged(live[key], value, child_of(node, key)) if key in live else copy.deepcopy(value)
        return result
    if isinstance(live, list) and isinstance(config, list) and node is not None and is_keyed(node):
        merged = {element_of(item, node): item for item in live}
        for item in config:
            name = element_of(item, node)
            merged[name] = _merged(merged[name], item, node.items) if name in merged else copy.deepcopy(item)
        return list(merged.values())
    return copy.deepcopy(config)
