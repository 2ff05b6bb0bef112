from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuperf.compare.scaling import fit_scaling

SIZES = [64, 128, 256, 512, 1024]


def power_law(exponent, sizes=SIZES, factor=3.0):
    return [math.log(factor) + exponent * math.log(size) for size in sizes]


def noisy(source, exponent, sd, sizes=SIZES):
    return [log + source.gauss(0.0, sd) for log in power_law(exponent, sizes)]


@given(
    st.floats(-3.0, 4.0),
    st.floats(1e-3, 1e6),
    st.lists(st.integers(1, 10**7), min_size=2, max_size=9, unique=True),
)
def test_an_exact_power_law_is_found_exactly(exponent, factor, sizes):
    logs = power_law(exponent, sizes, factor)
    fit = fit_scaling(sizes, [logs])
    narrow = math.log(max(sizes) / min(sizes)) < 1e-3
    assert fit.exponent == pytest.approx(exponent, abs=1e-3 if narrow else 1e-6)
    assert fit.low <= fit.exponent <= fit.high
    assert fit.sizes == len(sizes)


def test_one_round_agrees_with_scipys_regression():
    logs = noisy(random.Random(1), 1.3, 0.1)
    fit = fit_scaling(SIZES, [logs])
    theirs = stats.linregress(np.log(SIZES), logs)
    assert fit.exponent == pytest.approx(theirs.slope)
    assert fit.high - fit.exponent == pytest.approx(stats.t.ppf(0.975, 3) * theirs.stderr)


def test_a_curve_widens_the_interval_however_quiet_the_rounds():
    curved = [math.log(50.0 + size) for size in SIZES]
    fit = fit_scaling(SIZES, [curved] * 20)
    assert fit.high - fit.low > 0.1
    assert fit.log_residual_sd > 0.02


def test_noise_widens_the_interval_where_two_sizes_leave_no_residuals():
    source = random.Random(2)
    sizes = [100, 200]
    fit = fit_scaling(sizes, [noisy(source, 1.0, 0.1, sizes) for _ in range(12)])
    assert fit.log_residual_sd == 0.0
    assert 0.05 < fit.high - fit.low < 0.5
    assert fit.low < 1.0 < fit.high


def test_exact_figures_of_two_sizes_make_a_point():
    fit = fit_scaling([100, 200], [power_law(2.0, [100, 200])])
    assert fit.low == fit.high == pytest.approx(2.0)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    source = random.Random(3)
    fits = [fit_scaling(SIZES, [noisy(source, 1.5, 0.05) for _ in range(12)]) for _ in range(300)]
    held = sum(fit.low <= 1.5 <= fit.high for fit in fits)
    assert held / len(fits) >= 0.94


@pytest.mark.parametrize(
    ("sizes", "rounds"), [([5], [[1.0]]), ([5, 5], [[1.0, 2.0]]), ([0, 5], [[1.0, 2.0]]), ([1, 2], [])]
)
def test_what_has_no_exponent_is_refused(sizes, rounds):
    with pytest.raises(ValueError, match="two distinct positive sizes"):
        fit_scaling(sizes, rounds)
