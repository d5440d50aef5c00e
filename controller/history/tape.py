"""A tape: the histories of jobs in one file, to be taken elsewhere and folded again (DESIGN §3).

In: jobs' events with the transitions that were decided then. Out: gzip of JSON lines (zcat reads it): a header, for
each job a line of its own, its events, its transitions, then an end. Every line has a checksum over itself and all
before it, so that what is damaged, missing or moved is refused with its line. Never: values of env variables (the log
has none); a file read by half.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from controller.errors import UserError
from controller.log import NewEvent
from controller.log.escape import stored_json
from controller.log.facts import fact_of, stored_of
from controller.model.events import EVENT_SCHEMA, RULES_NUMBER, Event, Op, Transition

TAPE_FORMAT = 1
"""Number of the file's form; a reader refuses a higher one."""
_CHECK = b',"check":"00000000"}'
_COMPRESSION = 6
_NULL = msgspec.Raw(b"null")


class Header(msgspec.Struct, frozen=True, tag_field="line", tag="tape"):
    """The first line: the file's form, and the code that wrote it."""

    tape_format: int
    code_version: str
    rules_number: int
    event_schema: int


class JobLine(msgspec.Struct, frozen=True, tag_field="line", tag="job"):
    """A job. Its transitions are those up to position `folded`; which code decided them its LEADER events say."""

    uid: str
    namespace: str
    name: str
    folded: int
    is_over: bool = False
    parked: str | None = None


class EventLine(msgspec.Struct, frozen=True, tag_field="line", tag="event", omit_defaults=True):
    """One event as the log has it. `spec` is that of a TFJob, else `null`."""

    position: int
    observed_at: int
    op: Op
    kind: str
    schema_number: int
    body: msgspec.Raw
    spec: msgspec.Raw = _NULL
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    job_uid: str | None = None
    job_name: str | None = None
    spec_hash: str | None = None


class TransitionLine(msgspec.Struct, frozen=True, tag_field="line", tag="transition"):
    """One transition that was decided then."""

    transition: Transition


class EndLine(msgspec.Struct, frozen=True, tag_field="line", tag="end"):
    """The last line."""

    jobs: int


Line = Header | JobLine | EventLine | TransitionLine | EndLine
_LINE = msgspec.json.Decoder(Line)


class Recorded(msgspec.Struct, frozen=True):
    """One job's history: what its context was made of and what concerned it, in order, and what was decided then."""

    job: JobLine
    events: list[Event]
    transitions: list[Transition]


class Damaged(UserError):
    """No whole tape: says the file and the line at which it stops being one."""

    def __init__(self, source: str, line: int, what: str) -> None:
        super().__init__(f"{source}: line {line}: {what}", exit_code=2)
        self.line = line


def write_tape(out: IO[bytes], jobs: Iterable[Recorded], code_version: str) -> int:
    """Writes a tape; returns the number of its jobs. The same histories give the same bytes."""
    count = 0
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=_COMPRESSION, mtime=0, filename="") as zipped:
        lines = _Checked(zipped)
        lines.write(Header(TAPE_FORMAT, code_version, RULES_NUMBER, EVENT_SCHEMA))
        for recorded in jobs:
            count += 1
            lines.write(recorded.job)
            for event in recorded.events:
                lines.write(_line_of(event))
            for transition in recorded.transitions:
                lines.write(TransitionLine(transition))
        lines.write(EndLine(count))
    return count


