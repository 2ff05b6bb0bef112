"""The CPU's wall timer: the host's clock around a calibrated number of calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise, repeat
from math import sqrt
from typing import Any

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.pace import pace_ghz, pace_name

TRIAL_US = 100.0
"""A trial lasts about this long at least: a thousand times the clock's own cost, short enough for many of them."""
BATCH_US = 20_000.0
MOST_TRIALS = 20
"""Of a batch: several batches a run, at several paces, are what the sensitivity to the pace is estimated from."""
MOST_LOOPS = 1 << 14
CALIBRATING_LOOKS = 3


class LoopTimer:
    """`time.perf_counter_ns` around as many calls as fill a trial; a call that is long enough is timed alone.

    Every trial comes with the pace that the CPU kept beside it, in the place of a device's clock.

    With a `setup`, every call has its own arguments, so that each is timed alone however short it is.
    """

    kind = "wall"
    cache = "warm"

    def __init__(self) -> None:
        self.floor_us = 0.0
        self._loops = 1
        self._call_us = TRIAL_US

    def describe(self) -> str:
        """Say how a call is timed. The number of calls in a trial is no part of it: it differs from run to run."""
        return f"{self.kind}, {pace_name()}"

    def prepare(self, target: Target) -> None:
        """Call once, then find how many calls fill a trial."""
        timed_us(target.bind(), 1)
        self._call_us = timed_us(target.bind(), 1)
        if self._call_us < BATCH_US:
            # Lists: a generator would turn a StopIteration of the call into an error of ours.
            self._call_us = min(self._call_us, *[timed_us(target.bind(), 1) for _ in range(CALIBRATING_LOOKS - 1)])
        if target.setup is None:
            self._loops = self._calibrated(target.call)
        self.floor_us = timed_us(_nothing, self._loops) / self._loops

    def batch(self, target: Target, trials: int) -> Batch:
        """Time `trials` trials, or as many as the batch's time allows; the pace is taken before and after each."""
        in_time = int(BATCH_US / max(self._call_us * self._loops, 1.0))
        times_us, paces_ghz = [], [pace_ghz()]
        for _ in range(max(1, min(trials, in_time, MOST_TRIALS))):
            times_us.append(timed_us(target.bind(), self._loops) / self._loops)
            paces_ghz.append(pace_ghz())
        return Batch(
            times_us=tuple(times_us),
            clocks_ghz=tuple(sqrt(before * after) for before, after in pairwise(paces_ghz)),
            work_us=sum(times_us) * self._loops,
        )

    def _calibrated(self, call: Callable[[], Any]) -> int:
        """Return the first power of two that fills a trial.

        Looked at several times, and in coarse steps: a call that was disturbed once must not end up with fewer calls in
        a trial than the same call has in another run, or beside another one in a comparison.
        """
        loops = 1
        while self._call_us * loops < TRIAL_US and loops < MOST_LOOPS:
            loops *= 2
            self._call_us = min([timed_us(call, loops) for _ in range(CALIBRATING_LOOKS)]) / loops
        return loops


def timed_us(call: Callable[[], Any], loops: int) -> float:
    """Return the microseconds that `loops` calls take together."""
    if loops == 1:
        start = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - start) / 1e3
    iterations = repeat(None, loops)
    start = time.perf_counter_ns()
    for _ in iterations:
        call()
    return (time.perf_counter_ns() - start) / 1e3


def _nothing() -> None:
    """Stand in for a callable, to time the loop and the call themselves."""
