from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import fmean, median
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.backends.cpu import CpuBackend
from pytest_gpuperf.measure.backends.fake import FakeBackend, FakeDeviceError, FakeTimer
from pytest_gpuperf.measure.errors import NoGpuWorkError, StickyDeviceError
from pytest_gpuperf.measure.interleaved import LEAST_ROUNDS, _Rounds, measure_interleaved
from pytest_gpuperf.measure.sampling import MOST_RETRIES, UNSTABLE_NOTE


def advancing(fake, time_us):
    return lambda: fake.clock.advance_us(time_us)


def log_ratios(interleaved):
    first, second = interleaved.log_times
    return [second[number] - first[number] for number in first]


@pytest.fixture
def still():
    """A device whose processes and trials are all alike."""
    return FakeBackend(run=1, between_run_sd=0.0, trial_sd=0.0)


def test_each_contender_is_measured_like_alone_and_in_the_order_given(still, plan):
    found = measure_interleaved([(advancing(still, 40.0), plan()), (advancing(still, 60.0), plan())], still, seed=1)
    assert [one.record.mean_us for one in found.measurements] == pytest.approx([40.0, 60.0])
    assert [one.record.trials for one in found.measurements] == [120, 120]
    assert all(one.identity.timer == "events, scripted" for one in found.measurements)
    assert len(found.log_times[0]) == len(found.log_times[1]) == LEAST_ROUNDS
    assert log_ratios(found) == pytest.approx([math.log(1.5)] * LEAST_ROUNDS)


def test_drift_hits_all_alike(plan):
    fake = FakeBackend(run=1, between_run_sd=0.0, trial_sd=0.001, clock_ghz=lambda batch: 1.7 - 0.002 * batch)
    found = measure_interleaved([(advancing(fake, 100.0), plan()), (advancing(fake, 100.0), plan())], fake, seed=1)
    first_round, last_round = min(found.log_times[0]), max(found.log_times[0])
    assert found.log_times[0][last_round] - found.log_times[0][first_round] > 0.02
    assert fmean(log_ratios(found)) == pytest.approx(0.0, abs=0.002)


def test_the_order_within_rounds_is_random(still, plan):
    order = []

    def noted(name):
        def call():
            order.append(name)
            still.clock.advance_us(50.0)

        return call

    measure_interleaved([(noted("a"), plan(trials=240)), (noted("b"), plan(trials=240))], still, seed=3)
    timed = [order[start] for start in range(len(order) - 482, len(order) - 2, 10)]
    pairs = {tuple(timed[start : start + 2]) for start in range(0, len(timed), 2)}
    assert pairs == {("a", "b"), ("b", "a")}


def test_rounds_go_on_until_the_ratio_is_precise(plan):
    fake = FakeBackend(run=1, between_run_sd=0.0, trial_sd=0.03)
    coarse = [(advancing(fake, 200.0), plan(min_effect=0.2)), (advancing(fake, 200.0), plan(min_effect=0.2))]
    fine = [(advancing(fake, 200.0), plan(min_effect=0.01)), (advancing(fake, 200.0), plan(min_effect=0.01))]
    few, many = measure_interleaved(coarse, fake), measure_interleaved(fine, fake)
    assert len(few.log_times[0]) == LEAST_ROUNDS
    assert len(many.log_times[0]) > 3 * LEAST_ROUNDS


def test_time_runs_out_for_all_at_once(plan):
    fake = FakeBackend(run=1, trial_sd=0.2)
    found = measure_interleaved([(advancing(fake, 1e4), plan(max_time=0.5)) for _ in range(3)], fake)
    (rounds,) = {len(rounds) for rounds in found.log_times}
    assert rounds in (5, 6)
    assert [one.record.trials for one in found.measurements] == [rounds * 10] * 3


@pytest.mark.parametrize(("trials", "rounds"), [(37, 13), (2, 2), (500, 50)])
def test_a_fixed_number_of_trials_is_exact(still, plan, trials, rounds):
    contenders = [(advancing(still, 5.0), plan(trials=trials)), (advancing(still, 9.0), plan(trials=trials))]
    found = measure_interleaved(contenders, still)
    assert [one.record.trials for one in found.measurements] == [trials, trials]
    assert [len(lane) for lane in found.log_times] == [rounds, rounds]


@pytest.mark.parametrize("times_us", [(5.0, 50.0), (50.0, 5.0), (50.0, 5.0, 50.0)])
@pytest.mark.parametrize(("capturable", "kind"), [(True, "graph"), (False, "events")])
def test_all_are_timed_alike_where_auto_would_choose_differently(plan, times_us, capturable, kind):
    fake = FakeBackend(run=1, graph_below_us=10.0, capturable=capturable)
    found = measure_interleaved([(advancing(fake, time_us), plan(trials=20)) for time_us in times_us], fake)
    assert {one.identity.timer for one in found.measurements} == {f"{kind}, scripted"}


def test_graphs_of_two_kinds_are_not_set_beside_each_other(plan, monkeypatch):
    fake = FakeBackend(run=1, graph_below_us=10.0)

    def described(timer):
        # Of the second contender the inputs cannot be copied, so that events are all on its one call.
        alone = timer.kind == "graph" and timer is not fake.first
        return f"{timer.kind}, scripted{', one call a replay' if alone else ''}"

    def timer(*arguments, make=fake.timer):
        made = make(*arguments)
        fake.first = getattr(fake, "first", made)
        return made

    monkeypatch.setattr(FakeTimer, "describe", described)
    monkeypatch.setattr(fake, "timer", timer, raising=False)
    found = measure_interleaved([(advancing(fake, 4.0), plan()), (advancing(fake, 4.0), plan())], fake, seed=1)
    assert [one.identity.timer for one in found.measurements] == ["events, scripted"] * 2


