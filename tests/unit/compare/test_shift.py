"""The suite's shared shift: found, removed, told, and beyond the usual a finding."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pytest_gpuperf.compare.shift import Comparison, settle, suite_shift
from pytest_gpuperf.compare.verdict import Policy

BENCHMARKS = 30


def session(
    runs: Callable, shift: float, slower: dict[int, float] | None = None, count: int = BENCHMARKS, **policy: object
) -> dict[int, Comparison]:
    generator = np.random.default_rng(12)
    comparisons = {}
    for i in range(count):
        noise = generator.normal(i / 3, 0.002, 18)
        new = noise[10:] + shift + (slower or {}).get(i, 0.0)
        comparisons[i] = Comparison(baseline=runs(noise[:10]), runs=runs(new, session="new"), policy=Policy(**policy))
    return comparisons


def verdicts(comparisons: dict[int, Comparison]) -> dict[int, str]:
    return {i: decision.verdict for i, decision in settle(comparisons, None).decisions.items()}


def test_a_small_shift_is_removed_and_told(runs: Callable) -> None:
    settled = settle(session(runs, 0.009, slower={3: 0.02}), None)
    assert settled.shift is not None
    assert settled.shift.log_ratio == pytest.approx(0.009, abs=0.001)
    assert settled.shift.sentence == "the suite as a whole is 0.9 % slower; taken out of every comparison"
    assert settled.decisions[3].verdict == "regressed"
    assert settled.decisions[3].ratio == pytest.approx(math.exp(0.02), abs=0.004)
    assert {d.verdict for i, d in settled.decisions.items() if i != 3} == {"unchanged"}
    assert settled.decisions[0].shift_ratio == pytest.approx(math.exp(settled.shift.log_ratio))


def test_no_shift_is_told_too_and_changes_nothing(runs: Callable) -> None:
    settled = settle(session(runs, 0.0), None)
    assert settled.shift is not None
    assert settled.shift.sentence.startswith("no shift shared by the suite (30 benchmarks")
    assert settled.decisions[0].shift_ratio is None


@pytest.mark.parametrize("shift", [0.03, -0.03])
def test_beyond_the_usual_the_verdicts_wait_for_ab(runs: Callable, shift: float) -> None:
    settled = settle(session(runs, shift), None)
    assert settled.shift is not None
    assert settled.shift.beyond
    assert {d.verdict for d in settled.decisions.values()} == {"inconclusive"}
    assert settled.decisions[0].reason.startswith(f"everything is 3.0 % {'slower' if shift > 0 else 'faster'}")
    assert "--gpuperf-against" in settled.decisions[0].reason


def test_what_is_slower_with_the_shift_and_without_still_fails(runs: Callable) -> None:
    found = verdicts(session(runs, 0.03, slower={5: math.log(2)}))
    assert found.pop(5) == "regressed"
    assert set(found.values()) == {"inconclusive"}


def test_everything_twice_as_slow_is_no_shift(runs: Callable) -> None:
    assert set(verdicts(session(runs, math.log(2))).values()) == {"regressed"}


def test_few_benchmarks_tell_no_shift(runs: Callable) -> None:
    settled = settle(session(runs, 0.03, count=19), None)
    assert settled.shift is None
    assert {d.verdict for d in settled.decisions.values()} == {"regressed"}


def test_interleaved_comparisons_keep_their_shift(runs: Callable) -> None:
    assert set(verdicts(session(runs, 0.03, interleaved=True)).values()) == {"regressed"}


def test_sessions_that_used_to_differ_widen_the_limit(runs: Callable) -> None:
    def baseline(levels: tuple[float, ...]) -> list:
        noise = np.random.default_rng(1).normal(0, 1e-4, (len(levels), 4))
        return [r for i, x in enumerate(levels) for r in runs(noise[i] + x, session=f"s{i}")]

    calm = suite_shift([(baseline((0, 0, 0)), runs([0.02]))] * 20)
    wild = suite_shift([(baseline((-0.02, 0, 0.02)), runs([0.02]))] * 20)
    assert calm is not None
    assert wild is not None
    assert calm.limit == pytest.approx(0.00995, abs=1e-5)
    assert wild.limit == pytest.approx(0.06, abs=0.002)
    assert calm.beyond
    assert not wild.beyond


def test_exact_metrics_need_no_ab(runs: Callable) -> None:
    comparisons = session(runs, 0.03)
    comparisons[2] = Comparison(
        baseline=runs([0.0, 0.001] * 5, peak_memory_bytes=10**6),
        runs=runs([0.03] * 8, peak_memory_bytes=10**7),
        policy=Policy(),
    )
    assert verdicts(comparisons)[2] == "regressed"


def test_new_and_missing_benchmarks_keep_their_verdicts(runs: Callable) -> None:
    comparisons = session(runs, 0.03)
    comparisons[100] = Comparison(baseline=[], runs=runs([1.0]), policy=Policy())
    comparisons[101] = Comparison(baseline=runs([1.0]), runs=[], policy=Policy())
    found = verdicts(comparisons)
    assert (found[100], found[101]) == ("new", "missing")
