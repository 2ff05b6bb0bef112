"""Device events around each call, in batches that are queued while the device is held.

Queueing ahead takes the host out of the figure: without it, a short kernel's events also time how fast the host
dispatches, and a step of many kernels reads the host and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.notes import UNQUEUED_NOTE
from pytest_gpuperf.measure.timers.rig import MOST_TRIALS, Rig

QUEUEING_US = 20_000.0
"""A batch is queued within this time: well under the hold's time-out, on a busy host too."""
BATCH_WORK_US = 25_000.0
"""Several batches a run, at several clocks, are what the clock sensitivity is estimated from."""
MOST_TRIALS_WITH_SETUP = 8
"""The arguments of a whole batch exist at once."""
FLOOR_TRIALS = 10
FLOOR_MARGIN_US = 0.5
"""The shortest kernel reads a microsecond and more above an empty pair of events."""


class EventsTimer:
    """Per trial: flush, clock meter, event, call, event. One synchronisation a batch."""

    kind = "events"

    def __init__(self, rig: Rig, cache: str) -> None:
        self.cache = cache
        self.floor_us = 0.0
        self._rig = rig
        self._queued = True
        self._limit = 1
        self._growing = True
        self._retried = False
        self._queueing_us = 0.0
        self._floor_most_us = 0.0

    def describe(self) -> str:
        """Name everything that shapes the figure: the hold, the flush, the clock meter."""
        hold = self._rig.hold.name if self._queued else "unqueued"
        flush = self._rig.flush.name if self.cache == "cold" else "no flush"
        return ", ".join(part for part in (self.kind, hold, flush, self._rig.meter.name) if part)

    @property
    def queued(self) -> bool:
        """Whether the device can be held while calls are queued."""
        return self._queued

    def prepare(self, target: Target) -> None:
        """Call twice, synchronised, read the floor, and see whether a call can be queued while the device is held."""
        for _ in range(2):
            call = target.bind()
            with self._rig.current():
                call()
                self._rig.synchronize()
        with self._rig.current():
            floor = self._take([_nothing] * FLOOR_TRIALS)
        if floor is not None:
            self.floor_us, self._floor_most_us = median(floor.times_us), max(floor.times_us)
        self.batch(target, 1)

    def batch(self, target: Target, trials: int) -> Batch:
        """Time up to `trials` calls. A batch during which the hold ended early is thrown away and made smaller."""
        most = MOST_TRIALS if target.setup is None else MOST_TRIALS_WITH_SETUP
        while True:
            count = min(trials, self._limit, most)
            calls = [target.bind() for _ in range(count)]
            with self._rig.current():
                batch = self._take(calls)
            if batch is not None:
                self._fit(batch, count)
                return batch
            self._shrink(count)

    def at_floor(self, batch: Batch) -> bool:
        """Whether a batch's calls may have given the device nothing to do; unqueued ones cannot tell."""
        return not self._queued or min(batch.times_us) <= self._floor_most_us + FLOOR_MARGIN_US

    def _take(self, calls: Sequence[Callable[[], Any]]) -> Batch | None:
        """Queue the calls and wait for them; None where the device had not been held until all were queued."""
        rig = self._rig
        start_ns = time.perf_counter_ns()
        host_us = self._queue(calls)
        self._queueing_us = (time.perf_counter_ns() - start_ns) / 1e3 / len(calls)
        rig.meter.queue_reading(rig.stream_handle())
        rig.synchronize()
        if self._queued and rig.hold.overran():
            return None
        pairs = rig.events[: len(calls)]
        return Batch(
            times_us=tuple(before.elapsed_time(after) * 1e3 for before, after in pairs),
            host_us=host_us,
            clocks_ghz=rig.meter.clocks_ghz(len(calls)),
            work_us=rig.origin.elapsed_time(pairs[-1][1]) * 1e3,
            unqueued=not self._queued,
            notes=rig.notes if self._queued else (*rig.notes, UNQUEUED_NOTE),
        )

    def _queue(self, calls: Sequence[Callable[[], Any]]) -> tuple[float, ...]:
        """Hold, queue, release; return what each call took the host."""
        rig = self._rig
        stream = rig.stream_handle()
        if self._queued:
            rig.hold.begin(stream, self._queueing_us * len(calls))
        rig.origin.record()
        try:
            # A list: a generator would turn a StopIteration of a call into an error of ours.
            return tuple([self._trial(slot, call, stream) for slot, call in enumerate(calls)])
        finally:
            if self._queued:
                rig.hold.release()

    def _trial(self, slot: int, call: Callable[[], Any], stream: int) -> float:
        rig = self._rig
        before, after = rig.events[slot]
        if self.cache == "cold":
            rig.flush.start()
        rig.meter.start(slot, stream)
        before.record()
        start_ns = time.perf_counter_ns()
        call()
        host_ns = time.perf_counter_ns() - start_ns
        after.record()
        return host_ns / 1e3

    def _fit(self, batch: Batch, count: int) -> None:
        """Let batches grow while they can still be queued in time and do not outlast the device readings."""
        in_time = QUEUEING_US / self._queueing_us if self._queued else MOST_TRIALS
        in_reach = BATCH_WORK_US * count / max(batch.work_us, 1.0)
        wanted = max(self._limit, 2 * count) if self._growing else self._limit
        self._limit = max(1, min(wanted, int(in_time), int(in_reach), MOST_TRIALS))

    def _shrink(self, count: int) -> None:
        """Halve the batch; a single call that cannot be queued twice running is timed unqueued from then on."""
        self._limit = max(1, count // 2)
        self._queued = count > 1 or not self._retried
        self._growing = not self._queued
        self._retried = self._retried or count == 1


def _nothing() -> None:
    """Stand in for a callable, to read what events read around nothing."""
