"""The core's first half: events → state. How an attempt ended, what is retried, what is in flight; pure (RULES §2, §3).

In: a state and an event. Out: the next state. Never: I/O, a clock, randomness, settings other than those in the log.
"""

from controller.fold.context import Context, context_after
from controller.fold.snapshot import decode_state, encode_state
from controller.fold.state import JobState

__all__ = ["Context", "JobState", "context_after", "decode_state", "encode_state"]
