"""Many histories against the code that runs now: which jobs' conditions would differ, grouped by what differs.

In: tapes, or a log; results of replays. Out: results one job at a time; groups; JUnit. Never: two histories in memory
at once in one process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from controller.errors import UserError
from controller.history.replay import Replayed, replay
from controller.history.tape import Recorded, check_tape, read_tape
from controller.history.tape_log import recorded_of
from controller.log import EventLog


class Compared(msgspec.Struct, frozen=True):
    """One job: the same, or what differs first. `source` is the tape, or the log's cluster."""

    source: str
    namespace: str
    name: str
    uid: str
    events: int
    position: int = 0
    event: str = ""
    what: str = ""
    rule: str = ""
    recorded: dict[str, str] = {}
    now: dict[str, str] = {}

    @property
    def differs(self) -> bool:
        return bool(self.what)


class Group(msgspec.Struct, frozen=True):
    """Jobs whose first difference is the same in kind."""

    what: str
    rule: str
    jobs: list[Compared]


def compared(source: str, recorded: Recorded) -> Compared:
    """A job's history against this code."""
    return _compared(source, replay(recorded))


def compare_tape(path: Path) -> list[Compared]:
    """All jobs of a tape. Raises Damaged before any of it is replayed."""
    check_tape(path)
    return [compared(str(path), recorded) for recorded in read_tape(path)]


async def compare_jobs(log: EventLog, source: str, uids: Sequence[str]) -> list[Compared]:
    """Some jobs of a log; one that has nothing folded is left out."""
    found = []
    for uid in uids:
        try:
            found.append(compared(source, await recorded_of(log, uid)))
        except UserError:
            continue  # Collected by retention since the list was read.
    return found


def tapes_in(folder: Path) -> list[Path]:
    """The tapes of a folder, or the one file. Raises UserError when there is none."""
    found = sorted(folder.rglob("*.tape")) if folder.is_dir() else [folder] if folder.is_file() else []
    if not found:
        raise UserError(f"{folder}: no tape here (*.tape)")
    return found


def grouped(results: Iterable[Compared]) -> list[Group]:
    """What differs, the most frequent first."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for each in results:
        if each.differs:
            groups.setdefault((each.what, each.rule), []).append(each)
    found = [Group(what, rule, jobs) for (what, rule), jobs in groups.items()]
    return sorted(found, key=lambda group: (-len(group.jobs), group.what))


def junit_of(results: Sequence[Compared]) -> bytes:
    """JUnit's XML: a test case a job."""
    failures = str(sum(each.differs for each in results))
    suite = ElementTree.Element("testsuite", name="tfjob diff", tests=str(len(results)), failures=failures)
    for each in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=each.source, name=f"{each.namespace}/{each.name} {each.uid}"
        )
        if each.differs:
            text = "\n".join(_lines(each))
            ElementTree.SubElement(case, "failure", message=_xml(each.what), type=each.rule).text = _xml(text)
    whole: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return whole


def _lines(each: Compared) -> Iterator[str]:
    yield f"after event {each.position} ({each.event}); rule: {each.rule}"
    yield f"then: {each.recorded}"
    yield f"now:  {each.now}"


def _xml(text: str) -> str:
    """Without the characters that XML cannot have."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _compared(source: str, result: Replayed) -> Compared:
    first = result.difference
    if first is None:
        return Compared(source, result.namespace, result.name, result.uid, result.events)
    return Compared(
        source=source,
        namespace=result.namespace,
        name=result.name,
        uid=result.uid,
        events=result.events,
        position=first.position,
        event=first.event,
        what=first.what,
        rule=first.rule,
        recorded=first.recorded,
        now=first.now,
    )
