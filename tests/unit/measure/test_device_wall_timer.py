from __future__ import annotations

import pytest

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.timers.device_wall import DeviceWallTimer
from pytest_gpuperf.measure.timers.rig import MOST_TRIALS


def prepared(rig, call, *, cache="cold", setup=None):
    timer, target = DeviceWallTimer(rig, cache), Target(call, setup)
    timer.prepare(target)
    return timer, target


@pytest.fixture
def waiting_rig(rig, monkeypatch):
    """The host waits for what the device has not done yet whenever it synchronises."""
    done_us = 0.0

    def synchronize():
        nonlocal done_us
        rig.host_us += rig.device_us - done_us
        done_us = rig.device_us

    monkeypatch.setattr(rig, "synchronize", synchronize)
    return rig


def test_times_from_idle_to_idle_with_the_launch(waiting_rig):
    timer, target = prepared(waiting_rig, lambda: waiting_rig.launch(60.0, host_us=8.0))
    batch = timer.batch(target, 3)
    assert batch.times_us == pytest.approx((68.0,) * 3)
    assert batch.host_us == pytest.approx((8.0,) * 3)
    assert batch.clocks_ghz == (1.7,) * 3
    assert not batch.unqueued


def test_says_how_it_times(rig):
    assert DeviceWallTimer(rig, "cold").describe() == "wall, flush 120 MiB write, clock metered"
    assert DeviceWallTimer(rig, "warm").describe() == "wall, no flush, clock metered"


def test_setup_is_outside_the_timed_region(waiting_rig):
    def setup():
        waiting_rig.launch(500.0, host_us=300.0)
        return (60.0,), {"host_us": 8.0}

    timer, target = prepared(waiting_rig, waiting_rig.launch, setup=setup)
    assert timer.batch(target, 2).times_us == pytest.approx((68.0,) * 2)


def test_batches_are_sized_by_the_call(waiting_rig):
    short, short_target = prepared(waiting_rig, lambda: waiting_rig.launch(60.0))
    assert len(short.batch(short_target, 1000).times_us) == MOST_TRIALS
    long, long_target = prepared(waiting_rig, lambda: waiting_rig.launch(1e6))
    assert len(long.batch(long_target, 1000).times_us) == 1
