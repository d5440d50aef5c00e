"""A small process that kills the process groups of the containers when the kubelet's process is gone.

In: lines on standard input, `+<group>` when a group begins and `-<group>` when it has ended. At the end of the input,
which comes even when the kubelet was killed, every group left is killed.
Run as a file of its own, so that it loads next to nothing; it is in no terminal's session.

The kernel's parent death signal reaches the containers' first processes only, not what they started in turn.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
