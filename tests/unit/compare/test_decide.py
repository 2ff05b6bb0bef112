"""Every verdict, and every odd case that a baseline or a session can be."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.moderation import suite_prior
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.samples import DeviceState


def normal(seed: int, spread: float, count: int) -> np.ndarray:
    """Draws with a mean of 0 and exactly this standard deviation."""
    drawn = np.random.default_rng(seed).normal(0, 1, count)
    return (drawn - drawn.mean()) / drawn.std(ddof=1) * spread


BASELINE = 4.0 + normal(1, 0.004, 10)
SAME = 4.0 + normal(2, 0.004, 8)
POLICY = Policy()


def test_slower_code_regresses_and_says_how_much_how_sure_over_how_many_runs(runs: Callable) -> None:
    decision = decide(runs(BASELINE), runs(SAME + math.log(1.05)), POLICY, None)
    assert decision.verdict == "regressed"
    assert decision.reason == "5.0 % slower (95 % interval 4.6 % to 5.4 %), 8 runs against 10"
    assert decision.ratio_low < decision.ratio < decision.ratio_high
    assert decision.ratio == pytest.approx(1.05, abs=0.005)


def test_faster_code_improves(runs: Callable) -> None:
    decision = decide(runs(BASELINE), runs(SAME - math.log(1.05)), POLICY, None)
    assert decision.verdict == "improved"
    assert "faster" in decision.reason


def test_the_same_code_is_unchanged_and_says_what_was_ruled_out(runs: Callable) -> None:
    decision = decide(runs(BASELINE), runs(SAME), POLICY, None)
    assert decision.verdict == "unchanged"
    assert decision.reason.startswith(("at most", "at least"))


def test_slower_by_less_than_min_effect_never_fails(runs: Callable) -> None:
    steady = np.linspace(-1e-4, 1e-4, 10)
    assert decide(runs(steady), runs(steady[:8] + math.log(1.009)), POLICY, None).verdict == "unchanged"
    assert decide(runs(steady), runs(steady[:8] + math.log(1.012)), POLICY, None).verdict == "regressed"


def test_noise_is_inconclusive_and_says_what_was_visible_and_what_would_help(runs: Callable) -> None:
    decision = decide(runs(normal(3, 0.08, 10)), runs(normal(4, 0.08, 8)), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert decision.reason == "between-run spread 8 %: the smallest slowdown visible is 30 %; needs 38 more runs"
    assert decision.smallest_visible_ratio == pytest.approx(1.30, abs=0.01)


def test_hopeless_noise_is_told_without_absurd_figures(runs: Callable) -> None:
    decision = decide(runs(normal(3, 2.0, 10)), runs(normal(4, 2.0, 8)), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert "nothing short of 10 times as slow is visible" in decision.reason


def test_it_says_how_many_more_runs_would_settle_it(runs: Callable) -> None:
    baseline = normal(1, 0.06, 10)
    decision = decide(runs(baseline), runs(normal(2, 0.06, 2)), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert decision.more_runs is not None
    assert decision.reason.endswith(f"needs {decision.more_runs} more runs")
    enough = normal(3, 0.06, 2 + decision.more_runs)
    assert decide(runs(baseline), runs(enough), POLICY, None).verdict == "unchanged"


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_too_few_new_runs_never_fail_but_do_not_clear_either(runs: Callable, count: int) -> None:
    decision = decide(runs(BASELINE), runs(SAME[:count] + math.log(1.04)), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert "not yet certain; needs" in decision.reason
    assert decision.new_runs == count


def test_five_against_five_cannot_reach_the_rank_guards_level(runs: Callable) -> None:
    decision = decide(runs(BASELINE[:5]), runs(SAME[:5] + 0.5), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert decision.reason.endswith("needs 3 more runs"), "five against eight can"
    assert decide(runs(BASELINE[:5]), runs(SAME + 0.5), POLICY, None).verdict == "regressed"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_short_baseline_never_gates(runs: Callable, count: int) -> None:
    decision = decide(runs(BASELINE[:count]), runs(SAME + 1.0), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert decision.reason.startswith(f"the baseline has only {count} run")
    assert f"extend it by {5 - count}" in decision.reason


def test_one_run_is_enough_to_be_unchanged(runs: Callable) -> None:
    decision = decide(runs(BASELINE), runs(SAME[:1]), POLICY, None)
    assert decision.verdict == "unchanged"
    assert decision.p_scipy is None, "it is not defined for one run"


def test_nothing_on_a_side(runs: Callable) -> None:
    assert decide([], runs(SAME), POLICY, None).verdict == "new"
    assert decide(runs(BASELINE), [], POLICY, None).verdict == "missing"


def test_identical_values_are_unchanged_and_a_step_between_them_regresses(runs: Callable) -> None:
    same = runs([4.0] * 10)
    assert decide(same, runs([4.0] * 8), POLICY, None).verdict == "unchanged"
    assert decide(same, runs([4.0 + math.log(1.02)] * 8), POLICY, None).verdict == "regressed"
    assert decide(same, runs([4.0] * 8), POLICY, None).p_scipy is None, "it is not defined without variance"


def test_a_step_of_one_tick_of_a_coarse_timer_is_no_regression(runs: Callable) -> None:
    tick = {"resolution_us": 0.032}
    at_2_us, one_tick_on = [math.log(2.048)] * 10, [math.log(2.08)] * 8
    assert decide(runs(at_2_us), runs(one_tick_on), POLICY, None).verdict == "regressed"
    assert decide(runs(at_2_us, **tick), runs(one_tick_on, **tick), POLICY, None).verdict == "unchanged"


@pytest.mark.parametrize("spike", [1.1, 100.0])
def test_one_disturbed_run_neither_fails_nor_hides_a_slowdown(runs: Callable, spike: float) -> None:
    new, old = [*SAME[:7], 4.0 + math.log(spike)], [*BASELINE[:9], 4.0 + math.log(spike)]
    assert decide(runs(BASELINE), runs(new), POLICY, None).verdict == "unchanged"
    assert decide(runs(old), runs(SAME), POLICY, None).verdict == "unchanged"
    slower = SAME + math.log(1.05)
    assert decide(runs(old), runs(slower), POLICY, None).verdict == "regressed"
    assert decide(runs(BASELINE), runs([*slower[:7], slower[7] + math.log(spike)]), POLICY, None).verdict == "regressed"


def test_half_of_the_runs_disturbed_is_noise(runs: Callable) -> None:
    new = [*SAME[:4], *(SAME[4:] + math.log(1.5))]
    assert decide(runs(BASELINE), runs(new), POLICY, None).verdict == "inconclusive"


def test_two_modes_are_noise(runs: Callable) -> None:
    modes = np.array([0, 0.2] * 5)
    assert decide(runs(BASELINE + modes), runs(SAME + modes[2:]), POLICY, None).verdict == "inconclusive"
    assert decide(runs(BASELINE + modes), runs(SAME + modes[2:] + math.log(2)), POLICY, None).verdict == "regressed"


def test_drift_is_noise(runs: Callable) -> None:
    drift = np.linspace(0, 0.05, 18)
    assert decide(runs(BASELINE + drift[:10]), runs(SAME + 0.03), POLICY, None).verdict != "regressed"


def test_unequal_counts(runs: Callable) -> None:
    many = 4.0 + normal(3, 0.004, 40)
    assert decide(runs(many), runs(SAME[:5]), POLICY, None).verdict == "unchanged"
    assert decide(runs(many), runs(SAME[:5] + math.log(1.03)), POLICY, None).verdict == "regressed"
    assert decide(runs(SAME[:5]), runs(many + math.log(1.03)), POLICY, None).verdict == "regressed"


def test_a_thousand_benchmarks_ask_for_more_certainty_each(runs: Callable) -> None:
    slower = runs(SAME + math.log(1.02))
    one, thousand = (decide(runs(BASELINE), slower, Policy(gated=m), None) for m in (1, 1000))
    assert one.p_welch == thousand.p_welch
    assert 0.01 / 1000 < one.p_welch <= 1e-3, "between the two levels"
    assert (one.verdict, thousand.verdict) == ("regressed", "unchanged")


def test_p_scipy_is_scipys(runs: Callable) -> None:
    new = SAME + math.log(1.02)
    welch = stats.ttest_ind(new - math.log(1.01), BASELINE, equal_var=False, alternative="greater")
    assert decide(runs(BASELINE), runs(new), POLICY, None).p_scipy == pytest.approx(welch.pvalue)


def test_one_session_is_provisional_and_two_are_not(runs: Callable) -> None:
    assert decide(runs(BASELINE), runs(SAME), POLICY, None).provisional
    baseline = [*runs(BASELINE[:5], session="a"), *runs(BASELINE[5:], session="b")]
    assert not decide(baseline, runs(SAME), POLICY, None).provisional
    assert not decide(runs(BASELINE), runs(SAME), Policy(interleaved=True), None).provisional


class TestClock:
    """A card's clock is not the code."""

    WANDERING = np.random.default_rng(5).uniform(1.6, 1.9, (18, 4))

    def arms(self, clocked: Callable, step: float = 1.0, slowdown: float = 1.0, sensitivity: float = 0.9) -> tuple:
        noise = normal(6, 0.003, 18)
        old = [clocked(4 + e, row, sensitivity) for e, row in zip(noise, self.WANDERING[:10], strict=False)]
        slower = 4 + math.log(slowdown)
        new = [
            clocked(slower + e, row * step, sensitivity) for e, row in zip(noise[10:], self.WANDERING[10:], strict=True)
        ]
        return old, new

    def test_a_slow_card_is_inconclusive_with_both_clocks(self, clocked: Callable) -> None:
        decision = decide(*self.arms(clocked, step=0.9), POLICY, None)
        assert decision.verdict == "inconclusive"
        assert decision.reason.startswith("the card's clock, not the code")
        assert "GHz instead of" in decision.reason
        assert decision.raw_ratio > 1.05 > 1.02 > decision.ratio
        assert decision.more_runs is None
        assert any(finding.startswith("clock ") for finding in decision.findings)

    def test_a_fast_card_is_unchanged(self, clocked: Callable) -> None:
        decision = decide(*self.arms(clocked, step=1.06), POLICY, None)
        assert decision.verdict == "unchanged"
        assert decision.raw_ratio < 0.97

    def test_a_fast_card_does_not_hide_slower_code(self, clocked: Callable) -> None:
        decision = decide(*self.arms(clocked, step=1.06, slowdown=1.05), POLICY, None)
        assert decision.verdict == "regressed"
        assert decision.raw_ratio < 1.01

    def test_in_ab_raw_time_counts(self, clocked: Callable) -> None:
        decision = decide(*self.arms(clocked, step=0.9), Policy(interleaved=True), None)
        assert decision.verdict == "regressed"
        assert decision.reason.endswith("as measured")

    @pytest.mark.parametrize("sensitivity", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("step", [0.8, 1.25])
    def test_a_step_from_a_clock_that_never_moved_is_no_verdict_on_the_code(
        self, clocked: Callable, sensitivity: float, step: float
    ) -> None:
        noise = normal(6, 0.002, 18)
        baseline = [clocked(4 + e, [1.8] * 4, sensitivity) for e in noise[:10]]
        new = [clocked(4 + e, [1.8 * step] * 4, sensitivity) for e in noise[10:]]
        assert decide(baseline, new, POLICY, None).verdict in ("inconclusive", "unchanged")

    def test_a_clock_that_the_baseline_has_not_met_is_blamed_rather_than_runs_that_agree(
        self, clocked: Callable
    ) -> None:
        noise = normal(6, 0.002, 18)
        baseline = [clocked(4 + e, [1.4] * 4) for e in noise[:10]]
        new = [clocked(4 + e, [1.9] * 4) for e in noise[10:]]
        decision = decide(baseline, new, Policy(clock_error=0.5), None)
        assert decision.verdict == "inconclusive"
        assert decision.reason.startswith(
            "between-run spread 0.2 %, and adjusting for the card's clock (1.40 → 1.90 GHz) adds 15 %: the smallest"
        )
        assert decision.reason.endswith("compare at the same clock, or extend the baseline by a session at this one")

    def test_the_sensitivity_is_reported(self, clocked: Callable) -> None:
        decision = decide(*self.arms(clocked), POLICY, None)
        assert decision.clock_sensitivity == pytest.approx(0.9, abs=0.1)


def test_sessions_that_differ_are_blamed_rather_than_runs_that_agree(runs: Callable) -> None:
    levels = {"a": 4.0, "b": 4.1, "c": 3.9}
    baseline = [run for name, level in levels.items() for run in runs(level + normal(1, 0.002, 5), session=name)]
    decision = decide(baseline, runs(4.05 + normal(2, 0.002, 8), session="now"), POLICY, None)
    assert decision.verdict == "inconclusive"
    assert decision.reason.startswith("between-run spread 0.2 %, and its sessions differ by more: 1")
    assert decision.reason.endswith("extend the baseline by more sessions")


def test_what_the_device_was_told_of_is_a_finding(runs: Callable) -> None:
    busy = DeviceState(throttle_reasons=("sw_power_cap",), other_processes=2)
    decision = decide(runs(BASELINE), runs(SAME, device=busy), POLICY, None)
    assert decision.findings == ("throttled: sw_power_cap", "other processes on the device: 2")
    assert decide(runs(BASELINE, device=busy), runs(SAME, device=busy), POLICY, None).findings == ()


def test_a_suite_tempers_a_baseline_that_looks_too_steady(runs: Callable) -> None:
    suite = [runs(normal(seed, 0.02, 10)) for seed in range(20)]
    lucky = 4.0 + np.linspace(-1e-4, 1e-4, 10)
    alone = decide(runs(lucky), runs(lucky[:8] + 0.02), POLICY, None)
    asked = decide(runs(lucky), runs(lucky[:8] + 0.02), POLICY, suite_prior(suite))
    assert (alone.verdict, asked.verdict) == ("regressed", "unchanged")


def test_clocks_beyond_all_measure_are_told_without_an_error(record: Callable) -> None:
    baseline = [record(0.0, clock_ghz=1e300) for _ in range(5)]
    assert decide(baseline, [record(0.0, clock_ghz=1e-300)], Policy()).verdict == "inconclusive"
