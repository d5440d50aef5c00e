"""Edge 2: Postgres, the truth. The only SQL of the project (ARCHITECTURE.md).

Never: knows watches or actions; decides anything.
"""

from controller.log.errors import Fenced, LogWentBack
from controller.log.event_log import EventLog
from controller.log.records import Append, AttemptRow, Head, JobRow, JobSnapshot, NewEvent, SessionMark
from controller.model.events import Event

__all__ = [
    "Append",
    "AttemptRow",
    "Event",
    "EventLog",
    "Fenced",
    "Head",
    "JobRow",
    "JobSnapshot",
    "LogWentBack",
    "NewEvent",
    "SessionMark",
]
