from __future__ import annotations

import pytest

from pytest_gpuperf.checks.budget import Budget, OutOfTimeError


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_what_fits_is_allowed_and_what_does_not_is_refused():
    clock = Clock()
    budget = Budget(0.4, clock)
    with budget.counting():
        budget.reserve(0.3)
        clock.now_s += 0.3
        budget.reserve(0.1)
        with pytest.raises(OutOfTimeError):
            budget.reserve(0.11)
    assert budget.spent_s == pytest.approx(0.3)


def test_time_adds_up_over_bodies_and_not_between_them():
    clock = Clock()
    budget = Budget(0.4, clock)
    for _ in range(2):
        with budget.counting():
            clock.now_s += 0.1
        clock.now_s += 5.0
    assert budget.spent_s == pytest.approx(0.2)


def test_what_is_done_once_in_a_process_is_left_out():
    clock = Clock()
    budget = Budget(0.4, clock)
    with budget.counting():
        clock.now_s += 0.1
        with budget.paused():
            clock.now_s += 4.0
        clock.now_s += 0.1
    with budget.paused():
        clock.now_s += 4.0
    assert budget.spent_s == pytest.approx(0.2)
    budget.reserve(0.1)
