"""Children that end with their parent: the kernel's own signal, since a parent that was killed cannot send one."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

__all__ = ["end_with_parent"]

_PR_SET_PDEATHSIG = 1
# Loaded here and not in the child: between fork and exec nothing may allocate more than it must.
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def end_with_parent(sign: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn` that has the kernel send `sign` to the child when the thread that started it ends.

    Only Linux has this; elsewhere it does nothing, and an owner killed by SIGKILL leaves its children behind.
    """
    parent = os.getpid()

    def ask_kernel() -> None:
        if _PRCTL is not None:
            _PRCTL(_PR_SET_PDEATHSIG, int(sign), 0, 0, 0)
            if os.getppid() != parent:  # it died before we asked
                os._exit(128 + sign)

    return ask_kernel
