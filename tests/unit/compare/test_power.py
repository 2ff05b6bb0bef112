"""What a comparison says of its own reach, held to simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pytest_gpuperf.compare.audit import Case
from pytest_gpuperf.compare.difference import Difference
from pytest_gpuperf.compare.power import can_fail, more_runs, smallest_visible, welch_level
from pytest_gpuperf.compare.verdict import Policy


@pytest.mark.parametrize(("gated", "level"), [(1, 1e-3), (10, 1e-3), (1000, 1e-5), (0, 1e-3)])
def test_the_level_is_shared_by_what_is_gated(gated: int, level: float) -> None:
    assert welch_level(Policy(gated=gated)) == pytest.approx(level)


@pytest.mark.parametrize(
    ("old", "new", "can"), [(10, 8, True), (5, 5, False), (5, 8, True), (10, 4, False), (4, 40, False), (10, 5, True)]
)
def test_enough_runs_to_fail(old: int, new: int, can: bool) -> None:
    assert can_fail(old, new, Policy()) is can


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.05])
def test_the_smallest_visible_slowdown_is_found_nineteen_times_in_twenty(runs: Callable, spread: float) -> None:
    generator, found = np.random.default_rng(9), 0
    seen = Difference(estimate=0.0, fixed=spread**2 / 10, new_run=spread**2, new_count=8, dof=16)
    visible = smallest_visible(seen, 10, Policy())
    assert visible is not None
    for _ in range(400):
        case = Case(runs(generator.normal(0, spread, 10)), runs(generator.normal(visible, spread, 8)), Policy(), None)
        found += case.replay().verdict == "regressed"
    assert found / 400 == pytest.approx(0.95, abs=0.03)


def test_nothing_is_visible_where_nothing_can_fail() -> None:
    seen = Difference(estimate=0.0, fixed=1e-5, new_run=1e-4, new_count=1, dof=9)
    assert smallest_visible(seen, 5, Policy(confirm_runs=4)) is None
    assert smallest_visible(seen, 5, Policy(confirm_runs=7)) is not None


def test_more_runs_are_as_many_as_the_interval_needs() -> None:
    seen = Difference(estimate=0.0, fixed=1e-4, new_run=1e-2, new_count=2, dof=11)
    more = more_runs(seen, 10, Policy())
    assert more is not None
    upper = [seen.critical(0.05) * seen.standard_error(2 + k) for k in (more - 1, more)]
    assert upper[0] >= math.log(1.05) > upper[1]


def test_no_number_of_runs_makes_up_for_a_wide_baseline() -> None:
    assert more_runs(Difference(estimate=0.0, fixed=1e-2, new_run=1e-2, new_count=8, dof=16), 10, Policy()) is None
