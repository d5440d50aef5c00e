"""One step of a replay in words: the event, what changed in the state, what is asked for, and by which rule.

In: a moment. Out: lines. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from controller.fold import JobState, encode_state
from controller.history.describe import described, plain
from controller.history.replay import Moment
from controller.history.replay_rules import rule_of
from controller.model.instants import micro_text_of

_MOST = 160


def lines_of_step(moment: Moment) -> list[str]:
    """The lines of one step."""
    event, step = moment.event, moment.step
    subject, what = described(event)
    lines = [f"{event.position:>8}  {micro_text_of(event.observed_at)}  {subject}: {what}"]
    lines += [f"            {line}" for line in changes_of(moment.before, moment.after)]
    for each in step.transitions:
        lines.append(f"          = {each.type} {each.status} ({each.reason}); {rule_of(each)}: {plain(each.message)}")
    if step.actions:
        lines.append("          > wants " + ", ".join(type(action).__name__ for action in step.actions))
    if step.timers:
        lines.append("          > waits for " + ", ".join(sorted({timer.timer.value for timer in step.timers})))
    return lines


def changes_of(before: JobState | None, after: JobState) -> list[str]:
    """What of the state differs, one line a path: `- before`, `+ after`."""
    old = dict(_flat("", _plain(before))) if before is not None else {}
    new = dict(_flat("", _plain(after)))
    lines = []
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) == new.get(path) or path in ("position", "resource_version"):
            continue
        if path in old:
            lines.append(f"- {path}: {_short(old[path])}")
        if path in new:
            lines.append(f"+ {path}: {_short(new[path])}")
    return lines


def _plain(state: JobState) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(encode_state(state))
    found["slots"] = {f"{slot['type']}-{slot['index']}": slot for slot in found["slots"]}
    found["conditions"] = {each["type"]: each for each in found["conditions"]}
    return found


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), each)
    elif value not in (None, [], {}, "", False, 0):
        yield path, value


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return plain(text, _MOST)
