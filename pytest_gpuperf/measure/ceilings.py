"""What this machine can do at most: copy bandwidth and matmul rates, measured once and kept.

A data sheet's peak is reached by nothing; what a plain copy and the library's own matmul reach is what there is to get.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import msgspec

from pytest_gpuperf.measure.backends.base import Backend, Timer
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.garbage import collection_paused
from pytest_gpuperf.measure.probes import COPY, Probe
from pytest_gpuperf.measure.warmup import WarmupPolicy, warm_up
from pytest_gpuperf.settings import BenchmarkSettings

WARMUP_CALLS = 3
LONGEST_WARMUP_US = 200_000.0
BATCHES = 4
TRIALS_A_BATCH = 10
LONGEST_PROBE_US = 400_000.0


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The best rate that was seen."""

    per_s: float
    """Bytes read and written, or operations, a second."""
    spread: float = 0.0
    """How far the best batch was above the next best of its size, as a share: what another look may add."""
    clock_ghz: float | None = None
    """The clock that it was seen at; None where that was not metered."""


class Ceilings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One machine's ceilings, with what they hold for and what measuring them took."""

    model: str
    driver: str = ""
    by: str
    """The software they were measured with."""
    bandwidth: Ceiling
    matmul: dict[str, Ceiling] = msgspec.field(default_factory=dict)
    """By arithmetic: `bf16`, `fp16`, `tf32`, `fp32`."""
    cache_bytes: int | None = None
    """What the last-level cache holds; None where that is not known."""
    margin: float
    """Above a ceiling by more than this factor, at the same clock, is impossible."""
    clock_margin: float
    """The same where the clock is not known on both sides."""
    seconds: float = 0.0
    """What measuring them took."""

    def best_with(self, other: Ceilings) -> Ceilings:
        """Return the higher one of each ceiling: a disturbed measurement can only be too low."""
        kinds = dict.fromkeys((*self.matmul, *other.matmul))
        return msgspec.structs.replace(
            self,
            bandwidth=_higher(self.bandwidth, other.bandwidth),
            matmul={kind: _higher(self.matmul.get(kind), other.matmul.get(kind)) for kind in kinds},
            seconds=self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """One probe's rates, a batch each, with the clocks of the batches."""

    what: str
    rates: tuple[float, ...]
    clocks_ghz: tuple[float | None, ...]

    def ceiling(self) -> Ceiling:
        best, second = sorted(range(len(self.rates)), key=lambda index: -self.rates[index])[:2]
        return Ceiling(
            per_s=self.rates[best],
            spread=self.rates[best] / self.rates[second] - 1,
            clock_ghz=self.clocks_ghz[best],
        )


def measure_ceilings(backend: Backend) -> Ceilings:
    """Measure the back end's ceilings: each probe is warmed up, then the best of a few batches' medians counts.

    The caller holds the device's lock. Takes a few seconds; raises whatever a probe raises (out of memory, say).
    """
    start_us = backend.now_us()
    machine, probing = backend.machine(), backend.probing()
    backend.release_memory()
    with collection_paused():
        seen = [_look(probe, backend) for probe in probing.probes()]
    backend.release_memory()
    best: dict[str, Ceiling] = {}
    for probe in seen:
        best[probe.what] = _higher(best.get(probe.what), probe.ceiling())
    return Ceilings(
        model=machine.model,
        driver=machine.driver,
        by=probing.by,
        bandwidth=best.pop(COPY),
        matmul=best,
        cache_bytes=probing.cache_bytes,
        margin=probing.limits.margin,
        clock_margin=probing.limits.clock_margin,
        seconds=(backend.now_us() - start_us) / 1e6,
    )


def _look(probe: Probe, backend: Backend) -> _Seen:
    target = Target(probe.call)
    timer = backend.timer(BenchmarkSettings(), "events")
    timer.prepare(target)
    policy = WarmupPolicy(
        least_work_us=min(backend.warmup.least_work_us, LONGEST_WARMUP_US / 3),
        block_work_us=backend.warmup.block_work_us,
        batch_trials=TRIALS_A_BATCH,
        longest_us=LONGEST_WARMUP_US,
        tolerance=backend.warmup.tolerance,
    )
    warm_up(timer, target, WARMUP_CALLS, policy, backend.now_us)
    batches = list(_batches(timer, target, backend))
    return _Seen(
        probe.what,
        tuple(probe.amount / (time_us * 1e-6) for time_us, _ in batches),
        tuple(clock for _, clock in batches),
    )


def _batches(timer: Timer, target: Target, backend: Backend) -> Iterator[tuple[float, float | None]]:
    """Yield (median time, geometric mean clock) of each batch: at least two, as many as the time allows."""
    start_us = backend.now_us()
    for number in range(BATCHES):
        if number > 1 and backend.now_us() - start_us > LONGEST_PROBE_US:
            return
        batch = timer.batch(target, TRIALS_A_BATCH)
        logs = [math.log(clock) for clock in batch.clocks_ghz]
        yield median(batch.times_us), math.exp(sum(logs) / len(logs)) if logs else None


def _higher(one: Ceiling | None, other: Ceiling | None) -> Ceiling:
    known = [ceiling for ceiling in (one, other) if ceiling is not None]
    return max(known, key=lambda ceiling: ceiling.per_s)
