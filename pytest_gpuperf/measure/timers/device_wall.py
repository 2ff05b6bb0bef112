"""The host's clock around a call on a device, from idle to idle: end to end, launch included."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.timers.rig import MOST_TRIALS, Rig

BATCH_WORK_US = 25_000.0
FLOOR_TRIALS = 10


class DeviceWallTimer:
    """Per trial: flush, clock meter, synchronise, clock, call, synchronise, clock."""

    kind = "wall"

    def __init__(self, rig: Rig, cache: str) -> None:
        self.cache = cache
        self.floor_us = 0.0
        self._rig = rig
        self._limit = MOST_TRIALS

    def describe(self) -> str:
        """Name everything that shapes the figure: the flush and the clock meter."""
        flush = self._rig.flush.name if self.cache == "cold" else "no flush"
        return ", ".join(part for part in (self.kind, flush, self._rig.meter.name) if part)

    def prepare(self, target: Target) -> None:
        """Call twice and read the floor."""
        with self._rig.current():
            self.floor_us = median(self._trial(slot, _nothing)[0] for slot in range(FLOOR_TRIALS))
        self._limit = 2
        batch = self.batch(target, 2)
        self._limit = max(1, min(MOST_TRIALS, int(BATCH_WORK_US / batch.times_us[-1])))

    def batch(self, target: Target, trials: int) -> Batch:
        """Time up to `trials` calls, as many as a batch's time allows."""
        count = min(trials, self._limit)
        start_ns = time.perf_counter_ns()
        measured = []
        for slot in range(count):
            call = target.bind()
            with self._rig.current():
                measured.append(self._trial(slot, call))
        work_us = (time.perf_counter_ns() - start_ns) / 1e3
        return Batch(
            times_us=tuple(time_us for time_us, _ in measured),
            host_us=tuple(host_us for _, host_us in measured),
            clocks_ghz=self._clocks_ghz(count),
            work_us=work_us,
            notes=self._rig.notes,
        )

    def _trial(self, slot: int, call: Callable[[], Any]) -> tuple[float, float]:
        """Return the call's time from idle to idle, and the host's part until it returned."""
        rig = self._rig
        if self.cache == "cold":
            rig.flush.start()
        rig.meter.start(slot, rig.stream_handle())
        rig.synchronize()
        start_ns = time.perf_counter_ns()
        call()
        returned_ns = time.perf_counter_ns()
        rig.synchronize()
        return (time.perf_counter_ns() - start_ns) / 1e3, (returned_ns - start_ns) / 1e3

    def _clocks_ghz(self, count: int) -> tuple[float, ...]:
        with self._rig.current():
            self._rig.meter.queue_reading(self._rig.stream_handle())
            self._rig.synchronize()
            return self._rig.meter.clocks_ghz(count)


def _nothing() -> None:
    """Stand in for a callable, to read what the clock reads around nothing."""
