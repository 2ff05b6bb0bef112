"""A CPU's pace stands in for a clock: where it has moved, what it cannot tell must not become a verdict."""

from __future__ import annotations

import math

import pytest

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.verdict import Policy

CLOCK = Policy()
PACE = Policy(clock_error=0.5)


@pytest.fixture
def sides(clocked):
    """Return what makes ten baseline runs at a pace of about 2, and eight new ones at another pace."""

    def make(pace_ghz: float, sensitivity: float, slower: float = 1.0):
        baseline = [clocked(math.log(100.0) + 0.002 * (i % 3), [1.95, 2.0, 2.05]) for i in range(10)]
        # What the neighbours do to this code is not what they do to the loop: another sensitivity than the baseline's.
        apart = (sensitivity - 1.0) * math.log(2.0 / pace_ghz)
        time = math.log(100.0 * slower) + apart
        return baseline, [
            clocked(time + 0.002 * (i % 3), [pace_ghz - 0.05, pace_ghz, pace_ghz + 0.05]) for i in range(8)
        ]

    return make


def test_a_pace_that_moved_makes_no_verdict_of_what_it_misses(sides) -> None:
    baseline, runs = sides(1.7, sensitivity=2.0)
    assert decide(baseline, runs, CLOCK).verdict == "regressed"
    assert decide(baseline, runs, PACE).verdict == "inconclusive"


def test_twice_the_work_is_seen_all_the_same(sides) -> None:
    baseline, runs = sides(1.7, sensitivity=1.0, slower=2.0)
    assert screen(baseline, runs[0], PACE).suspect
    assert decide(baseline, runs, PACE).verdict == "regressed"


def test_a_steady_pace_costs_nothing(sides) -> None:
    baseline, runs = sides(2.0, sensitivity=1.0, slower=1.05)
    assert decide(baseline, runs, PACE).verdict == decide(baseline, runs, CLOCK).verdict == "regressed"
