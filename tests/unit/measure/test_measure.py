from __future__ import annotations

import gc
import math

import pytest

from pytest_gpuperf.measure import hazards as hazards_module
from pytest_gpuperf.measure.backends.cpu import CpuBackend
from pytest_gpuperf.measure.backends.fake import FakeBackend, FakeDeviceError
from pytest_gpuperf.measure.errors import NoGpuWorkError, StickyDeviceError
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.notes import LAUNCH_BOUND_NOTE, UNQUEUED_NOTE
from pytest_gpuperf.measure.plan import Workload


def test_the_record_says_what_the_device_did(plan):
    fake = FakeBackend(run=1, clock_ghz=1.5, between_run_sd=0.0)

    def call():
        fake.clock.advance_us(120.0)
        fake.clock.advance_host_us(8.0)
        fake.clock.allocate(4096)

    found = measure(call, plan(session="today"), fake)
    expected_us = 120.0 * 1.7 / 1.5
    assert found.record.mean_us == pytest.approx(expected_us, rel=0.01)
    assert math.exp(found.record.log_median) == pytest.approx(expected_us, rel=0.01)
    assert found.record.clock_ghz == pytest.approx(1.5)
    assert found.record.host_us == pytest.approx(8.0)
    assert found.record.peak_memory_bytes == 4096
    assert found.record.session == "today"
    assert found.record.trials == len(found.trials.times_us) >= 20
    assert found.record.device.sm_clock_ghz == pytest.approx(1.5)
    assert found.hazards == ()


def test_the_identity_names_timer_cache_and_workload(fake, plan):
    found = measure(lambda: fake.clock.advance_us(5.0), plan(cache="warm"), fake)
    assert found.identity.timer == "events, scripted"
    assert found.identity.cache == "warm"
    assert found.identity.workload == Workload()


def test_a_given_timer_is_used(fake, plan):
    timer = CpuBackend().timer(plan().settings)
    found = measure(lambda: fake.clock.advance_us(5.0), plan(timer=timer, trials=20), fake)
    assert found.identity.timer.startswith("wall")


def test_a_fixed_number_of_trials_is_exact(fake, plan):
    assert measure(lambda: fake.clock.advance_us(5.0), plan(trials=37), fake).record.trials == 37


def test_setup_feeds_every_call(fake, plan):
    sizes = []

    def call(size, *, scale):
        sizes.append(size)
        fake.clock.advance_us(size * scale)

    found = measure(call, plan(setup=lambda: ((10.0,), {"scale": 2.0})), fake)
    assert found.record.mean_us == pytest.approx(20.0, rel=0.05)
    assert len(sizes) > found.record.trials


def test_a_callable_without_gpu_work_is_an_error_and_never_a_figure(fake, plan):
    with pytest.raises(NoGpuWorkError, match="no GPU work recorded"):
        measure(lambda: fake.clock.advance_host_us(100.0), plan(), fake)


def test_where_it_cannot_be_told_whether_there_is_work_the_call_is_measured(fake, plan, monkeypatch):
    monkeypatch.setattr(FakeBackend, "work_recorded", lambda *_: None)
    assert measure(lambda: fake.clock.advance_us(5.0), plan(), fake).record.mean_us == pytest.approx(5.0, rel=0.05)


def test_a_launch_bound_call_is_called_so(fake, plan):
    def call():
        fake.clock.advance_us(160.0)
        fake.clock.advance_host_us(1100.0)

    assert LAUNCH_BOUND_NOTE in measure(call, plan(), fake).record.notes


def test_a_call_that_waits_for_the_device_says_so_and_is_not_called_launch_bound(fake, plan):
    def call():
        fake.clock.advance_us(160.0)
        fake.clock.advance_host_us(1100.0)
        fake.clock.synchronize()

    notes = measure(call, plan(), fake).record.notes
    assert UNQUEUED_NOTE in notes
    assert LAUNCH_BOUND_NOTE not in notes


@pytest.mark.parametrize("failing_call", [1, 2, 30, 120])
def test_an_exception_goes_through_wherever_it_happens_and_the_next_benchmark_measures(fake, plan, failing_call):
    calls = iter(range(1, 10**6))

    def call():
        fake.clock.advance_us(5.0)
        if next(calls) == failing_call:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        measure(call, plan(), fake)
    assert caught.traceback[-1].name == "call"
    assert gc.isenabled()
    assert measure(lambda: fake.clock.advance_us(5.0), plan(), fake).record.mean_us == pytest.approx(5.0, rel=0.05)


def test_after_a_sticky_error_every_later_benchmark_is_refused_with_its_cause(fake, plan):
    def call():
        raise FakeDeviceError("an illegal memory access was encountered")

    with pytest.raises(FakeDeviceError):
        measure(call, plan(), fake)
    for _ in range(2):
        with pytest.raises(StickyDeviceError, match=r"since test_file\.py::test_it .*illegal memory access"):
            measure(lambda: fake.clock.advance_us(5.0), plan(), fake)


def test_garbage_collection_stays_out_of_the_calls_and_its_state_is_restored(fake, plan):
    states = set()

    def call():
        states.add(gc.isenabled())
        fake.clock.advance_us(5.0)

    measure(call, plan(), fake)
    assert states == {False}
    assert gc.isenabled()
    gc.disable()
    try:
        measure(call, plan(), fake)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_calls_that_leave_cycles_do_not_pile_them_up(fake, plan, cycles):
    def call():
        cycles.leave_one()
        fake.clock.advance_us(5.0)

    measure(call, plan(trials=1000), fake)
    assert cycles.most < 200


def test_nor_do_those_of_a_long_warm_up(fake, plan, cycles):
    def call():
        cycles.leave_one()
        fake.clock.advance_us(5.0)

    measure(call, plan(trials=2, warmup=1000), fake)
    assert cycles.most < 200


def test_hazards_are_on_the_result_and_among_its_notes(fake, plan, monkeypatch):
    monkeypatch.setattr(hazards_module, "_environment", lambda: ["CUDA_LAUNCH_BLOCKING is set"])
    found = measure(lambda: fake.clock.advance_us(5.0), plan(), fake)
    assert "CUDA_LAUNCH_BLOCKING is set" in found.hazards
    assert "CUDA_LAUNCH_BLOCKING is set" in found.record.notes


def test_a_real_call_on_the_cpu_has_a_real_time(plan):
    found = measure(lambda: sum(range(2000)), plan(max_time=0.05), CpuBackend())
    assert 1.0 < found.record.mean_us < 1e5
    assert found.identity.timer.startswith("wall, paced by ")
    assert found.record.clock_ghz > 0.0
    assert found.record.host_us is None


def test_a_fake_measurement_costs_next_to_no_real_time(fake, plan):
    """Counted in calls, so that a busy machine cannot fail it."""
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        fake.clock.advance_us(12.5)

    measure(call, plan(), fake)
    assert calls < 500
