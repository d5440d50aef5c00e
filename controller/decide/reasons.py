"""Every reason and type that a condition may have, and the words of its messages (RULES §4)."""

from __future__ import annotations

from controller.fold.endings import POD_DELETED, POD_LOST_DURING_GAP
from controller.fold.exit_codes import meaning_of
from controller.fold.state import End, Ending
from controller.model.replicas import SlotId

# --- types of conditions
CREATED = "Created"
RUNNING = "Running"
RESTARTING = "Restarting"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
SUSPENDED = "Suspended"
STALLED = "Stalled"

# --- reasons
JOB_CREATED = "TFJobCreated"
"""Seen for the first time."""
JOB_RUNNING = "TFJobRunning"
"""The slots that must run do (RULES §4.2)."""
JOB_NOT_RUNNING = "TFJobNotRunning"
"""Running stopped being so and nothing took over."""
PS_NOT_RUNNING = "PSNotRunning"
"""v1alpha2: a PS is being retried or pending, so the job neither runs nor restarts."""
JOB_RESTARTING = "TFJobRestarting"
"""At least one slot is being retried; the message names it, its code and the retries used."""
JOB_SUCCEEDED = "TFJobSucceeded"
"""The decider succeeded, or all that decide together."""
JOB_FAILED = "TFJobFailed"
"""A slot failed for good, and that fails the job; the message names it."""
DEADLINE_EXCEEDED = "DeadlineExceeded"
"""The job was active longer than activeDeadlineSeconds."""
INVALID_SPEC = "InvalidTFJobSpec"
"""What admission should have refused was found in an object."""
JOB_SUSPENDED = "TFJobSuspended"
"""`runPolicy.suspend` is true."""
JOB_RESUMED = "TFJobResumed"
"""It was true, and is no longer."""
NAME_TAKEN = "NameTaken"
"""A pod or service of that name belongs to something else."""
FAILED_CREATE = "FailedCreate"
"""Quota, admission or the name refused a pod or its service; the server's words are in the message."""
POD_TERMINATING = "PodTerminating"
"""A pod whose place is needed has been terminating for over five minutes."""
NOT_STALLED = "NotStalled"
"""Nothing outside the job holds a pod back any more."""

LONGEST_WORDS = 300
"""Characters of a pod's last words in a condition's message; attempts keep more."""


def ending_words(slot: SlotId, ending: Ending) -> str:
    """How an attempt ended, for a message: slot, pod, attempt, code with its meaning, reason, last words."""
    who = f"{slot} (pod {ending.pod}, attempt {ending.attempt})"
    if ending.reason == POD_DELETED:
        what = f"was deleted by someone else before its end was known: {POD_DELETED}"
    elif ending.reason == POD_LOST_DURING_GAP:
        what = f"disappeared while the watch had a gap, its end is unknown: {POD_LOST_DURING_GAP}"
    elif ending.how is End.DISRUPTED:
        what = f"was disrupted: {ending.reason}"
    elif ending.code is None:
        what = "failed"
    else:
        meaning = ", ".join(each for each in (meaning_of(ending.code), ending.reason) if each)
        what = f"exited with code {ending.code}" + (f" ({meaning})" if meaning else "")
    if ending.how is End.DISRUPTED and ending.code is not None:
        what += f" (code {ending.code})"
    words = last_words(ending.message)
    return f"{who} {what}" + (f": {words}" if words else "")


def last_words(message: str) -> str:
    """The last whole lines of a termination message on one line; what only underlines another line is left out."""
    found: list[str] = []
    for line in reversed(message.splitlines()):
        text = " ".join(line.split())
        if not text.strip("^~ "):
            continue
        if found and sum(map(len, found)) + len(text) > LONGEST_WORDS:
            break
        found.append(text[-LONGEST_WORDS:])
    return " ".join(reversed(found))
