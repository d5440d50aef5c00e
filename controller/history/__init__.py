"""Reading back: what happened to a job, in order, in words and as data.

In: the log's events and transitions. Out: rows for people and programs. Never: writes.
"""

from controller.history.answer_text import lines_of
from controller.history.timeline import Row, Wanted, timeline
from controller.history.why import Answer, Evidence, why_of

__all__ = ["Answer", "Evidence", "Row", "Wanted", "lines_of", "timeline", "why_of"]
