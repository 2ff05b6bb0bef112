"""Welch's difference and what is added to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pytest_gpuperf.compare.difference import difference, satterthwaite
from pytest_gpuperf.compare.moderation import Prior, Scale
from pytest_gpuperf.compare.values import Arms, raw_arms

GENERATOR = np.random.default_rng(11)
BASELINE = GENERATOR.normal(0, 0.01, 10)
NEW = GENERATOR.normal(0.02, 0.01, 8)
NOISY = GENERATOR.normal(0.02, 0.08, 8)


def arms(new: np.ndarray, baseline: np.ndarray = BASELINE, **fields: object) -> Arms:
    sessions = {"baseline_sessions": ["b"] * len(baseline), "new_sessions": ["n"] * len(new)}
    return Arms(baseline=baseline.tolist(), new=new.tolist(), **{**sessions, **fields})


def test_clearly_noisier_runs_keep_their_own_variance_as_in_welch() -> None:
    seen = difference(arms(NOISY), None)
    assert seen is not None
    welch = stats.ttest_ind(NOISY, BASELINE, equal_var=False, alternative="greater")
    assert seen.p_above(0.0) == pytest.approx(welch.pvalue)
    assert seen.dof == pytest.approx(welch.df)


def test_like_runs_share_a_variance_as_in_students_test() -> None:
    seen = difference(arms(NEW), None)
    assert seen is not None
    assert seen.p_above(0.0) == pytest.approx(stats.ttest_ind(NEW, BASELINE, alternative="greater").pvalue)
    assert seen.dof == 16


def test_a_lone_outlier_is_drawn_in_and_two_are_kept() -> None:
    old = np.append(BASELINE[:9], 5.0)
    steady, one, two = (difference(arms(NEW, b), None) for b in (BASELINE, old, np.append(old, 5.0)))
    assert steady is not None
    assert one is not None
    assert two is not None
    assert one.spread < 3 * steady.spread < 0.2 < two.spread


def test_one_new_run_gives_the_prediction_t() -> None:
    seen = difference(arms(NEW[:1]), None)
    assert seen is not None
    t = (NEW[0] - BASELINE.mean()) / (BASELINE.std(ddof=1) * np.sqrt(1 + 1 / 10))
    assert seen.p_above(0.0) == pytest.approx(stats.t.sf(t, 9))


def test_satterthwaite() -> None:
    assert satterthwaite([(2.0, 4), (1.0, 9)]) == pytest.approx(9 / (4 / 4 + 1 / 9))
    assert satterthwaite([(1.0, 7)]) == pytest.approx(7)


def test_a_prior_raises_a_lucky_variance_and_brings_its_degrees_of_freedom() -> None:
    prior = Prior(runs=Scale(variance=4e-4, dof=5))
    own, moderated = difference(arms(NEW), None), difference(arms(NEW), prior)
    assert own is not None
    assert moderated is not None
    assert moderated.spread > own.spread
    assert moderated.dof == own.dof + 5


def test_a_noisy_benchmark_is_not_made_to_look_quiet() -> None:
    prior = Prior(runs=Scale(variance=1e-7, dof=50))
    assert difference(arms(NEW), prior) == difference(arms(NEW), None)


def test_no_variance_at_all_is_never_quite_zero() -> None:
    seen = difference(arms(np.zeros(8), np.zeros(10)), None)
    assert seen is not None
    assert 0 < seen.standard_error() < 1e-3


def test_a_coarse_tick_is_part_of_the_variance() -> None:
    seen = difference(arms(np.zeros(8), np.zeros(10), tick_variance=0.01**2 / 12), None)
    assert seen is not None
    assert seen.spread == pytest.approx(0.01 / np.sqrt(12))


def test_one_run_a_side_needs_a_suite_to_ask() -> None:
    assert difference(arms(NEW[:1], BASELINE[:1]), None) is None
    seen = difference(arms(NEW[:1], BASELINE[:1]), Prior(runs=Scale(variance=1e-4, dof=8)))
    assert seen is not None
    assert seen.spread == pytest.approx(0.01)


def test_the_clocks_uncertainty_enters_the_variance() -> None:
    without, with_clock = difference(arms(NEW), None), difference(arms(NEW, clock_variance=1e-4), None)
    assert without is not None
    assert with_clock is not None
    assert with_clock.standard_error() ** 2 == pytest.approx(without.standard_error() ** 2 + 1e-4)


def session_arms(spread: float, sessions: int = 4, new_session: str = "new") -> Arms:
    generator = np.random.default_rng(5)
    levels = generator.normal(0, spread, sessions)
    values = [level + generator.normal(0, 0.002, 5) for level in levels]
    return Arms(
        baseline=np.concatenate(values).tolist(),
        new=generator.normal(0, 0.002, 8).tolist(),
        baseline_sessions=[f"s{i}" for i in range(sessions) for _ in range(5)],
        new_sessions=[new_session] * 8,
    )


def test_sessions_that_differ_widen_the_interval() -> None:
    apart = difference(session_arms(0.02), None)
    assert apart is not None
    assert apart.standard_error() > 0.01, "the new session is one more draw from a spread of 2 %"
    assert apart.dof < 5
    assert apart.spread < 0.004, "runs of one session agree"


def test_alike_sessions_add_nothing() -> None:
    alike = difference(session_arms(0.0), None)
    assert alike is not None
    assert alike.standard_error() < 0.002


def test_session_terms_are_for_other_sessions_only() -> None:
    same = difference(session_arms(0.02, new_session="s1"), None)
    interleaved = difference(session_arms(0.02), None, interleaved=True)
    apart = difference(session_arms(0.02), None)
    assert same is not None
    assert interleaved is not None
    assert apart is not None
    assert same == interleaved
    assert same.standard_error() < apart.standard_error()


def test_a_suite_knows_sessions_better_than_four_of_them() -> None:
    prior = Prior(runs=Scale(variance=1e-8, dof=1), sessions=Scale(variance=20.0, dof=30))
    alone, asked = difference(session_arms(0.004), None), difference(session_arms(0.004), prior)
    assert alone is not None
    assert asked is not None
    assert asked.dof > alone.dof


def test_raw_arms_take_a_shift_out(runs: Callable) -> None:
    shifted = raw_arms(runs([1.0]), runs([1.5]), shift=0.2)
    assert shifted.new == pytest.approx([1.3])