def read_tape(path: Path) -> Iterator[Recorded]:
    """The jobs of a tape, one in memory at a time, each when all of its lines are right. Raises Damaged; a caller that
    must not act on the first half asks `check_tape` before."""
    job: JobLine | None = None
    events: list[Event] = []
    transitions: list[Transition] = []
    count, number, has_end = 0, 0, False
    for number, line in _lines(path):
        if has_end:
            raise Damaged(str(path), number, "something stands behind the end")
        match line:
            case Header() if number == 1:
                _refuse_newer(path, line)
            case EventLine() if job is not None:
                events.append(_event_of(path, number, line))
            case TransitionLine() if job is not None:
                transitions.append(line.transition)
            case JobLine() | EndLine() if number > 1:
                if job is not None:
                    yield Recorded(job, events, transitions)
                events, transitions = [], []
                if isinstance(line, JobLine):
                    job, count = line, count + 1
                elif line.jobs != count:
                    raise Damaged(str(path), number, f"{count} jobs, {line.jobs} were written")
                else:
                    job, has_end = None, True
            case _:
                raise Damaged(str(path), number, "a line that cannot stand here; is this a tape?")
    if not has_end:
        raise Damaged(str(path), number + 1, "the file is cut: its end is missing")


def check_tape(path: Path) -> tuple[int, int]:
    """(jobs, events) of a whole tape. Raises Damaged."""
    jobs = events = 0
    for recorded in read_tape(path):
        jobs, events = jobs + 1, events + len(recorded.events)
    return jobs, events


class _Checked:
    """Writes lines, each with the checksum of everything up to it."""

    def __init__(self, out: IO[bytes] | gzip.GzipFile) -> None:
        self._out: Any = out
        self._sum = 0

    def write(self, line: Line) -> None:
        text = msgspec.json.encode(line)[:-1]
        self._sum = zlib.crc32(text, self._sum)
        self._out.write(b'%s,"check":"%08x"}\n' % (text, self._sum))


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    """(number, line) of a file, as far as it is whole."""
    number, running = 0, 0
    try:
        with gzip.open(path, "rb") as zipped:
            for raw in zipped:
                number += 1
                text, tail = raw[: -len(_CHECK) - 1], raw[-len(_CHECK) - 1 :]
                running = zlib.crc32(text, running)
                if tail != b',"check":"%08x"}\n' % running:
                    raise Damaged(str(path), number, "the checksum is not that of what stands here")
                yield number, _LINE.decode(text + b"}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = "the file is cut" if isinstance(error, EOFError) else f"damaged, or no tape ({error})"
        raise Damaged(str(path), number + 1, what) from error
    except msgspec.MsgspecError as error:
        raise Damaged(str(path), number, f"not a line of a tape: {error}") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error


def _refuse_newer(path: Path, header: Header) -> None:
    if header.tape_format > TAPE_FORMAT or header.event_schema > EVENT_SCHEMA:
        raise UserError(
            f"{path}: written by tfjob {header.code_version} (tape format {header.tape_format}, event schema "
            f"{header.event_schema}); this code reads up to {TAPE_FORMAT} and {EVENT_SCHEMA}"
        )


def _line_of(event: Event) -> EventLine:
    stored = stored_of(NewEvent(event.op, event.fact, event.observed_at, spec_hash=event.spec_hash))
    return EventLine(
        position=event.position,
        observed_at=event.observed_at,
        op=event.op,
        kind=stored.kind,
        schema_number=EVENT_SCHEMA,
        body=msgspec.Raw(stored_json(stored.body).encode()),
        spec=_NULL if stored.spec is None else msgspec.Raw(stored_json(stored.spec).encode()),
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        resource_version=str(event.resource_version),
        job_uid=event.job_uid,
        job_name=event.job_name,
        spec_hash=event.spec_hash,
    )


def _event_of(path: Path, number: int, line: EventLine) -> Event:
    try:
        text = bytes(line.spec).decode()
        spec = None if text == "null" else text
        fact = fact_of(line.op, line.kind, line.schema_number, bytes(line.body).decode(), spec)
    except (msgspec.MsgspecError, ValueError, KeyError) as error:
        raise Damaged(str(path), number, f"not an event that this code reads: {error}") from error
    return Event(
        line.position,
        line.observed_at,
        line.op,
        fact,
        line.namespace,
        line.name,
        line.uid,
        int(line.resource_version),
        line.job_uid,
        line.job_name,
        line.spec_hash,
    )
