"""The screen: who is confirmed in fresh processes, and at what cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.verdict import Policy

BASELINE = np.random.default_rng(1).normal(3.0, 0.01, 10)
CENTRE, SPREAD = BASELINE.mean(), BASELINE.std(ddof=1)


def test_p_is_of_the_prediction_t(runs: Callable, record: Callable) -> None:
    seen = screen(runs(BASELINE), record(CENTRE + 0.012), Policy())
    assert seen.p == pytest.approx(stats.t.sf(0.012 / (SPREAD * np.sqrt(1.1)), 9))
    assert seen.ratio == pytest.approx(np.exp(0.012))


@pytest.mark.parametrize(("off", "suspect"), [(0.0, False), (1.0, False), (2.0, True), (30.0, True), (-1.0, False)])
def test_suspects_are_slower_at_the_screens_level(runs: Callable, record: Callable, off: float, suspect: bool) -> None:
    assert screen(runs(BASELINE), record(CENTRE + off * SPREAD), Policy()).suspect is suspect


def test_convincingly_faster_runs_are_confirmed_so_that_they_can_be_called_improved(
    runs: Callable, record: Callable
) -> None:
    faster = screen(runs(BASELINE), record(CENTRE - 0.2), Policy())
    assert (faster.suspect, faster.faster, faster.advances) == (False, True, True)
    assert not screen(runs(BASELINE), record(CENTRE - 0.02), Policy()).advances


def test_the_undecided_are_those_that_confirming_would_settle(runs: Callable, record: Callable) -> None:
    spread = np.random.default_rng(8).normal(3.0, 1.0, 10)
    spread = (spread - spread.mean()) / spread.std(ddof=1)
    assert not screen(runs(3 + 0.005 * spread), record(3.0), Policy()).undecided, "steady: ruled out at once"
    assert screen(runs(3 + 0.04 * spread), record(3.0), Policy()).undecided
    assert not screen(runs(3 + 0.5 * spread), record(3.0), Policy()).undecided, "hopeless: eight runs would not do"


def test_a_short_baseline_has_nothing_to_confirm(runs: Callable, record: Callable) -> None:
    seen = screen(runs(BASELINE[:4]), record(9.0), Policy())
    assert (seen.advances, seen.p, seen.ratio) == (False, None, None)


def test_a_shared_shift_is_taken_out(runs: Callable, record: Callable) -> None:
    assert screen(runs(BASELINE), record(CENTRE + 0.05), Policy()).suspect
    assert not screen(runs(BASELINE), record(CENTRE + 0.05), Policy(), shift=0.05).suspect


def test_unchanged_code_is_suspected_at_the_stated_rate(runs: Callable, record: Callable) -> None:
    generator = np.random.default_rng(21)
    suspects = 0
    for _ in range(1500):
        drawn = generator.normal(0, 0.01, 11)
        suspects += screen(runs(drawn[:10]), record(float(drawn[10])), Policy()).suspect
    assert suspects / 1500 == pytest.approx(0.10, abs=0.025)
