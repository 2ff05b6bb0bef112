"""The sum of a call's kernels, copies and memsets as the profiler times them: no launch, no gap, no event is in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.device_profile import DeviceSpan, profiled
from pytest_gpuperf.measure.errors import MeasureError, TimerUnavailableError
from pytest_gpuperf.measure.timers.eager import eager_host_us
from pytest_gpuperf.measure.timers.events import BATCH_WORK_US, MOST_TRIALS_WITH_SETUP
from pytest_gpuperf.measure.timers.rig import MOST_TRIALS, Rig

MOST_SPANS = 20_000
"""Of a batch: the profiler keeps all of them, and its buffers are bounded."""
ATTEMPTS = 3


class KernelTimer:
    """Per trial: flush, clock meter, call; a batch of them in one session of the profiler.

    The meter's kernel marks where a call begins. What is launched after it belongs to the call, on whatever stream, but
    for the next trial's flush.
    """

    kind = "kernel"

    def __init__(self, rig: Rig, cache: str) -> None:
        self.cache = cache
        self.floor_us = 0.0
        self._rig = rig
        self._limit = 1
        self._flush_spans = 0
        self._spans_a_call = 1

    def describe(self) -> str:
        """Name everything that shapes the figure: the profiler, the flush, the clock meter."""
        flush = self._rig.flush.name if self.cache == "cold" else "no flush"
        return f"{self.kind}, profiled, {flush}, {self._rig.meter.name}"

    def prepare(self, target: Target) -> None:
        """Start the profiler for the first time, learn what a flush looks like in it, and size the batches."""
        rig = self._rig
        if not rig.meter.kernel:
            raise TimerUnavailableError(
                "timer `kernel` needs a kernel to mark where calls begin, which this device refused: "
                "use timer=events (--gpuperf-timer)"
            )
        if rig.torch._C._autograd._profiler_enabled():
            raise MeasureError("timer `kernel` needs torch's profiler, which is already recording: end that first")
        with rig.current():
            rig.synchronize()
            # The first session of a process starts the profiler, and is not relied on.
            self._flush_spans = [len(profiled(rig.torch, rig.flush.start, rig.index)) for _ in range(2)][-1]
        if not self._flush_spans:
            raise MeasureError(
                "timer `kernel`: torch's profiler does not see what this device does (CUPTI may be refused to this "
                "user, or taken by another tool): use timer=events (--gpuperf-timer=events)"
            )
        first = target.bind()
        with rig.current():
            first()
            rig.synchronize()
        self._limit = 2
        batch = self.batch(target, 2)
        in_reach = BATCH_WORK_US * len(batch.times_us) / max(batch.work_us, 1.0)
        self._limit = max(1, min(MOST_TRIALS, int(in_reach), MOST_SPANS // max(1, self._spans_a_call)))

    @property
    def _between_spans(self) -> int:
        """How many spans lie between a call and the next one's marker."""
        return self._flush_spans if self.cache == "cold" else 0

    def batch(self, target: Target, trials: int) -> Batch:
        """Time up to `trials` calls in one session of the profiler, which is repeated where it lost records."""
        most = MOST_TRIALS if target.setup is None else MOST_TRIALS_WITH_SETUP
        count = min(trials, self._limit, most)
        host_us = eager_host_us(self._rig, target)
        for _ in range(ATTEMPTS):
            calls = [target.bind() for _ in range(count)]
            start_ns = time.perf_counter_ns()
            with self._rig.current():
                spans = profiled(self._rig.torch, partial(self._trials, calls), self._rig.index)
                work_us = (time.perf_counter_ns() - start_ns) / 1e3
                clocks_ghz = self._clocks_ghz(count)
            times_us = call_times_us(spans, self._rig.meter.kernel, count, self._between_spans)
            if times_us is not None:
                self._spans_a_call = len(spans) // count
                return Batch(
                    times_us=times_us,
                    host_us=(host_us,) * count,
                    clocks_ghz=clocks_ghz,
                    work_us=work_us,
                    notes=self._rig.notes,
                )
        raise MeasureError(
            f"timer `kernel`: torch's profiler did not record all of {count} calls, {ATTEMPTS} times in a row: "
            "is another profiler attached? Use timer=events (--gpuperf-timer=events)"
        )

    def _trials(self, calls: Sequence[Callable[[], Any]]) -> None:
        rig = self._rig
        stream = rig.stream_handle()
        for slot, call in enumerate(calls):
            if self.cache == "cold":
                rig.flush.start()
            rig.meter.start(slot, stream)
            call()

    def _clocks_ghz(self, count: int) -> tuple[float, ...]:
        self._rig.meter.queue_reading(self._rig.stream_handle())
        self._rig.synchronize()
        return self._rig.meter.clocks_ghz(count)


def call_times_us(spans: Sequence[DeviceSpan], marker: str, calls: int, between_spans: int) -> tuple[float, ...] | None:
    """Return the time on the device of each call; None where not every call's marker was recorded.

    A call's spans are those launched after its marker and before the next one, less the last `between_spans` of them,
    which prepare the next call. In the order of launches, not of starts: other streams have an order of their own.
    """
    ordered = in_launch_order(spans, marker)
    places = [place for place, span in enumerate(ordered) if span.name == marker]
    if len(places) != calls:
        return None
    ends = [place - between_spans for place in places[1:]] + [len(ordered)]
    if any(end <= place for place, end in zip(places, ends, strict=True)):
        return None
    return tuple(
        sum(span.duration_us for span in ordered[place + 1 : end]) for place, end in zip(places, ends, strict=True)
    )


def in_launch_order(spans: Sequence[DeviceSpan], marker: str) -> list[DeviceSpan]:
    """Return the spans in the order of their launches; of their starts, where launches are not numbered in order.

    The markers tell: they run one after another on one stream.
    """
    by_start = sorted(spans, key=lambda span: span.start_us)
    launches = [span.launch for span in by_start if span.name == marker]
    if any(before >= after for before, after in pairwise(launches)):
        return by_start
    return sorted(by_start, key=lambda span: span.launch)
