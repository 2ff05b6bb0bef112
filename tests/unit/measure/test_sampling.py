from __future__ import annotations

import pytest

from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.sampling import MOST_BATCHES, MOST_RETRIES, READ_EVERY_US, UNSTABLE_NOTE, Sampling
from pytest_gpuperf.settings import BenchmarkSettings


def sampled(fake, call_us=5.0, **settings):
    asked = BenchmarkSettings(**settings)
    target = Target(lambda: fake.clock.advance_us(call_us))
    sampling = Sampling(fake.timer(asked), target, fake)
    sampling.run(asked)
    return sampling


def test_arrays_have_one_item_a_trial_in_the_order_taken():
    fake = FakeBackend(run=1, clock_ghz=lambda batch: 1.5 + 0.01 * batch)
    trials = sampled(fake, trials=120).trials()
    assert len(trials.times_us) == len(trials.batch_indices) == len(trials.clocks_ghz) == len(trials.host_us) == 120
    assert trials.batch_indices == (0,) * 50 + (1,) * 50 + (2,) * 20
    assert trials.clocks_ghz[0] == pytest.approx(1.5)
    assert trials.clocks_ghz[-1] == pytest.approx(1.52)


def test_many_batches_are_counted_as_few_so_that_records_stay_short():
    trials = sampled(FakeBackend(run=1), trials=2000).trials()
    assert set(trials.batch_indices) == set(range(MOST_BATCHES))
    assert list(trials.batch_indices) == sorted(trials.batch_indices)


def test_a_throttled_stretch_is_taken_again():
    fake = FakeBackend(run=1, throttled_readings={1})
    sampling = sampled(fake, trials=50)
    assert fake.batches_taken == 2
    assert len(sampling.trials().times_us) == 50
    assert UNSTABLE_NOTE not in sampling.all_notes()
    assert any(reading.throttled for reading in sampling.readings)


def test_a_device_that_stays_throttled_gives_a_result_that_says_so():
    fake = FakeBackend(run=1, throttled_readings=range(1, 1000))
    sampling = sampled(fake, trials=50)
    assert fake.batches_taken == 1 + MOST_RETRIES
    assert len(sampling.trials().times_us) == 50
    assert sampling.all_notes() == (UNSTABLE_NOTE,)


def test_retries_do_not_eat_up_the_result_when_time_is_short():
    fake = FakeBackend(run=1, throttled_readings=range(1, 1000))
    assert len(sampled(fake, max_time=1e-6).trials().times_us) >= 20


def test_the_device_is_read_at_both_ends_and_rarely_between():
    fake = FakeBackend(run=1)
    sampling = sampled(fake, call_us=1_000.0, trials=1000)
    lasted_us = fake.now_us()
    longest_batch_us = 50 * 1_100.0
    between = len(sampling.readings) - 2
    assert lasted_us / (READ_EVERY_US + longest_batch_us) - 1 <= between <= lasted_us / READ_EVERY_US
    assert between > 0


def test_a_short_measurement_reads_the_device_twice():
    fake = FakeBackend(run=1)
    assert len(sampled(fake, trials=20).readings) == 2


def test_each_note_is_told_once():
    fake = FakeBackend(run=1)
    target = Target(lambda: (fake.clock.advance_us(5.0), fake.clock.synchronize()))
    asked = BenchmarkSettings(trials=200)
    sampling = Sampling(fake.timer(asked), target, fake)
    sampling.run(asked)
    assert len(sampling.all_notes()) == 1
    assert sampling.unqueued
