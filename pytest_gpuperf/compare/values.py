"""The values that are tested: one a run, adjusted to the baseline's clock where it was metered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.compare.clock import ClockModel, adjusted, clock_model, log_clock
from pytest_gpuperf.compare.numbers import bounded_log, mean
from pytest_gpuperf.measure.samples import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Both sides' log times, one a run, and the variance that the clock adjustment adds to their difference."""

    baseline: list[float]
    new: list[float]
    baseline_sessions: list[str]
    new_sessions: list[str]
    clock_variance: float = 0.0
    sensitivity: float | None = None
    tick_variance: float = 0.0
    """Of one run's log time, from the timer's resolution."""


def run_values(runs: Sequence[RunRecord]) -> list[float]:
    """Return the values of a baseline's runs."""
    return _values(runs, clock_model(runs))


def adjusted_arms(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> Arms:
    """Return both sides' clock-adjusted values; raw ones where any run's clock was not metered."""
    model = clock_model(baseline)
    clocks = [log_clock(run) for run in runs]
    metered = [clock for clock in clocks if clock is not None]
    if model is None or len(metered) < len(clocks) or not metered:
        return raw_arms(baseline, runs)
    moved = mean(metered) - model.reference_log_ghz
    return Arms(
        baseline=_values(baseline, model),
        new=_values(runs, model),
        baseline_sessions=[run.session for run in baseline],
        new_sessions=[run.session for run in runs],
        clock_variance=(model.standard_error * moved) ** 2,
        sensitivity=model.sensitivity,
        tick_variance=_tick_variance(baseline),
    )


def raw_arms(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> Arms:
    """Return both sides' log times as they were measured."""
    return Arms(
        baseline=_values(baseline, None),
        new=_values(runs, None),
        baseline_sessions=[run.session for run in baseline],
        new_sessions=[run.session for run in runs],
        tick_variance=_tick_variance(baseline),
    )


def _values(runs: Sequence[RunRecord], model: ClockModel | None) -> list[float]:
    if model is None:
        return [bounded_log(run.log_median) for run in runs]
    return [adjusted(run, model) for run in runs]


def _tick_variance(runs: Sequence[RunRecord]) -> float:
    """Return the variance of a uniform error one tick wide, relative to the time: what rounding alone can hide."""
    from math import exp

    ticks = [min(1.0, run.resolution_us / exp(bounded_log(run.log_median))) for run in runs if run.resolution_us > 0]
    return mean(ticks) ** 2 / 12 if ticks else 0.0
