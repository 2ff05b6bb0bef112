"""The run record: every figure against its formula, and what becomes of bad trials."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuperf.compare.clock import clock_points
from pytest_gpuperf.measure import summary
from pytest_gpuperf.measure.samples import DeviceState, Trials
from pytest_gpuperf.measure.summary import summarise

TIMES = st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=60)


def trials(times: list[float], **fields: object) -> Trials:
    return Trials(times_us=tuple(times), batch_indices=tuple(i // 20 for i in range(len(times))), **fields)


def test_figures_agree_with_numpy() -> None:
    times = np.random.default_rng(0).lognormal(4, 0.05, 137)
    record = summarise(trials(times.tolist()))
    assert record.trials == 137
    assert record.log_median == pytest.approx(math.log(np.median(times)))
    assert record.mean_us == pytest.approx(times.mean())
    assert record.sd_us == pytest.approx(times.std(ddof=1))
    assert record.min_us == times.min()
    assert (record.p5_us, record.p95_us) == pytest.approx(tuple(np.quantile(times, [0.05, 0.95])))
    assert record.locations == pytest.approx((stats.trim_mean(np.log(times), 0.25),), abs=1e-9)


def test_half_width_is_student_t_on_independent_trials() -> None:
    record = summarise(trials([10.0, 12.0, 11.0, 10.5, 11.5]))
    assert record.lag1_autocorrelation < 0, "so that all five trials count"
    assert record.half_width_us == pytest.approx(2.776 * record.sd_us / math.sqrt(5), rel=1e-3)


def test_autocorrelated_trials_are_worth_fewer() -> None:
    drift = [100.0 + i for i in range(100)]
    record = summarise(trials(drift))
    assert record.lag1_autocorrelation > 0.9
    rho = record.lag1_autocorrelation
    assert record.effective_trials == pytest.approx(100 * (1 - rho) / (1 + rho))
    assert record.half_width_us > 5 * 1.96 * record.sd_us / 10


def test_one_trial_and_equal_trials_have_no_spread() -> None:
    for times in ([7.0], [7.0] * 30):
        record = summarise(trials(times))
        assert (record.sd_us, record.half_width_us, record.lag1_autocorrelation) == (0.0, 0.0, 0.0)
        assert record.resolution_us == 0.0


def test_a_quarter_of_spikes_moves_the_value_by_next_to_nothing() -> None:
    quiet = [10.0, 10.1] * 20
    spiky = [1000.0 if i % 5 == 0 else time for i, time in enumerate(quiet)]
    assert summarise(trials(spiky)).locations[0] == pytest.approx(summarise(trials(quiet)).locations[0], abs=0.01)


def test_a_coarse_timers_tick_is_found() -> None:
    assert summarise(trials([4.096, 4.128, 4.16, 4.128, 4.192])).resolution_us == pytest.approx(0.032)


def test_rounding_of_a_number_is_no_tick() -> None:
    times = [4.096, 4.128, 4.128 * (1 + 1e-9), 4.16, 4.16 * (1 - 1e-10)]
    assert summarise(trials(times)).resolution_us == pytest.approx(0.032)


def test_a_fine_timers_tick_is_none() -> None:
    assert summarise(trials([4.096, 4.0963, 4.0966])).resolution_us == 0.0


def test_locations_adjust_each_trial_by_its_own_clock() -> None:
    clocks = [2.0] * 12 + [1.6] * 8
    times = [100 * 2.0 / clock for clock in clocks]
    record = summarise(trials(times, clocks_ghz=tuple(clocks)))
    assert len(record.locations) == 5
    assert record.locations[4] == pytest.approx(math.log(200)), "cycles are the same at both clocks"
    assert record.locations[0] > math.log(100)
    assert record.clock_ghz == pytest.approx(math.exp(np.mean(np.log(clocks))))


def test_each_batch_has_its_point_in_the_order_taken() -> None:
    record = summarise(
        Trials(times_us=(1.0, 3.0, 5.0, 7.0), batch_indices=(4, 4, 2, 2), clocks_ghz=(1.0, 1.0, 2.0, 2.0))
    )
    assert np.array(record.batches) == pytest.approx(np.log([(2.0, 1.0), (6.0, 2.0)]))


def test_a_single_batch_is_the_runs_own_point_and_not_kept_twice() -> None:
    record = summarise(trials([1.0, 3.0, 9.0], clocks_ghz=(1.0, 1.5, 2.0)))
    assert record.batches == ()
    assert clock_points(record) == [(pytest.approx(math.log(3.0)), pytest.approx(math.log(3.0) / 3))]


def test_a_few_trials_without_a_clock_are_left_out() -> None:
    times, clocks = [100.0] * 9 + [300.0], [1.5] * 9 + [math.nan]
    record = summarise(trials(times, clocks_ghz=tuple(clocks)))
    assert (record.trials, record.mean_us, record.clock_ghz) == (9, 100.0, pytest.approx(1.5))
    assert record.notes == ("trials left out, as they lack a positive, finite time and clock: 1",)


def test_a_misread_clock_does_not_move_its_batch() -> None:
    record = summarise(
        Trials(
            times_us=(5.0,) * 16,
            batch_indices=(0,) * 8 + (1,) * 8,
            clocks_ghz=(1.5,) * 7 + (15.0,) + (1.8,) * 7 + (0.18,),
        )
    )
    assert [clock for _, clock in record.batches] == pytest.approx([math.log(1.5), math.log(1.8)])


def test_without_a_clock_no_batches_are_kept() -> None:
    assert summarise(trials([1.0, 2.0])).batches == ()


@pytest.mark.parametrize("clock", [0.0, -1.0, math.nan, math.inf])
def test_a_broken_clock_is_no_clock(clock: float) -> None:
    record = summarise(trials([1.0, 2.0], clocks_ghz=(1.5, clock)))
    assert (record.clock_ghz, record.batches, len(record.locations)) == (None, (), 1)


@pytest.mark.parametrize("bad", [0.0, -3.0, math.nan, math.inf])
def test_bad_times_are_left_out_and_noted(bad: float) -> None:
    record = summarise(trials([5.0, bad, 7.0]), notes=("launch-bound",))
    assert record.trials == 2
    assert record.notes == ("launch-bound", "trials left out, as they lack a positive, finite time: 1")


def test_nothing_to_summarise_is_an_error() -> None:
    with pytest.raises(ValueError, match="no trial has a positive, finite time"):
        summarise(trials([math.nan, 0.0]))


def test_host_time_is_the_median_of_the_trials_unless_given() -> None:
    assert summarise(trials([1.0, 2.0, 3.0], host_us=(9.0, 4.0, 5.0))).host_us == 5.0
    assert summarise(trials([1.0, 2.0, 3.0], host_us=(9.0, 4.0, 5.0)), host_us=7.0).host_us == 7.0
    assert summarise(trials([1.0])).host_us is None


def test_what_it_is_told_is_kept() -> None:
    state = DeviceState(temperature_c=60.0)
    record = summarise(trials([1.0]), session="s", peak_memory_bytes=12, device=state, kernels=("gelu",))
    assert (record.session, record.peak_memory_bytes, record.device) == ("s", 12, state)
    assert record.kernels == ("gelu",)


@given(TIMES)
def test_no_figure_is_ever_infinite_or_nan(times: list[float]) -> None:
    record = summarise(trials(times))
    figures = [record.log_median, record.mean_us, record.sd_us, record.half_width_us, record.effective_trials]
    assert all(math.isfinite(figure) for figure in (*figures, *record.locations))
    assert record.min_us <= record.p5_us <= record.p95_us


@given(TIMES, st.randoms())
def test_the_value_does_not_depend_on_the_order_of_trials(times: list[float], shuffler: object) -> None:
    mixed = list(times)
    shuffler.shuffle(mixed)
    assert summarise(trials(mixed)).locations == summarise(trials(times)).locations


@given(TIMES, st.floats(0.5, 2.0))
def test_the_value_scales_with_the_times(times: list[float], factor: float) -> None:
    scaled = summarise(trials([time * factor for time in times])).locations[0]
    assert scaled == pytest.approx(summarise(trials(times)).locations[0] + math.log(factor), abs=1e-8)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 1.0])
def test_quantiles_are_numpys(share: float) -> None:
    values = sorted([3.0, 1.0, 4.0, 1.5, 9.0])
    assert summary.quantile(values, share) == pytest.approx(np.quantile(values, share))


@pytest.mark.parametrize(("unknown", "used", "metered"), [(0, 6, True), (2, 4, True), (3, 6, False), (5, 6, False)])
def test_the_clock_counts_where_more_trials_have_one_than_not(unknown: int, used: int, metered: bool) -> None:
    clocks = (0.0,) * unknown + (1.5,) * (6 - unknown)
    record = summarise(trials([10.0] * 6, clocks_ghz=clocks))
    assert record.trials == used
    assert record.clock_ghz == (pytest.approx(1.5) if metered else None)
    assert bool(record.notes) is (used < 6)
