"""The suite's prior: recovered from simulated variances, and never a licence to look quieter."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma

from pytest_gpuperf.compare.moderation import Scale, fit_scale, inverse_trigamma, moderate, suite_prior


@given(st.floats(1e-5, 1e5))
def test_inverse_trigamma_inverts(y: float) -> None:
    assert inverse_trigamma(float(polygamma(1, y))) == pytest.approx(y, rel=1e-6)


@pytest.mark.parametrize("extreme", [1e-9, 1e9])
def test_inverse_trigamma_at_the_ends_is_its_asymptote(extreme: float) -> None:
    assert float(polygamma(1, inverse_trigamma(extreme))) == pytest.approx(extreme, rel=1e-3)


@pytest.mark.parametrize(("s2", "d0"), [(1e-4, 4.0), (2e-5, 20.0)])
def test_the_prior_of_simulated_variances_is_recovered(s2: float, d0: float) -> None:
    generator = np.random.default_rng(3)
    truth = d0 * s2 / generator.chisquare(d0, 3000)
    seen = truth * generator.chisquare(9, 3000) / 9
    scale = fit_scale([(float(v), 9) for v in seen])
    assert scale is not None
    assert scale.variance == pytest.approx(s2, rel=0.1)
    assert scale.dof == pytest.approx(d0, rel=0.25)


def test_one_common_variance_gives_a_firm_prior() -> None:
    seen = np.random.default_rng(4).chisquare(9, 500) / 9 * 1e-4
    scale = fit_scale([(float(v), 9) for v in seen])
    assert scale is not None
    assert scale.dof > 30
    assert scale.variance == pytest.approx(1e-4, rel=0.1)


def test_a_few_benchmarks_say_nothing() -> None:
    assert fit_scale([(1e-4, 9)] * 9) is None
    assert fit_scale([(1e-4, 9)] * 10) is not None


def test_zero_variances_do_not_break_it() -> None:
    scale = fit_scale([(0.0, 9)] * 6 + [(1e-4, 9)] * 6)
    assert scale is not None
    assert math.isfinite(scale.variance)
    assert scale.dof > 0


@given(st.floats(0, 1), st.floats(1, 40), st.floats(1e-8, 1), st.floats(0.1, 100))
def test_a_variance_is_never_lowered(own: float, dof: float, s2: float, d0: float) -> None:
    used, used_dof = moderate(own, dof, Scale(variance=s2, dof=d0))
    assert used >= own
    assert used_dof >= dof


def test_the_posterior_is_smyths() -> None:
    assert moderate(1e-6, 9, Scale(variance=1e-4, dof=3)) == pytest.approx(((3e-4 + 9e-6) / 12, 12))


def test_suite_prior_needs_ten_baselines_of_two_runs(runs: Callable) -> None:
    baselines = [runs([1.0, 1.01 + i / 1000]) for i in range(10)]
    assert suite_prior(baselines) is not None
    assert suite_prior(baselines[:9]) is None
    assert suite_prior([*baselines[:9], runs([1.0])]) is None
    assert suite_prior([]) is None


def test_the_prior_knows_of_sessions_once_there_are_three(runs: Callable) -> None:
    def suite(sessions: int) -> list:
        noise = np.random.default_rng(0).normal(0, 0.01, (12, sessions, 4))
        return [[r for s in range(sessions) for r in runs(x[s], session=f"s{s}")] for x in noise]

    two, three = suite_prior(suite(2)), suite_prior(suite(3))
    assert two is not None
    assert two.sessions is None
    assert three is not None
    assert three.sessions is not None
    assert three.sessions.variance == pytest.approx(1.0, abs=0.6), "no more between sessions than within"
