"""The values that are tested: one a run, adjusted to the baseline's clock where it was metered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.compare.clock import adjusted, clock_model, clock_points, mean_log_clock, raw
from pytest_gpuperf.compare.numbers import mean
from pytest_gpuperf.measure.samples import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Both sides' log times, one a run, and what is known of their error besides their scatter."""

    baseline: list[float]
    new: list[float]
    baseline_sessions: list[str]
    new_sessions: list[str]
    clock_variance: float = 0.0
    """Of the difference of the means, from the uncertainty of the clock sensitivity."""
    sensitivity: float | None = None
    """The clock sensitivity; None where the values are as measured."""
    tick_variance: float = 0.0
    """Of one run's log time, from the timer's resolution."""


def run_values(runs: Sequence[RunRecord]) -> list[float]:
    """Return the values of a baseline's runs."""
    points = [clock_points(run) for run in runs]
    model = clock_model(points)
    return [raw(run) if model is None else adjusted(run, model) for run in runs]


def adjusted_arms(
    baseline: Sequence[RunRecord], runs: Sequence[RunRecord], shift: float = 0.0, clock_error: float = 0.0
) -> Arms:
    """Return both sides' clock-adjusted values; raw ones where any run's clock was not metered.

    `shift` is taken out of the new runs' log times; `clock_error` is the least standard error of the sensitivity.
    """
    old, new = [clock_points(run) for run in baseline], [clock_points(run) for run in runs]
    model = clock_model(old)
    if model is None or not all(new):
        return raw_arms(baseline, runs, shift)
    return Arms(
        baseline=[adjusted(run, model) for run in baseline],
        new=[adjusted(run, model) - shift for run in runs],
        baseline_sessions=[run.session for run in baseline],
        new_sessions=[run.session for run in runs],
        clock_variance=model.variance_at(mean([mean_log_clock(points) for points in new]), clock_error),
        sensitivity=model.sensitivity,
        tick_variance=_tick_variance(baseline),
    )


def raw_arms(baseline: Sequence[RunRecord], runs: Sequence[RunRecord], shift: float = 0.0) -> Arms:
    """Return both sides' log times as they were measured, the new ones without `shift`."""
    return Arms(
        baseline=[raw(run) for run in baseline],
        new=[raw(run) - shift for run in runs],
        baseline_sessions=[run.session for run in baseline],
        new_sessions=[run.session for run in runs],
        tick_variance=_tick_variance(baseline),
    )


def _tick_variance(runs: Sequence[RunRecord]) -> float:
    """Return the variance of a uniform error one tick wide, relative to the time: what rounding alone can hide."""
    ticks = [min(1.0, run.resolution_us * math.exp(-raw(run))) for run in runs]
    return mean(ticks) ** 2 / 12
