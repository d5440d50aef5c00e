"""The core's second half: state → conditions, status, actions, timers; one rule a file (RULES §4–§10).

In: states. Out: what is true, and what is wanted. The order of the conditions' rules is evaluate.py's, that of actions
wanted.py's. Never: I/O, a clock, randomness.
"""

from controller.decide.advance import Step, advance, restored
from controller.decide.questions import asked_of, is_over, is_wanted
from controller.decide.status import digest_of, status_of

__all__ = ["Step", "advance", "asked_of", "digest_of", "is_over", "is_wanted", "restored", "status_of"]
