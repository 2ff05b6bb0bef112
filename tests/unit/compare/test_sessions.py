"""The split of a baseline's variance, against the textbook's analysis of variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_gpuperf.compare.sessions import lone_run_mean_squares, session_mean_squares


def test_balanced_mean_squares_give_scipys_f() -> None:
    groups = np.random.default_rng(1).normal(0, 1, (4, 6)) + np.arange(4)[:, None]
    squares = session_mean_squares(groups.ravel().tolist(), [f"s{i}" for i in range(4) for _ in range(6)])
    assert squares is not None
    assert squares.between / squares.within == pytest.approx(stats.f_oneway(*groups).statistic)
    assert (squares.between_dof, squares.within_dof) == (3, 20)
    assert (squares.effective_size, squares.concentration) == pytest.approx((6, 0.25))


def test_the_component_is_unbiased_with_unequal_sessions() -> None:
    generator, sizes, truth, estimates = np.random.default_rng(2), (3, 5, 10, 4), 0.5, []
    sessions = [f"s{i}" for i, size in enumerate(sizes) for _ in range(size)]
    for _ in range(800):
        levels = np.repeat(generator.normal(0, truth, 4), sizes)
        squares = session_mean_squares((levels + generator.normal(0, 1, 22)).tolist(), sessions)
        assert squares is not None
        estimates.append((squares.between - squares.within) / squares.effective_size)
    assert np.mean(estimates) == pytest.approx(truth**2, abs=0.04)


@pytest.mark.parametrize("sessions", [["a"] * 4, ["a", "a", "b", "b"], ["a", "b", "c", "d"], []])
def test_too_few_sessions_or_nothing_within_them(sessions: list[str]) -> None:
    assert session_mean_squares([float(i) for i in range(len(sessions))], sessions) is None


def test_lone_runs_of_sessions_leave_what_is_within_to_the_new_runs() -> None:
    squares = lone_run_mean_squares([1.0, 2.0, 4.0], ["a", "b", "c"], [5.0, 5.5], ["d", "d"])
    assert squares is not None
    assert (squares.between, squares.within) == pytest.approx((7 / 3, 0.125))
    assert (squares.between_dof, squares.within_dof, squares.effective_size) == (2, 1, 1)
    assert squares.concentration == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("sessions", "new_sessions"),
    [(["a", "b"], ["d", "d"]), (["a", "b", "b"], ["d", "d"]), (["a", "b", "c"], ["d", "e"]), (["a", "b", "c"], ["d"])],
    ids=["two sessions", "two runs of one", "new sessions", "one new run"],
)
def test_else_they_have_nothing_to_tell(sessions: list[str], new_sessions: list[str]) -> None:
    values, new = [float(i) for i in range(len(sessions))], [float(i) for i in range(len(new_sessions))]
    assert lone_run_mean_squares(values, sessions, new, new_sessions) is None
