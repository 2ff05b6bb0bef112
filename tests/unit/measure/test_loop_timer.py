from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.pace import pace_ghz, pace_name
from pytest_gpuperf.measure.timers import loops
from pytest_gpuperf.measure.timers.loops import TRIAL_US, LoopTimer


class Host:
    """A host clock that calls advance."""

    now_us = 0.0
    calls = 0
    pace_ghz = 2.0

    def taking(self, call_us):
        def call(*_args):
            self.now_us += call_us
            self.calls += 1

        return call


@pytest.fixture
def host(monkeypatch):
    made = Host()
    monkeypatch.setattr(loops, "time", SimpleNamespace(perf_counter_ns=lambda: round(made.now_us * 1e3)))
    monkeypatch.setattr(loops, "pace_ghz", lambda: made.pace_ghz)
    return made


def prepared(call, setup=None):
    timer, target = LoopTimer(), Target(call, setup)
    timer.prepare(target)
    return timer, target


@pytest.mark.parametrize("call_us", [0.05, 1.0, 30.0])
def test_a_short_call_is_looped_to_fill_a_trial(host, call_us):
    timer, target = prepared(host.taking(call_us))
    host.calls = 0
    batch = timer.batch(target, 5)
    assert batch.times_us == pytest.approx((call_us,) * 5, rel=0.01)
    assert TRIAL_US <= host.calls * call_us / 5 <= 3 * TRIAL_US


@pytest.mark.parametrize("call_us", [100.0, 5_000.0])
def test_a_long_call_is_timed_alone(host, call_us):
    timer, target = prepared(host.taking(call_us))
    host.calls = 0
    assert timer.batch(target, 3).times_us == pytest.approx((call_us,) * 3)
    assert host.calls == 3


def test_a_very_long_call_comes_one_a_batch(host):
    timer, target = prepared(host.taking(2e6))
    assert len(timer.batch(target, 20).times_us) == 1


def test_a_call_that_takes_no_time_at_all_ends_the_calibration(host):
    timer, target = prepared(host.taking(0.0))
    assert timer.batch(target, 1).times_us == (0.0,)


def test_with_setup_every_call_has_its_own_arguments(host):
    made = iter(range(1000))
    seen = []

    def call(number):
        seen.append(number)
        host.now_us += 1.0

    timer, target = prepared(call, lambda: ((next(made),), {}))
    seen.clear()
    timer.batch(target, 10)
    assert len(seen) == len(set(seen)) == 10


def test_setup_is_outside_the_timed_region(host):
    def setup():
        host.now_us += 1_000.0
        return (), {}

    timer, target = prepared(host.taking(7.0), setup)
    assert timer.batch(target, 3).times_us == pytest.approx((7.0,) * 3)


def test_each_trial_has_the_pace_from_before_and_after_it(host):
    timer, target = prepared(host.taking(5_000.0))
    assert timer.batch(target, 3).clocks_ghz == pytest.approx((2.0,) * 3)

    def speeding_up():
        host.pace_ghz *= 4.0

    host.pace_ghz = 1.0
    assert timer.batch(Target(speeding_up), 2).clocks_ghz == pytest.approx((2.0, 8.0))


def test_the_pace_is_that_of_a_loop_of_fixed_work():
    assert 0.01 < pace_ghz() < 100.0


def test_a_real_call_takes_real_time():
    timer, target = prepared(lambda: sum(range(100)))
    batch = timer.batch(target, 10)
    assert all(0.05 < time < 1e4 for time in batch.times_us)
    assert 0.0 < timer.floor_us < max(batch.times_us)
    assert timer.describe() == f"wall, {pace_name()}"


@pytest.mark.parametrize("ends_at", range(1, 12))
def test_a_call_that_stops_iterating_raises_just_that(host, ends_at):
    calls = iter(range(ends_at - 1))

    def call():
        host.now_us += 30.0
        next(calls)

    timer, target = LoopTimer(), Target(call)

    def times():
        timer.prepare(target)
        while True:
            timer.batch(target, 5)

    with pytest.raises(StopIteration):
        times()


@pytest.mark.parametrize("call_us", [0.5, 7.0, 300.0])
def test_the_work_of_a_batch_is_that_of_all_its_calls(host, call_us):
    timer, target = prepared(host.taking(call_us))
    host.calls = 0
    assert timer.batch(target, 5).work_us == pytest.approx(host.calls * call_us, rel=0.01)
