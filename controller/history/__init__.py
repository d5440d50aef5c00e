"""Reading back: what happened to a job, in order, in words and as data.

In: the log's events and transitions. Out: rows for people and programs. Never: writes.
"""

from controller.history.timeline import Row, timeline

__all__ = ["Row", "timeline"]
