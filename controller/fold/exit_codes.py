"""What an exit code means, and whether it is tried again (RULES §3).

In: a code. Out: words, or a verdict by the table of the job's policy set or by the job's own annotation.
"""

from __future__ import annotations

import signal

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of exit codes."""

RETRYABLE: dict[str, Ranges] = {
    "v1alpha2": ((1, 1),),
    "v1": ((128, 1 << 31),),
}
"""Codes that ExitCode retries, by policy set; 0 is done and never comes here."""

MEANINGS = {
    0: "success",
    1: "general error",
    2: "misuse of a shell command",
    126: "command not executable",
    127: "command not found",
    128: "invalid exit argument",
    255: "exit status out of range",
}


def is_retryable(code: int, rules: str, own: Ranges | None) -> bool:
    """Whether ExitCode retries this code; `own` is the job's annotation, which replaces the table."""
    return any(low <= code <= high for low, high in (RETRYABLE[rules] if own is None else own))


def meaning_of(code: int) -> str:
    """The code in words: `killed by signal 9, SIGKILL` for 137; empty where it means nothing in particular."""
    if code in MEANINGS:
        return MEANINGS[code]
    if 128 < code < 128 + 65:
        number = code - 128
        try:
            return f"killed by signal {number}, {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    return ""


def ranges_of(text: str) -> Ranges | None:
    """Reads `1,130,137-143`; None when it cannot be read."""
    found = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return None
        found.append((int(low), int(high or low)))
    return tuple(found)
