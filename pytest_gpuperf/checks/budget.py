"""How long the checks of one benchmark may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMIT_S = 0.4
"""Of the half second that is promised, what may be planned for; the rest is for calls that take longer than thought."""


class OutOfTimeError(Exception):
    """What a check asks for does not fit into the time that is left."""


class Budget:
    """Counts the time of everything that a benchmark's checks do."""

    def __init__(self, limit_s: float = LIMIT_S, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self.spent_s = 0.0
        self._since_s: float | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the time of the body."""
        self._since_s = self._now_s()
        try:
            yield
        finally:
            self.spent_s = self._elapsed_s()
            self._since_s = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what is done once in a process, not for each benchmark."""
        before_s = self._elapsed_s()
        try:
            yield
        finally:
            self.spent_s = before_s
            self._since_s = None if self._since_s is None else self._now_s()

    def reserve(self, expected_s: float) -> None:
        """Raise `OutOfTimeError` unless `expected_s` still fits in."""
        if self._elapsed_s() + expected_s > self._limit_s:
            raise OutOfTimeError

    def _elapsed_s(self) -> float:
        return self.spent_s + (0.0 if self._since_s is None else self._now_s() - self._since_s)
