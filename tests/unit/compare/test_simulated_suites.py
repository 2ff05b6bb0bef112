"""Whole sessions of simulated suites: unchanged ones do not fail, and a doubled time never passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.moderation import Prior, suite_prior
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.shift import Comparison, settle
from pytest_gpuperf.compare.verdict import Policy

DOUBLED = 3


@dataclass
class Suite:
    """Benchmarks with a stored baseline, gated in one session after the other."""

    simulator: Any
    benchmarks: list[Any]
    baselines: list[list[Any]]
    prior: Prior | None

    @classmethod
    def stored(cls, simulator: Any, size: int) -> Suite:
        benchmarks = [simulator.benchmark() for _ in range(size)]
        baselines = [[simulator.run(b, "baseline") for _ in range(10)] for b in benchmarks]
        return cls(simulator, benchmarks, baselines, suite_prior(baselines))

    def gate(self, session: str, doubled: set[int]) -> dict[int, str]:
        """Run one session, as the plugin does: screen, confirm, take the shift out, decide."""
        policy = Policy(gated=len(self.benchmarks))
        shift = float(self.simulator.generator.uniform(-0.01, 0.01))
        comparisons = {}
        for i, (benchmark, baseline) in enumerate(zip(self.benchmarks, self.baselines, strict=True)):
            slower = shift + (math.log(2) if i in doubled else 0.0)
            runs = [self.simulator.run(benchmark, session, slower)]
            if screen(baseline, runs[0], policy, self.prior).advances:
                runs += [self.simulator.run(benchmark, session, slower) for _ in range(policy.confirm_runs)]
            comparisons[i] = Comparison(baseline=baseline, runs=runs, policy=policy)
        return {i: decision.verdict for i, decision in settle(comparisons, self.prior).decisions.items()}


@pytest.mark.parametrize(
    ("suites", "sessions", "size", "may_fail"),
    [(1, 4, 60, 0), pytest.param(30, 10, 200, 3, marks=pytest.mark.slow)],
)
def test_sessions_of_unchanged_code_pass_and_doubled_times_fail(
    simulator: Callable, suites: int, sessions: int, size: int, may_fail: int
) -> None:
    failed, passed_doubled = [], []
    for seed in range(suites):
        suite = Suite.stored(simulator(seed), size)
        for number in range(sessions):
            doubled = set(suite.simulator.generator.choice(size, DOUBLED, replace=False).tolist())
            regressed = {i for i, verdict in suite.gate(f"s{number}", doubled).items() if verdict == "regressed"}
            failed += [(seed, number)] if regressed - doubled else []
            passed_doubled += [suite.benchmarks[i] for i in doubled - regressed]
    assert len(failed) <= may_fail, failed
    assert not passed_doubled


@pytest.mark.parametrize(("sessions", "at_most"), [(3, 0.02), (5, 0.02), (10, 0.02)])
def test_a_baseline_of_several_sessions_knows_that_they_differ(runs: Callable, sessions: int, at_most: float) -> None:
    generator, failed, failed_alone = np.random.default_rng(sessions), 0, 0
    for _ in range(150):
        levels = generator.normal(0, 0.01, sessions + 1)
        days = [runs(generator.normal(levels[i], 0.003, 10), session=f"day {i}") for i in range(sessions)]
        new = runs(generator.normal(levels[-1], 0.003, 8), session="today")
        failed += decide([run for day in days for run in day], new, Policy(), None).verdict == "regressed"
        failed_alone += decide(days[0], new, Policy(), None).verdict == "regressed"
    assert failed / 150 <= at_most
    assert failed_alone / 150 > 0.05, "what a single session cannot know"


@pytest.mark.parametrize("sessions", [6, 20])
def test_a_baseline_of_one_run_a_session_knows_that_they_differ(runs: Callable, sessions: int) -> None:
    generator, failed, missed = np.random.default_rng(sessions), 0, 0
    for _ in range(400):
        levels = generator.normal(0, 0.03, sessions + 1)
        days = [run for i in range(sessions) for run in runs([generator.normal(levels[i], 0.003)], session=f"day {i}")]
        new = runs(generator.normal(levels[-1], 0.003, 8), session="today")
        failed += decide(days, new, Policy(), None).verdict == "regressed"
        same = [run for i in range(sessions) for run in runs([generator.normal(0, 0.003)], session=f"day {i}")]
        slower = runs(generator.normal(0.05, 0.003, 8), session="today")
        missed += decide(same, slower, Policy(), None).verdict != "regressed"
    assert failed <= 2
    assert missed <= 20, "sessions that do not differ cost next to nothing"