def test_one_that_cannot_be_captured_keeps_all_from_graphs(plan, monkeypatch):
    fake = FakeBackend(run=1, graph_below_us=10.0)
    calls = [advancing(fake, 5.0), advancing(fake, 50.0)]
    prepare = FakeTimer.prepare

    def capture_none_but_the_first(timer, target):
        monkeypatch.setattr(fake, "capturable", target.call is calls[0])
        prepare(timer, target)

    monkeypatch.setattr(FakeTimer, "prepare", capture_none_but_the_first)
    found = measure_interleaved([(call, plan(trials=20)) for call in calls], fake)
    assert {one.identity.timer for one in found.measurements} == {"events, scripted"}


def test_what_they_are_compared_with_decides_for_all(plan):
    fake = FakeBackend(run=1, graph_below_us=10.0)
    preferring = replace(plan(trials=20), preferred_timer="events")
    found = measure_interleaved([(advancing(fake, time_us), preferring) for time_us in (5.0, 50.0)], fake)
    assert {one.identity.timer for one in found.measurements} == {"events, scripted"}


def test_a_given_timer_is_used(still, plan):
    timers = [CpuBackend().timer(plan().settings) for _ in range(2)]
    contenders = [(advancing(still, 5.0), plan(timer=timer, trials=20)) for timer in timers]
    found = measure_interleaved(contenders, still)
    assert all(one.identity.timer.startswith("wall, paced") for one in found.measurements)


def test_throttled_rounds_are_taken_again_from_all(plan):
    fake = FakeBackend(run=1, throttled_readings={1})
    found = measure_interleaved([(advancing(fake, 50.0), plan(trials=50)) for _ in range(2)], fake)
    assert [one.record.trials for one in found.measurements] == [50, 50]
    assert found.log_times[0].keys() == found.log_times[1].keys()
    assert all(UNSTABLE_NOTE not in one.record.notes for one in found.measurements)


def test_a_device_that_stays_throttled_gives_results_that_say_so(plan):
    fake = FakeBackend(run=1, throttled_readings=range(1, 1000))
    found = measure_interleaved([(advancing(fake, 50.0), plan(trials=50)) for _ in range(2)], fake)
    assert [one.record.trials for one in found.measurements] == [50, 50]
    assert all(UNSTABLE_NOTE in one.record.notes for one in found.measurements)
    assert fake.readings_taken == 2 + MOST_RETRIES


def test_setup_feeds_every_call(still, plan):
    fed = iter(range(1, 100_000))
    seen = []

    def call(value):
        seen.append(value)
        still.clock.advance_us(10.0)

    measure_interleaved([(call, plan(setup=lambda: ((next(fed),), {}))), (advancing(still, 9.0), plan())], still)
    assert len(set(seen)) == len(seen) > 100


def test_peak_memory_is_each_ones_own(still, plan):
    def holding(count_bytes):
        def call():
            still.clock.advance_us(5.0)
            still.clock.allocate(count_bytes)

        return call

    found = measure_interleaved([(holding(1000), plan()), (holding(3000), plan())], still)
    assert [one.record.peak_memory_bytes for one in found.measurements] == [1000, 3000]


def test_a_contender_without_work_is_refused(still, plan):
    with pytest.raises(NoGpuWorkError):
        measure_interleaved([(advancing(still, 5.0), plan()), (lambda: None, plan())], still)


def test_a_failure_is_noted_and_goes_through(still, plan):
    def breaks():
        raise FakeDeviceError("misaligned address")

    with pytest.raises(FakeDeviceError):
        measure_interleaved([(advancing(still, 5.0), plan()), (breaks, plan())], still)
    with pytest.raises(StickyDeviceError):
        measure_interleaved([(advancing(still, 5.0), plan())], still)


def test_on_the_cpu(plan):
    contenders = [(lambda: sum(range(2000)), plan(max_time=0.1)) for _ in range(2)]
    found = measure_interleaved(contenders, CpuBackend())
    assert all(len(rounds) >= 1 for rounds in found.log_times)
    assert all(median(one.trials.times_us) > 0 for one in found.measurements)


def test_calls_that_leave_cycles_do_not_pile_them_up(still, plan, cycles):
    def call():
        cycles.leave_one()
        still.clock.advance_us(50.0)

    measure_interleaved([(call, plan(trials=1000)), (call, plan(trials=1000))], still)
    assert cycles.most < 200


@pytest.mark.parametrize("noisy", [(), (1,), (2,), (1, 2)])
def test_every_ratio_has_to_be_precise(still, plan, noisy):
    def lane(number):
        steps = [0.2 * (-1) ** n if number in noisy else 0.0 for n in range(LEAST_ROUNDS)]
        return SimpleNamespace(
            plan=plan(min_effect=0.01),
            batches=dict.fromkeys(range(LEAST_ROUNDS)),
            log_times=lambda: {n: 3.0 + step for n, step in enumerate(steps)},
        )

    rounds = _Rounds([lane(number) for number in range(3)], still, random.Random(0))
    assert rounds._ratios_want_more(0.0) is bool(noisy)
    assert not rounds._ratios_want_more(1e6), "out of time"
