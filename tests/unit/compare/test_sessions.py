"""The split of a baseline's variance, against the textbook's analysis of variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_gpuperf.compare.sessions import session_mean_squares


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
