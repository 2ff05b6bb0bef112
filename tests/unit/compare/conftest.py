"""Simulated suites: benchmarks whose truth is known, with every kind of noise that timing has shown us."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_gpuperf.measure.samples import RunRecord, Trials
from pytest_gpuperf.measure.summary import summarise

BATCH_TRIALS = 10


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """How one benchmark's trials come about. Spreads are standard deviations of log time."""

    time_us: float
    between_runs: float
    within_run: float
    autocorrelation: float
    spike_share: float
    spike_factor: float
    second_mode: float
    """How much slower the second mode is (log); 0 for one mode."""
    disturbed_share: float
    """Of the runs, that are slower as a whole by up to 30 %."""
    sensitivity: float
    clocked: bool
    trials: int = 40


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """A seeded source of benchmarks and of their runs."""

    generator: Any
    clock_range: tuple[float, float] = (1.55, 1.98)
    reference_ghz: float = 1.8
    session_ghz: dict[str, float] = field(default_factory=dict)

    def benchmark(self) -> Benchmark:
        """Draw a benchmark: from steady to noisy, with or without spikes, modes and a clock."""
        g = self.generator
        return Benchmark(
            time_us=float(math.exp(g.uniform(math.log(2), math.log(5000)))),
            between_runs=float(math.exp(g.uniform(math.log(0.003), math.log(0.05)))),
            within_run=float(g.uniform(0.002, 0.05)),
            autocorrelation=float(g.choice([0.0, 0.5, 0.95])),
            spike_share=float(g.choice([0.0, 0.02, 0.1])),
            spike_factor=float(g.choice([3.0, 100.0])),
            second_mode=float(g.choice([0.0, 0.0, 0.1])),
            disturbed_share=float(g.choice([0.0, 0.0, 0.05])),
            sensitivity=float(g.uniform(0, 1)),
            clocked=bool(g.random() < 0.8),
        )

    def run(self, benchmark: Benchmark, session: str, shift: float = 0.0) -> RunRecord:
        """Measure one run in a session; `shift` is a log slowdown."""
        clocks = self._clocks(benchmark, session)
        logs = math.log(benchmark.time_us) + shift + self._noise(benchmark)
        if benchmark.clocked:
            logs = logs - benchmark.sensitivity * (clocks - math.log(self.reference_ghz))
        import numpy as np

        metered = np.exp(clocks + self.generator.normal(0, 0.001, benchmark.trials))
        trials = Trials(
            times_us=tuple(np.exp(logs).tolist()),
            batch_indices=tuple(i // BATCH_TRIALS for i in range(benchmark.trials)),
            clocks_ghz=tuple(metered.tolist()) if benchmark.clocked else (),
        )
        return summarise(trials, session=session)

    def _clocks(self, benchmark: Benchmark, session: str) -> Any:
        """Log clocks of the trials: a level per session and run, and steps between batches."""
        import numpy as np

        g = self.generator
        level = self.session_ghz.setdefault(session, float(g.uniform(*self.clock_range)))
        batches = math.ceil(benchmark.trials / BATCH_TRIALS)
        steps = np.repeat(g.normal(0, 0.02, batches), BATCH_TRIALS)[: benchmark.trials]
        clocks = np.log(level) + g.normal(0, 0.03) + steps
        return np.clip(clocks, *np.log(self.clock_range))

    def _noise(self, benchmark: Benchmark) -> Any:
        g, n = self.generator, benchmark.trials
        noise = g.normal(0, benchmark.between_runs) + self._autoregressive(benchmark)
        noise += (g.random() < benchmark.disturbed_share) * g.uniform(0, 0.3)
        noise += (g.random(n) < benchmark.spike_share) * math.log(benchmark.spike_factor)
        return noise + (g.random(n) < 0.4) * benchmark.second_mode

    def _autoregressive(self, benchmark: Benchmark) -> Any:
        import numpy as np

        rho, g = benchmark.autocorrelation, self.generator
        values = np.empty(benchmark.trials)
        values[0] = g.normal()
        shocks = g.normal(0, math.sqrt(1 - rho * rho), benchmark.trials)
        for i in range(1, benchmark.trials):
            values[i] = rho * values[i - 1] + shocks[i]
        return values * benchmark.within_run


def _record(log_time: float, **fields: Any) -> RunRecord:
    time_us = math.exp(min(log_time, 600.0))
    known = {"mean_us": time_us, "sd_us": 0.0, "min_us": time_us, "p5_us": time_us, "p95_us": time_us}
    return RunRecord(trials=100, log_median=log_time, half_width_us=0.0, **{**known, **fields})


@pytest.fixture(scope="session")
def record() -> Callable[..., RunRecord]:
    """Return a function that makes the record of a run with this log time."""
    return _record


@pytest.fixture(scope="session")
def runs() -> Callable[..., list[RunRecord]]:
    """Return a function that makes a record for each log time; fields are shared by all."""

    def make(log_times: Iterable[float], **fields: Any) -> list[RunRecord]:
        return [_record(float(x), **fields) for x in log_times]

    return make


@pytest.fixture(scope="session")
def clocked() -> Callable[..., RunRecord]:
    """Return a function that makes a run whose batches took this log time at 1 GHz, at the given clocks."""

    def make(log_time: float, clocks_ghz: Iterable[float], sensitivity: float = 1.0, **fields: Any) -> RunRecord:
        logs = [math.log(clock) for clock in clocks_ghz]
        times = [log_time - sensitivity * f for f in logs]
        mean_f = math.fsum(logs) / len(logs)
        located = [math.fsum(times) / len(times) + b * mean_f for b in (0.0, 0.25, 0.5, 0.75, 1.0)]
        batches = tuple(zip(times, logs, strict=True))
        return _record(
            sorted(times)[len(times) // 2],
            batches=batches,
            clock_ghz=math.exp(mean_f),
            locations=tuple(located),
            **fields,
        )

    return make


@pytest.fixture
def simulator() -> Callable[[int], Simulator]:
    """Return a function that makes a seeded simulator."""

    def make(seed: int) -> Simulator:
        import numpy as np

        return Simulator(generator=np.random.default_rng(seed))

    return make
