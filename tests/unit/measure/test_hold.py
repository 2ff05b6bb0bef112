from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.clocks import METER_CYCLES, NvmlMeter, SpinMeter
from pytest_gpuperf.measure.device_code import Pinned
from pytest_gpuperf.measure.timers.flush import MEBIBYTE_BYTES, Flush, flush_size_bytes
from pytest_gpuperf.measure.timers.hold import (
    LEAST_SLEEP_US,
    SLEEP_CYCLES_PER_US,
    SLEEP_MARGIN,
    TIMEOUT_US,
    SleepHold,
    SpinHold,
)


class Code:
    """Device code whose kernels are functions of the test."""

    def __init__(self, kernels):
        self._kernels = kernels
        self.freed = []

    def allocate(self, count):
        return Pinned(items=[0] * count, device_address=4096)

    def copy_to_host(self, pinned, device_address, stream):
        pinned.items[:] = self._kernels["memory"]

    def free(self, pinned):
        self.freed.append(pinned)

    def prepare(self, name, *arguments):
        return lambda stream: self._kernels[name](stream, *(a.value for a in arguments))


def test_a_spin_is_released_by_a_flag():
    launches = []
    hold = SpinHold(Code({"gpuperf_hold": lambda *arguments: launches.append(arguments)}))
    flags = hold._flags.items
    hold.begin(7, 0.0)
    assert launches == [(7, 4096, int(TIMEOUT_US * 1e3))]
    assert flags == [0, 0]
    hold.release()
    assert flags == [1, 0]
    assert not hold.overran()


def test_a_spin_that_gave_up_is_told_until_the_next_begins():
    hold = SpinHold(Code({"gpuperf_hold": lambda *_: None}))
    hold.begin(7, 0.0)
    hold._flags.items[1] = 1
    hold.release()
    assert hold.overran()
    hold.begin(7, 0.0)
    assert not hold.overran()


def test_a_spin_gives_its_memory_back():
    code = Code({})
    hold = SpinHold(code)
    hold.close()
    assert code.freed == [hold._flags]


def sleeping(finished):
    slept = []
    event = SimpleNamespace(record=lambda: None, query=lambda: finished)
    cuda = SimpleNamespace(Event=lambda: event, _sleep=slept.append)
    return SleepHold(SimpleNamespace(cuda=cuda)), slept


@pytest.mark.parametrize(
    ("expected_us", "slept_us"),
    [(0.0, LEAST_SLEEP_US), (2_000.0, SLEEP_MARGIN * 2_000.0), (1e9, TIMEOUT_US)],
)
def test_a_sleep_lasts_longer_than_the_host_is_expected_to_need(expected_us, slept_us):
    hold, slept = sleeping(finished=False)
    hold.begin(7, expected_us)
    hold.release()
    assert slept == [int(slept_us * SLEEP_CYCLES_PER_US)]
    assert not hold.overran()


def test_a_sleep_that_was_too_short_is_told():
    hold, _ = sleeping(finished=True)
    hold.begin(7, 100.0)
    hold.release()
    assert hold.overran()


def device_memory(count):
    tensor = SimpleNamespace(data_ptr=lambda: 1000, element_size=lambda: 8)
    return SimpleNamespace(int64="int64", zeros=lambda *_, **__: tensor)


def test_the_meter_gives_every_slot_its_own_place_and_reads_cycles_over_nanoseconds():
    launches = []
    code = Code(
        {"gpuperf_meter": lambda *arguments: launches.append(arguments), "memory": [60_000, 40_000, 66_000, 33_000]}
    )
    meter = SpinMeter(code, device_memory(4), slots=2)
    meter.start(0, 7)
    meter.start(1, 7)
    assert launches == [(7, 1000, METER_CYCLES), (7, 1016, METER_CYCLES)]
    meter.queue_reading(7)
    assert meter.clocks_ghz(2) == (1.5, 2.0)
    assert meter.clocks_ghz(1) == (1.5,)


@pytest.mark.parametrize(("clock", "clocks"), [(1.755, (1.755,) * 3), (None, ())])
def test_nvmls_clock_stands_in_for_each_trial(clock, clocks):
    meter = NvmlMeter(SimpleNamespace(sm_clock_ghz=lambda: clock))
    assert meter.clocks_ghz(3) == clocks


@pytest.mark.parametrize(
    ("cache_bytes", "size_mebibytes"), [(60 * MEBIBYTE_BYTES, 120), (60_000_001, 115), (1, 1), (0, 256)]
)
def test_the_flush_writes_twice_the_cache(cache_bytes, size_mebibytes):
    assert flush_size_bytes(cache_bytes) == size_mebibytes * MEBIBYTE_BYTES


def test_the_flush_names_its_size_and_kind():
    written = []
    buffer = SimpleNamespace(zero_=lambda: written.append("all"))
    torch = SimpleNamespace(int32="int32", empty=lambda count, **_: buffer if count == 30 << 20 else None)
    flush = Flush(torch, 60 * MEBIBYTE_BYTES)
    flush.start()
    assert flush.name == "flush 120 MiB write"
    assert written == ["all"]
