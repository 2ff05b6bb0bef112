"""What is left of a script that a time limit ends: it tells what it has, instead of dying where it is."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

UNDECIDED = 3
"""The exit code of a script that measured too little to say whether what it looks into holds."""


class EndedEarly:
    """A block that Ctrl-C and SIGTERM, which `timeout` sends, leave; what comes after it still runs.

    It is true where that happened. A further SIGTERM changes nothing: `timeout` sends two.
    """

    def __init__(self) -> None:
        self._ended = False
        self._owner = os.getpid()

    def __bool__(self) -> bool:
        return self._ended

    def __enter__(self) -> EndedEarly:
        self._before = signal.signal(signal.SIGTERM, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._ended |= kind is KeyboardInterrupt
        if not self._ended:
            signal.signal(signal.SIGTERM, self._before)
        else:
            print("\nended early; what there is:", flush=True)
        return kind is KeyboardInterrupt

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            # A fork has nothing to tell, and must not be kept from ending.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if not self._ended:
            self._ended = True
            raise KeyboardInterrupt
