from __future__ import annotations

import pytest

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.notes import UNQUEUED_NOTE
from pytest_gpuperf.measure.timers.events import MOST_TRIALS_WITH_SETUP, EventsTimer
from pytest_gpuperf.measure.timers.rig import MOST_TRIALS


def prepared(rig, call, *, cache="cold", setup=None):
    timer, target = EventsTimer(rig, cache), Target(call, setup)
    timer.prepare(target)
    return timer, target


def largest_batch(timer, target):
    return max(len(timer.batch(target, MOST_TRIALS).times_us) for _ in range(10))


def test_reads_the_device_and_beside_it_the_host(rig):
    timer, target = prepared(rig, lambda: rig.launch(58.0, host_us=8.0))
    batch = timer.batch(target, 1)
    assert batch.times_us == pytest.approx((58.0 + rig.event_cost_us,))
    assert batch.host_us == pytest.approx((8.0,))
    assert batch.clocks_ghz == (1.7,)
    assert not batch.unqueued


def test_each_trial_is_flushed_and_metered_before_the_first_event(rig):
    timer, target = prepared(rig, lambda: rig.launch(10.0))
    largest_batch(timer, target)
    rig.flushes = 0
    rig.meter.slots.clear()
    count = len(timer.batch(target, 20).times_us)
    assert rig.flushes == count
    assert rig.meter.slots == list(range(count))


def test_a_warm_trial_is_not_flushed(rig):
    timer, target = prepared(rig, lambda: rig.launch(10.0), cache="warm")
    timer.batch(target, 5)
    assert rig.flushes == 0
    assert timer.describe() == "events, queued, no flush, clock metered"


def test_the_floor_is_what_events_read_around_nothing(rig):
    timer, _ = prepared(rig, lambda: rig.launch(10.0))
    assert timer.floor_us == pytest.approx(rig.event_cost_us)


def test_batches_grow_to_the_limit_for_a_short_call(rig):
    timer, target = prepared(rig, lambda: rig.launch(5.0))
    assert largest_batch(timer, target) == MOST_TRIALS


def test_batches_stay_short_for_a_slow_host(rig):
    timer, target = prepared(rig, lambda: rig.launch(5.0, host_us=4_000.0))
    assert largest_batch(timer, target) == 4


def test_batches_stay_short_for_a_long_call(rig):
    timer, target = prepared(rig, lambda: rig.launch(10_000.0))
    assert largest_batch(timer, target) == 2


def test_a_batch_that_overfills_the_queue_is_thrown_away_and_halved_for_good(rig):
    timer, target = prepared(rig, lambda: rig.launch(100.0, count=300))
    batches = [timer.batch(target, MOST_TRIALS) for _ in range(10)]
    assert max(len(batch.times_us) for batch in batches) == 2
    assert not any(batch.unqueued for batch in batches)
    assert all(time == pytest.approx(101.3) for batch in batches for time in batch.times_us)
    before = rig.hold.begun
    timer.batch(target, MOST_TRIALS)
    assert rig.hold.begun == before + 1


def test_a_call_that_waits_is_timed_unqueued_and_says_so(rig):
    def call():
        rig.launch(10.0)
        rig.wait()

    timer, target = prepared(rig, call)
    batch = timer.batch(target, 10)
    assert batch.unqueued
    assert UNQUEUED_NOTE in batch.notes
    assert timer.describe() == "events, unqueued, flush 120 MiB write, clock metered"
    held = rig.hold.begun
    timer.batch(target, 10)
    assert rig.hold.begun == held


def test_unqueued_batches_are_sized_by_the_call_too(rig):
    def call(device_us):
        rig.launch(device_us)
        rig.wait()

    short, short_target = prepared(rig, lambda: call(10.0))
    assert largest_batch(short, short_target) == MOST_TRIALS
    long, long_target = prepared(rig, lambda: call(20_000.0))
    assert largest_batch(long, long_target) == 1


def test_one_late_module_load_does_not_unqueue(rig):
    loads = iter([False, False, True])

    def call():
        rig.launch(10.0)
        if next(loads, False):
            rig.wait()

    timer, target = prepared(rig, call)
    assert not timer.batch(target, 10).unqueued


def test_a_call_that_waits_now_and_then_ends_unqueued_within_a_bounded_number_of_holds(rig):
    calls = iter(range(10**6))

    def call():
        rig.launch(10.0)
        if next(calls) % 2:
            rig.wait()

    timer, target = prepared(rig, call)
    for _ in range(20):
        timer.batch(target, MOST_TRIALS)
    assert rig.hold.begun < 30


def test_an_exception_releases_the_device_and_goes_through(rig):
    timer, target = prepared(rig, lambda: rig.launch(10.0))

    def broken():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        timer.batch(Target(broken), 5)
    assert not rig.hold.holding
    assert timer.batch(target, 1).times_us == pytest.approx((11.3,))


def test_setup_runs_before_the_device_is_held_and_in_small_batches(rig):
    held = []

    def setup():
        held.append(rig.hold.holding)
        return (10.0,), {}

    timer, target = prepared(rig, rig.launch, setup=setup)
    assert largest_batch(timer, target) == MOST_TRIALS_WITH_SETUP
    assert not any(held)


def test_only_nothing_is_at_the_floor(rig):
    timer, target = prepared(rig, lambda: rig.launch(2.4))
    assert not timer.at_floor(timer.batch(target, 5))
    idle, nothing = prepared(rig, lambda: None)
    assert idle.at_floor(idle.batch(nothing, 5))


def test_an_unqueued_batch_cannot_tell_whether_there_was_work(rig):
    timer, target = prepared(rig, rig.wait)
    assert timer.at_floor(timer.batch(target, 5))


def test_work_counts_all_that_the_device_did_in_the_batch(rig):
    timer, target = prepared(rig, lambda: rig.launch(10.0))
    assert timer.batch(target, 1).work_us == pytest.approx(35.0 + 33.0 + 10.0 + rig.event_cost_us)


def test_notes_of_the_rig_come_with_every_batch(rig):
    rig.notes = ("timed with a sleep",)
    timer, target = prepared(rig, lambda: rig.launch(10.0))
    assert timer.batch(target, 1).notes == ("timed with a sleep",)


@pytest.mark.parametrize("ends_at", range(1, 8))
def test_a_call_that_stops_iterating_raises_just_that_and_lets_the_device_go(rig, ends_at):
    calls = iter(range(ends_at - 1))

    def call():
        rig.launch(10.0)
        next(calls)

    timer, target = EventsTimer(rig, "cold"), Target(call)

    def times():
        timer.prepare(target)
        while True:
            timer.batch(target, 5)

    with pytest.raises(StopIteration):
        times()
    assert not rig.hold.holding


@pytest.mark.parametrize(("time_us", "at_floor"), [(0.0, True), (0.4, True), (0.6, False), (1.2, False)])
def test_less_than_the_shortest_kernel_is_at_the_floor(rig, time_us, at_floor):
    timer, target = prepared(rig, lambda: rig.launch(time_us))
    assert timer.at_floor(timer.batch(target, 5)) is at_floor
