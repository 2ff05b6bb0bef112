"""The host's clock, which everything is timed or budgeted by, and which libraries for tests like to stop."""

from __future__ import annotations

import time

from pytest_gpuperf.measure.errors import MeasureError

MOST_READINGS = 100_000
"""Some milliseconds, a thousand times the step of any clock that is used."""


class ClockStandsStillError(MeasureError):
    """The host's clock does not go forward."""

    def __init__(self) -> None:
        super().__init__(
            "time.perf_counter_ns() does not go forward, so nothing can be timed: has it been replaced (freezegun, a "
            "fixture)? Measure outside of what stops it, or let it pass there (freeze_time(ignore=['pytest_gpuperf']))"
        )


def check_clock_runs() -> None:
    """Raise `ClockStandsStillError` unless the clock goes forward: by a clock that does not, no budget ever ends."""
    start_ns = time.perf_counter_ns()
    for _ in range(MOST_READINGS):
        if time.perf_counter_ns() > start_ns:
            return
    raise ClockStandsStillError
