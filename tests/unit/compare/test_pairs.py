from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.compare.pairs import mean_interval, paired_ratio

logs = st.floats(-5.0, 15.0)


def rounds(values):
    return dict(enumerate(values))


def test_drift_that_both_share_cancels():
    drift = [0.1 * number for number in range(12)]
    noise = [0.001 * (-1) ** number for number in range(12)]
    one = rounds([d + n for d, n in zip(drift, noise, strict=True)])
    found = paired_ratio(one, rounds([d + math.log(2.0) for d in drift]))
    assert found.ratio == pytest.approx(0.5)
    assert 0.499 < found.low < 0.5 < found.high < 0.501
    assert found.rounds == 12


def test_only_rounds_with_both_count():
    found = paired_ratio({0: 1.0, 1: 1.0, 5: 9.0}, {0: 0.0, 1: 0.0, 4: 0.0})
    assert found.ratio == pytest.approx(math.e)
    assert found.rounds == 2


def test_without_a_common_round_there_is_no_ratio():
    assert paired_ratio({0: 1.0}, {1: 1.0}) is None


def test_one_round_says_nothing_about_its_error():
    found = paired_ratio({0: 1.0}, {0: 0.0})
    assert (found.low, found.high) == (0.0, math.inf)


def test_the_interval_is_students_on_the_rounds():
    middle, reach = mean_interval([0.0, 1.0, 0.0, 1.0])
    # t(0.975, 3) = 3.182446, sd = 0.57735, n = 4; the negative autocorrelation is not trusted.
    assert middle == pytest.approx(0.5)
    assert reach == pytest.approx(3.182446 * 0.5773503 / 2)


@pytest.mark.parametrize("count", [16, 40])
def test_neighbouring_rounds_alike_count_for_fewer(count):
    half = count // 2
    steps = [0.0] * half + [1.0] * half
    source = random.Random(count)
    assert mean_interval(steps)[1] > 2 * mean_interval(source.sample(steps, count))[1]


def test_bursts_among_many_rounds_do_not_move_the_centre():
    quiet = [0.001 * (number % 3) for number in range(100)]
    disturbed = [value + (2.0 if number % 10 < 3 else 0.0) for number, value in enumerate(quiet)]
    middle, reach = mean_interval(disturbed)
    assert middle == pytest.approx(0.001, abs=2e-3)
    assert reach < 0.002


def test_a_lone_outlier_does_not_make_up_the_interval():
    quiet = [0.001 * (number % 3) for number in range(12)]
    assert mean_interval([*quiet[:5], 5.0, *quiet[6:]])[1] < 0.01


@pytest.mark.parametrize("count", [12, 25, 100])
def test_the_interval_holds_the_truth_as_often_as_it_says(count):
    source = random.Random(7)
    trials, held = 1000, 0
    for _ in range(trials):
        middle, reach = mean_interval([source.gauss(0.0, 1.0) for _ in range(count)])
        held += abs(middle) <= reach
    assert 0.93 <= held / trials <= 0.99


def test_the_interval_holds_the_truth_where_neighbours_have_much_in_common():
    source = random.Random(8)
    trials, held = 500, 0
    for _ in range(trials):
        state, values = 0.0, []
        for _ in range(100):
            state = 0.7 * state + source.gauss(0.0, 1.0)
            values.append(state)
        middle, reach = mean_interval(values)
        held += abs(middle) <= reach
    assert 0.91 <= held / trials <= 0.99


@given(st.lists(st.tuples(logs, logs), min_size=2, max_size=30))
def test_the_inverse_ratio_is_one_over(pairs):
    one, other = rounds(pair[0] for pair in pairs), rounds(pair[1] for pair in pairs)
    found, inverse = paired_ratio(one, other), paired_ratio(other, one)
    assert found.low <= found.ratio <= found.high
    assert found.ratio * inverse.ratio == pytest.approx(1.0)
    assert math.isinf(inverse.high) or found.low * inverse.high == pytest.approx(1.0)


@given(st.lists(st.tuples(logs, logs), min_size=2, max_size=30), st.floats(-3.0, 3.0))
def test_what_slows_both_leaves_the_ratio(pairs, shift):
    one, other = rounds(pair[0] for pair in pairs), rounds(pair[1] for pair in pairs)
    found = paired_ratio(one, other)
    shifted = paired_ratio({n: v + shift for n, v in one.items()}, {n: v + shift for n, v in other.items()})
    assert shifted.ratio == pytest.approx(found.ratio)
