"""Which rule a transition rests on: the paragraph of RULES.

In: a transition. Out: words. Never: a decision.
"""

from __future__ import annotations

from controller.decide import reasons
from controller.model.events import Transition

_BY_REASON = {
    reasons.JOB_SUSPENDED: "RULES §7 suspend and resume",
    reasons.JOB_RESUMED: "RULES §7 suspend and resume",
    reasons.DEADLINE_EXCEEDED: "RULES §12 deadline",
    reasons.INVALID_SPEC: "RULES §4.5 Failed: invalid spec",
    "BackoffLimitExceeded": "RULES §3 retries and backoffLimit",
}
_BY_TYPE = {
    reasons.CREATED: "RULES §4.1 Created",
    reasons.RUNNING: "RULES §4.2 Running",
    reasons.RESTARTING: "RULES §4.3 Restarting",
    reasons.SUCCEEDED: "RULES §4.4 Succeeded",
    reasons.FAILED: "RULES §4.5 Failed",
    reasons.STALLED: "RULES §4.6 Stalled",
    reasons.SUSPENDED: "RULES §4.7 Suspended",
}


def rule_of(transition: Transition) -> str:
    """The rule by which this condition changed so."""
    return _BY_REASON.get(transition.reason) or _BY_TYPE.get(transition.type, transition.type)
