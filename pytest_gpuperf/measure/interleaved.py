"""Measure several callables in turn: rounds of one batch each, in random order, so that drift hits all alike."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import Any

from pytest_gpuperf.measure.backends.base import Backend, Timer
from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.garbage import collect_young_garbage, collection_paused
from pytest_gpuperf.measure.host_clock import check_clock_runs
from pytest_gpuperf.measure.measure import failures_noted, measurement_of, prepare
from pytest_gpuperf.measure.measurement import Measurement
from pytest_gpuperf.measure.plan import Plan
from pytest_gpuperf.measure.sampling import MOST_RETRIES, READ_EVERY_US, UNSTABLE_NOTE, Sampling
from pytest_gpuperf.measure.stopping import MOST_TRIALS, Stopping, precise_log_mean
from pytest_gpuperf.measure.warmup import warm_up

LEAST_ROUNDS = 12
"""Fewer would leave the spread of the rounds itself unknown: Student's t at 11 degrees of freedom is 2.2."""
TRIALS_A_ROUND = 10
"""Enough for a median that one disturbed trial does not move, and few enough for rounds to follow each other fast."""

AUTO_KINDS = ("graph", "events")
"""What `auto` chooses between, the finer one first; events can time whatever can be timed."""

Contender = tuple[Callable[..., Any], Plan]
LogTimes = dict[int, float]
"""Log of the median trial in microseconds, by the number of the round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """The measurements of all contenders, in the order given, and their rounds."""

    measurements: tuple[Measurement, ...]
    log_times: tuple[LogTimes, ...]


@dataclass(slots=True)
class _Lane:
    """One contender while it is measured."""

    plan: Plan
    timer: Timer
    target: Target
    stopping: Stopping
    batches: dict[int, Batch] = field(default_factory=dict)
    """By the number of the round."""

    def wanted(self, elapsed_us: float) -> int:
        """Return how many more trials this contender needs for itself."""
        times = [time for batch in self.batches.values() for time in batch.times_us]
        pairs = [zip(batch.times_us, batch.clocks_ghz, strict=False) for batch in self.batches.values()]
        cycles = [time * clock for batch in pairs for time, clock in batch]
        return self.stopping.wanted(times, cycles, elapsed_us)

    def trials_a_round(self) -> int:
        """Return how many trials to ask for; of a small fixed number, as few as make enough rounds."""
        fixed = self.plan.settings.trials
        if fixed is None:
            return TRIALS_A_ROUND
        left = fixed - sum(len(batch.times_us) for batch in self.batches.values())
        return min(left, TRIALS_A_ROUND, max(1, fixed // LEAST_ROUNDS))

    def log_times(self) -> LogTimes:
        """Return the log of each round's median trial."""
        medians = {number: median(batch.times_us) for number, batch in self.batches.items()}
        return {number: math.log(time_us) for number, time_us in medians.items() if time_us > 0.0}


def measure_interleaved(contenders: Sequence[Contender], backend: Backend, *, seed: int | None = None) -> Interleaved:
    """Measure the contenders in turn; each is called as `call()`, or with what its plan's `setup` returns.

    All are timed with one kind of timer: times of different ones cannot be compared. Each is warmed up by itself before
    the first round; `max_time` is meant for each. `seed` fixes the order of the rounds.

    Raises a `MeasureError` where no honest figure can be given; whatever a contender raises goes through as it is.
    """
    backend.check_usable()
    check_clock_runs()
    backend.release_memory()
    lanes = _lanes(contenders, backend)
    with collection_paused():
        for lane in lanes:
            with failures_noted(lane.plan, backend), lane.plan.annotate(f"prepare {lane.plan.benchmark.label}"):
                prepare(lane.timer, lane.target, backend)
        _agree([lane for lane in lanes if lane.plan.timer is None], backend)
        for lane in lanes:
            with failures_noted(lane.plan, backend), lane.plan.annotate(f"warm up {lane.plan.benchmark.label}"):
                warm_up(lane.timer, lane.target, lane.plan.settings.warmup, backend.warmup, backend.now_us)
        rounds = _Rounds(lanes, backend, random.Random(seed))
        with lanes[0].plan.annotate("interleaved trials"):
            rounds.run()
        peaks_bytes = [_peak_memory_bytes(lane, backend) for lane in lanes]
    samplings = [rounds.sampling(lane) for lane in lanes]
    return Interleaved(
        measurements=tuple(
            measurement_of(sampling, lane.timer, lane.plan, peak_bytes)
            for sampling, lane, peak_bytes in zip(samplings, lanes, peaks_bytes, strict=True)
        ),
        log_times=tuple(lane.log_times() for lane in lanes),
    )


