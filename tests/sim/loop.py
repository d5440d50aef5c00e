"""An event loop whose clock is virtual: when nothing is ready, time jumps to what is due next.

Never: a wait in real time, a socket, a thread. With the same seed the same things happen in the same order.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Standstill(RuntimeError):
    """Nothing is ready and nothing is due: the simulated world waits for ever."""


class _Selector(selectors.SelectSelector):
    """Turns waiting into a jump of the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise Standstill
        if timeout > 0:
            self.passed += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 0 and is in seconds."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.passed


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs `main` in virtual time, and gives its result."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
