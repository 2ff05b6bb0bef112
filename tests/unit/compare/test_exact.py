"""Peak memory and kernels need no test: every new run beyond every old one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.exact import exact_findings, excess, size
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.verdict import Policy

MIB = 1024 * 1024
STEADY = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0, 1.001, 0.999, 1.0005, 0.9995]


def test_more_memory_regresses_with_its_own_reason(runs: Callable) -> None:
    decision = decide(
        runs(STEADY, peak_memory_bytes=64 * MIB), runs(STEADY[:8], peak_memory_bytes=96 * MIB), Policy(), None
    )
    assert (decision.verdict, decision.metric) == ("regressed", "peak memory")
    assert decision.reason == "peak memory rose from 64 MiB to 96 MiB"
    assert decision.findings == ("peak memory 64 MiB → 96 MiB",)


@pytest.mark.parametrize("new", [64 * MIB, 64 * MIB + 60 * 1024, int(64.6 * MIB), 32 * MIB])
def test_memory_within_its_tolerance_is_no_regression(runs: Callable, new: int) -> None:
    baseline = runs(STEADY, peak_memory_bytes=64 * MIB)
    assert decide(baseline, runs(STEADY[:8], peak_memory_bytes=new), Policy(), None).verdict == "unchanged"


def test_one_old_run_that_took_as_much_excuses_it(runs: Callable) -> None:
    baseline = [*runs(STEADY[:9], peak_memory_bytes=64 * MIB), *runs([1.0], peak_memory_bytes=96 * MIB)]
    assert excess(baseline, runs(STEADY[:8], peak_memory_bytes=96 * MIB), Policy()) is None


def test_one_new_run_that_took_less_excuses_it(runs: Callable) -> None:
    new = [*runs(STEADY[:7], peak_memory_bytes=96 * MIB), *runs([1.0], peak_memory_bytes=64 * MIB)]
    assert excess(runs(STEADY, peak_memory_bytes=64 * MIB), new, Policy()) is None


def test_more_memory_makes_a_suspect_so_that_fresh_runs_can_clear_it(runs: Callable) -> None:
    baseline = runs(STEADY, peak_memory_bytes=64 * MIB)
    assert screen(baseline, runs([0.99], peak_memory_bytes=96 * MIB)[0], Policy()).suspect
    assert not screen(baseline, runs([0.999], peak_memory_bytes=64 * MIB)[0], Policy()).suspect


def test_memory_that_was_not_recorded_says_nothing(runs: Callable) -> None:
    assert excess(runs(STEADY), runs(STEADY, peak_memory_bytes=96 * MIB), Policy()) is None
    assert excess(runs(STEADY, peak_memory_bytes=96 * MIB), runs(STEADY), Policy()) is None


def test_more_kernels_regress_however_fast(runs: Callable) -> None:
    decision = decide(
        runs(STEADY, kernels=("gelu",)), runs([x - 0.3 for x in STEADY], kernels=("cast", "gelu")), Policy(), None
    )
    assert (decision.verdict, decision.metric) == ("regressed", "kernels")
    assert decision.reason == "one call launches 2 kernels instead of 1"
    assert decision.findings == ("kernels changed: +cast",)


def test_a_tolerance_allows_kernels(runs: Callable) -> None:
    new = runs(STEADY, kernels=("cast", "gelu"))
    assert excess(runs(STEADY, kernels=("gelu",)), new, Policy(kernel_tolerance=1)) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (("a",), ("a",), ()),
        (("a", "b"), ("b", "a"), ("the same kernels, launched in another order",)),
        (("a", "a", "b"), ("a",), ("kernels changed: −a, −b",)),
        (("a",), ("b",), ("kernels changed: −a, +b",)),
        (("a",) * 5, ("b",) * 5, ("kernels changed: −a ×5, +b ×5",)),
        ((), tuple("abcde"), ("kernels changed: +a, +b, +c, +2 more",)),
    ],
)
def test_list_changes_are_findings(runs: Callable, old: tuple, new: tuple, told: tuple) -> None:
    assert exact_findings(runs([1.0], kernels=old), runs([1.0], kernels=new)) == told


def test_a_list_that_some_baseline_run_had_is_no_finding(runs: Callable) -> None:
    baseline = [*runs([1.0], kernels=("split", "reduce")), *runs([1.0], kernels=("gemm",))]
    assert exact_findings(baseline, runs([1.0], kernels=("split", "reduce"))) == ()


def test_fresh_runs_kernels_are_compared_with_fresh_ones_and_own_with_own(runs: Callable) -> None:
    def arm(own: tuple | None, fresh: tuple | None) -> list:
        return [*runs([1.0], kernels=own), *runs([1.001] * 4, kernels=fresh, fresh=True)]

    policy = Policy()
    more, less = ("cast", "gelu"), ("gelu",)
    assert excess(arm(less, less), arm(more, more), policy) is not None
    assert excess(arm(None, less), arm(None, more), policy) is not None
    assert excess(arm(less, None), arm(more, None), policy) is not None
    # Only where both kinds agree.
    assert excess(arm(less, less), arm(more, less), policy) is None
    assert excess(arm(less, less), arm(less, more), policy) is None
    # Never one kind with the other.
    assert excess(arm(less, None), arm(None, more), policy) is None
    assert exact_findings(arm(less, None), arm(None, more)) == ()
    assert exact_findings(arm(None, less), arm(more, None)) == ()
    # What is told is what fresh processes launch, where they are known.
    assert exact_findings(arm(("a",), ("b",)), arm(("c",), ("d",))) == ("kernels changed: −b, +d",)


def test_a_slowdown_keeps_its_own_reason(runs: Callable) -> None:
    baseline = runs(STEADY, peak_memory_bytes=64 * MIB)
    decision = decide(baseline, runs([x + 0.5 for x in STEADY], peak_memory_bytes=96 * MIB), Policy(), None)
    assert decision.metric == "time"
    assert "slower" in decision.reason


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (96 * MIB, "96 MiB"), (1024**4 * 5000, "5000 TiB")],
)
def test_sizes_as_people_read_them(count: int, told: str) -> None:
    assert size(count) == told
