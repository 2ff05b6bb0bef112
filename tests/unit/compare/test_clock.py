"""The clock adjustment: the sensitivity, its uncertainty, and what it does to a run's value."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pytest_gpuperf.compare.clock import (
    EXTRAPOLATION_ERROR,
    LARGEST_SENSITIVITY,
    PRIOR_SENSITIVITY,
    PRIOR_STANDARD_ERROR,
    adjusted,
    clock_model,
    clock_points,
    raw,
)
from pytest_gpuperf.compare.values import adjusted_arms, run_values

WANDERING = [[1.6, 1.7, 1.9], [1.98, 1.8, 1.7], [1.55, 1.6, 1.65], [1.9, 1.95, 1.85], [1.7, 1.75, 1.6]]


def points_of(baseline: list) -> list:
    return [clock_points(run) for run in baseline]


@pytest.mark.parametrize("sensitivity", [0.0, 0.3, 0.7, 1.0, 1.15])
def test_the_sensitivity_is_minus_the_slope(clocked: Callable, sensitivity: float) -> None:
    model = clock_model(points_of([clocked(5.0, clocks, sensitivity) for clocks in WANDERING]))
    assert model is not None
    assert model.sensitivity == pytest.approx(sensitivity, abs=1e-6)
    assert model.standard_error == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("apparent", "used"), [(-0.8, 0.0), (1.7, LARGEST_SENSITIVITY)])
def test_it_is_clipped_to_what_a_clock_can_do(clocked: Callable, apparent: float, used: float) -> None:
    model = clock_model(points_of([clocked(5.0, clocks, apparent) for clocks in WANDERING]))
    assert model is not None
    assert model.sensitivity == used


def test_adjusted_values_of_unchanged_code_agree_at_any_clock(clocked: Callable) -> None:
    values = run_values([clocked(5.0, clocks, 0.7) for clocks in WANDERING])
    assert max(values) - min(values) < 1e-6
    assert values[0] == pytest.approx(5.0 - 0.7 * np.mean([np.log(c).mean() for c in WANDERING]))


def test_a_clock_that_never_moved_leaves_the_sensitivity_open(clocked: Callable) -> None:
    model = clock_model(points_of([clocked(5.0, [1.8, 1.8, 1.8]) for _ in range(10)]))
    assert model is not None
    assert (model.sensitivity, model.standard_error) == (PRIOR_SENSITIVITY, pytest.approx(PRIOR_STANDARD_ERROR))


@pytest.mark.parametrize("slower", [0.2, 4.6])
def test_a_disturbed_run_does_not_tilt_the_slope(clocked: Callable, slower: float) -> None:
    baseline = [clocked(5.0, clocks, 0.3) for clocks in WANDERING * 2]
    model = clock_model(points_of([*baseline[:-1], clocked(5.0 + slower, [1.5, 1.52, 1.55], 0.3)]))
    assert model is not None
    assert model.sensitivity == pytest.approx(0.3, abs=1e-3)
    assert model.standard_error < 1e-3


def test_noise_widens_the_error_honestly(clocked: Callable) -> None:
    generator = np.random.default_rng(2)
    estimates, errors = [], []
    for _ in range(300):
        clocks = 1.8 * np.exp(generator.normal(0, 0.02, (10, 1)) + generator.normal(0, 0.02, (10, 4)))
        baseline = [clocked(5.0 + generator.normal(0, 0.015), row, 0.6) for row in clocks]
        model = clock_model(points_of(baseline))
        assert model is not None
        estimates.append(model.sensitivity)
        errors.append(model.standard_error)
    assert np.mean(estimates) == pytest.approx(0.6, abs=0.03)
    assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.35)


def test_one_run_without_a_clock_means_no_adjustment(clocked: Callable, record: Callable) -> None:
    baseline = [*[clocked(5.0, clocks) for clocks in WANDERING], record(4.5)]
    assert clock_model(points_of(baseline)) is None
    arms = adjusted_arms(baseline, [clocked(5.0, [1.5])])
    assert arms.sensitivity is None
    assert arms.baseline == [raw(run) for run in baseline]


def test_the_uncertainty_counts_as_far_as_the_clock_moved(clocked: Callable) -> None:
    baseline = [clocked(5.0, [1.8, 1.8, 1.8], 0.7) for _ in range(10)]
    near, far = (adjusted_arms(baseline, [clocked(5.0, [1.8 * f] * 3, 0.7)]) for f in (1.0, 0.8))
    assert near.clock_variance == 0.0
    expected = (PRIOR_STANDARD_ERROR**2 + EXTRAPOLATION_ERROR**2) * math.log(0.8) ** 2
    assert far.clock_variance == pytest.approx(expected)


def test_the_line_is_trusted_as_far_as_the_baseline_has_been(clocked: Callable) -> None:
    baseline = [clocked(5.0, clocks, 0.7) for clocks in WANDERING]
    centres = [np.log(c).mean() for c in WANDERING]
    reference, reach = np.mean(centres), np.std(centres, ddof=1)
    near, far = (adjusted_arms(baseline, [clocked(5.0, [math.exp(reference - f)], 0.7)]) for f in (reach, 0.2))
    assert near.clock_variance == pytest.approx(0.0, abs=1e-12)
    assert far.clock_variance == pytest.approx((EXTRAPOLATION_ERROR * (0.2 - reach)) ** 2)


def test_a_run_that_keeps_no_trials_clock_is_adjusted_by_its_mean(record: Callable) -> None:
    baseline = [record(5.0 - math.log(clock), clock_ghz=clock) for clock in (1.5, 1.6, 1.7, 1.8, 1.9)]
    model = clock_model(points_of(baseline))
    assert model is not None
    assert model.sensitivity == pytest.approx(1.0, abs=0.01)
    assert adjusted(baseline[0], model) == pytest.approx(adjusted(baseline[-1], model), abs=0.01)