def _lanes(contenders: Sequence[Contender], backend: Backend) -> list[_Lane]:
    lanes: list[_Lane] = []
    for call, plan in contenders:
        timer = plan.timer if plan.timer is not None else backend.timer(plan.settings, plan.preferred_timer)
        lanes.append(_Lane(plan, timer, Target(call, plan.setup), Stopping(plan.settings, backend.least_timed_us)))
    return lanes


def _agree(lanes: Sequence[_Lane], backend: Backend) -> None:
    """Give all the same kind of timer where `auto` chose differently for them: the finest that can time all alike."""
    for kind in [*(kind for kind in AUTO_KINDS if any(lane.timer.kind == kind for lane in lanes)), AUTO_KINDS[-1]]:
        if len({lane.timer.describe() for lane in lanes}) == 1 or not any(
            lane.timer.kind in AUTO_KINDS for lane in lanes
        ):
            return
        for lane in [lane for lane in lanes if lane.timer.kind != kind]:
            lane.timer = backend.timer(lane.plan.settings, kind)
            with failures_noted(lane.plan, backend):
                prepare(lane.timer, lane.target, backend)


def _peak_memory_bytes(lane: _Lane, backend: Backend) -> int | None:
    with failures_noted(lane.plan, backend):
        return backend.peak_memory_bytes(lane.target)


class _Rounds:
    """The timed region. Rounds since the last reading of the device are kept or thrown away together."""

    def __init__(self, lanes: Sequence[_Lane], backend: Backend, order: random.Random) -> None:
        self._lanes = lanes
        self._backend = backend
        self._order = order
        self._readings: list[DeviceReading] = []
        self._notes: list[str] = []
        self._retries = 0
        self._unjudged: list[int] = []
        self._last_read_us = 0.0

    def run(self) -> None:
        """Take rounds until every contender and every ratio is known well enough, or out of time."""
        self._read()
        start_us = self._last_read_us
        for number in count():
            share_us = (self._backend.now_us() - start_us) / len(self._lanes)
            wanting = self._wanting(share_us)
            if not wanting and not self._unjudged:
                return
            if wanting:
                self._round(number, wanting)
            if not wanting or self._backend.now_us() - self._last_read_us >= READ_EVERY_US:
                self._judge()

    def sampling(self, lane: _Lane) -> Sampling:
        """Return what was sampled of one contender, as if it had been measured alone."""
        return Sampling(
            lane.timer,
            lane.target,
            self._backend,
            batches=list(lane.batches.values()),
            readings=self._readings,
            notes=self._notes,
        )

    def _wanting(self, share_us: float) -> list[_Lane]:
        """Return who takes part in the next round: all, as long as one contender or ratio needs it.

        Those with a fixed number of trials stop when they have it.
        """
        needy = [lane for lane in self._lanes if lane.wanted(share_us)]
        fixed = [lane for lane in self._lanes if lane.plan.settings.trials is not None]
        if fixed:
            return needy
        return list(self._lanes) if needy or self._ratios_want_more(share_us) else []

    def _ratios_want_more(self, share_us: float) -> bool:
        """Whether the ratios to the first contender are less precise than each mean has to be."""
        first, *others = self._lanes
        if share_us >= first.plan.settings.max_time * 1e6 or len(first.batches) * TRIALS_A_ROUND >= MOST_TRIALS:
            return False
        if len(first.batches) < LEAST_ROUNDS:
            return True
        of_first = first.log_times()
        logs = ([time - of_first[number] for number, time in lane.log_times().items()] for lane in others)
        return not all(precise_log_mean(values, first.plan.settings.min_effect) for values in logs)

    def _round(self, number: int, lanes: Sequence[_Lane]) -> None:
        for lane in self._order.sample(lanes, len(lanes)):
            with failures_noted(lane.plan, self._backend):
                lane.batches[number] = lane.timer.batch(lane.target, lane.trials_a_round())
            collect_young_garbage()
        self._unjudged.append(number)

    def _judge(self) -> None:
        """Keep the rounds since the last reading, unless the device was throttled and they can be retried."""
        throttled = self._read().throttled
        if throttled and self._retries < MOST_RETRIES:
            self._retries += 1
            for lane in self._lanes:
                lane.batches = {n: batch for n, batch in lane.batches.items() if n not in self._unjudged}
        elif throttled:
            self._notes.append(UNSTABLE_NOTE)
        self._unjudged.clear()

    def _read(self) -> DeviceReading:
        reading = self._backend.read_state()
        self._readings.append(reading)
        self._last_read_us = self._backend.now_us()
        return reading
