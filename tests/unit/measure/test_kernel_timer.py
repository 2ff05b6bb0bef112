from __future__ import annotations

import pytest

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.device_profile import DeviceSpan
from pytest_gpuperf.measure.errors import MeasureError, TimerUnavailableError
from pytest_gpuperf.measure.timers.events import MOST_TRIALS_WITH_SETUP
from pytest_gpuperf.measure.timers.kernel import ATTEMPTS, KernelTimer, call_times_us


def spans(*named):
    """`name` or `(name, duration)`; launched and started in the order given."""
    pairs = [(item, 1.0) if isinstance(item, str) else item for item in named]
    return [
        DeviceSpan(name=name, start_us=10.0 * place, duration_us=duration, launch=place)
        for place, (name, duration) in enumerate(pairs)
    ]


def test_a_call_is_what_lies_between_its_marker_and_the_next_ones_flush():
    seen = spans("flush", "mark", ("a", 2.0), ("copy", 3.0), "flush", "mark", ("a", 4.0), ("copy", 5.0))
    assert call_times_us(seen, "mark", 2, 1) == (5.0, 9.0)


def test_a_call_that_ends_like_a_flush_keeps_its_own():
    seen = spans("flush", "mark", ("flush", 2.0), "flush", "mark", ("flush", 4.0))
    assert call_times_us(seen, "mark", 2, 1) == (2.0, 4.0)


def test_without_a_flush_all_belongs_to_the_calls():
    assert call_times_us(spans("mark", ("a", 2.0), "mark", ("a", 3.0)), "mark", 2, 0) == (2.0, 3.0)


def test_a_call_without_work_takes_nothing():
    assert call_times_us(spans("flush", "mark", "flush", "mark", ("a", 3.0)), "mark", 2, 1) == (0.0, 3.0)


def test_late_work_on_another_stream_belongs_to_the_call_that_launched_it():
    seen = spans("mark", ("a", 2.0), ("late", 7.0), "flush", "mark", ("a", 3.0))
    late = DeviceSpan(name="late", start_us=1e6, duration_us=7.0, launch=2)
    shuffled = [late if span.name == "late" else span for span in reversed(seen)]
    assert call_times_us(shuffled, "mark", 2, 1) == (9.0, 3.0)


def test_launches_that_are_not_numbered_in_order_are_taken_by_their_starts():
    unnumbered = [
        DeviceSpan(name=span.name, start_us=span.start_us, duration_us=span.duration_us)
        for span in spans("mark", ("a", 2.0), "flush", "mark", ("a", 3.0))
    ]
    assert call_times_us(unnumbered, "mark", 2, 1) == (2.0, 3.0)


def test_kernels_of_one_graph_launch_stay_together():
    seen = [
        DeviceSpan(name="mark", start_us=0.0, duration_us=1.0, launch=1),
        DeviceSpan(name="a", start_us=2.0, duration_us=2.0, launch=2),
        DeviceSpan(name="b", start_us=5.0, duration_us=3.0, launch=2),
    ]
    assert call_times_us(seen, "mark", 1, 1) == (5.0,)


@pytest.mark.parametrize("seen", [spans("a", "a"), spans("mark", "a"), spans("mark", "mark", "mark", "a"), []])
def test_lost_records_are_no_times(seen):
    assert call_times_us(seen, "mark", 2, 1) is None


def prepared(rig, call, *, cache="cold", setup=None):
    timer, target = KernelTimer(rig, cache), Target(call, setup)
    timer.prepare(target)
    return timer, target


def two_kernels(rig):
    def call():
        rig.launch(4.0, host_us=9.0)
        rig.launch(7.0, host_us=9.0, late=True)

    return call


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_it_sums_the_calls_kernels_and_leaves_flush_and_meter_out(rig, cache):
    timer, target = prepared(rig, two_kernels(rig), cache=cache)
    batch = timer.batch(target, 5)
    assert batch.times_us == pytest.approx([11.0] * 5)
    assert batch.host_us == pytest.approx([18.0] * 5)
    assert batch.clocks_ghz == (1.7,) * 5
    assert timer.floor_us == 0.0


def test_cold_trials_are_flushed_and_described_so(rig):
    cold, target = prepared(rig, two_kernels(rig))
    rig.flushes = 0
    assert rig.flushes + len(cold.batch(target, 5).times_us) == rig.flushes == 5
    warm, target = prepared(rig, two_kernels(rig), cache="warm")
    assert cold.describe() == "kernel, profiled, flush 120 MiB write, clock metered"
    assert warm.describe() == "kernel, profiled, no flush, clock metered"


def test_a_session_that_lost_records_is_repeated_and_then_refused(rig):
    timer, target = prepared(rig, two_kernels(rig))
    rig.torch.loses = ATTEMPTS - 1
    assert timer.batch(target, 3).times_us == pytest.approx([11.0] * 3)
    rig.torch.loses = ATTEMPTS
    with pytest.raises(MeasureError, match=r"did not record all of 3 calls, 3 times in a row.*timer=events"):
        timer.batch(target, 3)


def test_a_profiler_at_work_is_not_disturbed(rig):
    rig.torch.profiling = True
    with pytest.raises(MeasureError, match="already recording"):
        prepared(rig, two_kernels(rig))


def test_without_a_marker_there_is_no_such_timer(rig, monkeypatch):
    monkeypatch.setattr(rig.meter, "kernel", "", raising=False)
    with pytest.raises(TimerUnavailableError, match="timer=events"):
        prepared(rig, two_kernels(rig))


def test_setup_is_outside_of_the_profile(rig):
    def setup():
        rig.launch(1000.0)
        return (5.0,), {}

    timer, target = prepared(rig, rig.launch, setup=setup)
    batch = timer.batch(target, 50)
    assert len(batch.times_us) <= MOST_TRIALS_WITH_SETUP
    assert batch.times_us == pytest.approx([5.0] * len(batch.times_us))


def test_a_blind_profiler_is_refused(rig):
    rig.torch.blind = True
    with pytest.raises(MeasureError, match="does not see what this device does"):
        prepared(rig, two_kernels(rig))
