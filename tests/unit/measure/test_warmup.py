from __future__ import annotations

import pytest

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.warmup import WarmupPolicy, settled, warm_up

POLICY = WarmupPolicy(
    least_work_us=200_000.0, block_work_us=50_000.0, batch_trials=50, longest_us=1_000_000.0, tolerance=0.01
)


class Device:
    """A timer whose calls take what a function of the trial's number says; time passes by the work."""

    def __init__(self, time_us, overhead_us=0.0):
        self._time_us = time_us
        self._overhead_us = overhead_us
        self.taken = 0
        self.now_us = 0.0
        self.work_us = 0.0

    def batch(self, _target, trials):
        times = tuple(self._time_us(self.taken + i) for i in range(trials))
        self.taken += trials
        self.work_us += sum(times)
        self.now_us += sum(times) + self._overhead_us
        return Batch(times_us=times, work_us=sum(times))

    def warm_up(self, calls=10, policy=POLICY):
        warm_up(self, Target(lambda: None), calls, policy, lambda: self.now_us)


def test_a_steady_device_gets_the_least_work():
    device = Device(lambda _: 100.0)
    device.warm_up()
    assert 200_000.0 <= device.work_us < 300_000.0


def test_a_device_that_gets_slower_is_warmed_up_until_it_has_settled():
    device = Device(lambda i: 100.0 * (1.0 + 0.2 * min(i / 4000, 1.0)))
    device.warm_up()
    assert device.taken >= 4000
    assert device.now_us < POLICY.longest_us


def test_a_device_that_never_settles_is_given_up_in_time():
    device = Device(lambda i: 100.0 * 1.01 ** (i // 100))
    device.warm_up()
    assert device.now_us == pytest.approx(POLICY.longest_us, rel=0.05)


def test_the_number_of_calls_is_kept_however_long_they_take():
    device = Device(lambda _: 3e6)
    policy = WarmupPolicy(least_work_us=0.0, block_work_us=1.0, batch_trials=1, longest_us=10.0, tolerance=0.01)
    device.warm_up(calls=10, policy=policy)
    assert device.taken == 10


def test_work_counts_and_not_time_spent_waiting_for_the_host():
    device = Device(lambda _: 100.0, overhead_us=5_000.0)
    device.warm_up()
    assert device.work_us >= 200_000.0


def test_no_calls_asked_for_and_no_time_is_no_warm_up():
    device = Device(lambda _: 100.0)
    device.warm_up(
        calls=0,
        policy=WarmupPolicy(least_work_us=0.0, block_work_us=1.0, batch_trials=1, longest_us=0.0, tolerance=0.01),
    )
    assert device.taken == 0


@pytest.mark.parametrize(
    ("medians", "expected"),
    [
        ([], False),
        ([100.0, 100.0], False),
        ([100.0, 100.5, 100.9], True),
        ([90.0, 100.0, 100.5, 100.9], True),
        ([100.0, 100.5, 102.0], False),
        ([102.0, 100.5, 100.0], False),
    ],
)
def test_settled_means_that_the_last_three_blocks_agree(medians, expected):
    assert settled(medians, POLICY) is expected
