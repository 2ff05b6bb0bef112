from __future__ import annotations

import random

import pytest

from pytest_gpuperf.measure.stopping import (
    LEAST_SHORT_TRIALS,
    LEAST_TRIALS,
    MOST_TRIALS,
    Stopping,
    precise_enough,
)
from pytest_gpuperf.settings import BenchmarkSettings


def noisy(count, mean=500.0, sd_share=0.1, seed=0):
    noise = random.Random(seed)
    return [mean * (1.0 + sd_share * noise.gauss(0.0, 1.0)) for _ in range(count)]


def stopping(least_timed_us=0.0, **settings):
    return Stopping(BenchmarkSettings(**settings), least_timed_us)


@pytest.mark.parametrize(
    ("time_us", "least"),
    [(500.0, LEAST_TRIALS), (100.0, LEAST_TRIALS), (99.9, LEAST_SHORT_TRIALS), (50.0, LEAST_SHORT_TRIALS)],
)
def test_steady_trials_stop_at_the_least_number(time_us, least):
    rule = stopping()
    assert rule.wanted([time_us] * (least - 1), [], 0.0) == 1
    assert rule.wanted([time_us] * least, [], 0.0) == 0


def test_the_least_number_is_taken_even_when_time_is_up():
    assert stopping(max_time=0.001).wanted([5e6] * 3, [], 15e6) == LEAST_TRIALS - 3


def test_noisy_trials_go_on_until_they_are_precise():
    rule, times = stopping(max_time=1e9), noisy(20, sd_share=0.02)
    while wanted := rule.wanted(times, [], 0.0):
        times = noisy(len(times) + wanted, sd_share=0.02)
    assert LEAST_TRIALS < len(times) < MOST_TRIALS
    assert precise_enough(times, 0.01)


def test_noisy_trials_stop_when_time_is_up():
    rule = stopping(max_time=1.0)
    assert rule.wanted(noisy(100), [], 0.9e6) > 0
    assert rule.wanted(noisy(100), [], 1e6) == 0


def test_hopeless_trials_stop_at_the_most():
    assert stopping(max_time=1e9).wanted(noisy(MOST_TRIALS, sd_share=3.0), [], 0.0) == 0


def test_a_fixed_number_is_exact():
    rule = stopping(trials=7, least_timed_us=1e9)
    assert rule.wanted([], [], 0.0) == 7
    assert rule.wanted([5.0] * 6, [], 1e12) == 1
    assert rule.wanted([5.0] * 7, [], 0.0) == 0
    assert rule.wanted([5.0] * 8, [], 0.0) == 0


@pytest.mark.parametrize("least_timed_us", [0.0, 1e12])
@pytest.mark.parametrize("count", [MOST_TRIALS - 1, MOST_TRIALS - 10, MOST_TRIALS - 100])
def test_no_more_are_wanted_than_there_are_to_be(count, least_timed_us):
    rule = stopping(max_time=1e8, least_timed_us=least_timed_us)
    assert 0 < rule.wanted(noisy(count, sd_share=3.0), [], 0.0) <= MOST_TRIALS - count


def test_a_run_lasts_long_enough_to_see_several_clocks():
    rule = stopping(least_timed_us=150_000.0)
    assert rule.wanted([500.0] * 50, [], 100_000.0) > 0
    assert rule.wanted([500.0] * 50, [], 150_000.0) == 0


def test_a_wandering_clock_does_not_keep_it_going_when_the_cycles_are_steady():
    clocks = [1.3 + 0.4 * i / 100 for i in range(100)]
    times = [500.0 / clock for clock in clocks]
    cycles = [time * clock for time, clock in zip(times, clocks, strict=True)]
    assert stopping().wanted(times, [], 0.0) > 0
    assert stopping().wanted(times, cycles, 0.0) == 0


def test_correlated_trials_count_for_less():
    independent = noisy(400, sd_share=0.02)
    correlated = sorted(independent)
    assert precise_enough(independent, 0.01)
    assert not precise_enough(correlated, 0.01)


def test_a_smaller_effect_needs_more_trials():
    times = noisy(400, sd_share=0.02)
    assert precise_enough(times, 0.01)
    assert not precise_enough(times, 0.001)
