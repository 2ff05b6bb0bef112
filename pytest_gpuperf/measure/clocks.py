"""The SM clock that a trial ran at. Without root nobody can lock it, so it is metered and recorded."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from pytest_gpuperf.measure.device_code import DeviceCode
from pytest_gpuperf.measure.nvml import Nvml

METER_CYCLES = 60_000
"""About 33 us: long against the timer's step, short against the clock's own changes."""
SLOT_INTEGERS = 2


class ClockMeter(Protocol):
    """Meters the clock just before each trial of a batch."""

    name: str
    """How, for the timer's description; empty where the trials do not feel it."""
    kernel: str
    """What the profiler calls the kernel that `start` launches; empty where it launches none."""

    def start(self, slot: int, stream: int) -> None:
        """Queue the metering for trial number `slot`."""
        ...

    def queue_reading(self, stream: int) -> None:
        """Queue the transfer of a batch's readings to the host."""
        ...

    def clocks_ghz(self, count: int) -> tuple[float, ...]:
        """After synchronising: the clocks of the first `count` slots; empty where they are unknown."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class SpinMeter:
    """A kernel of one thread that spins for a known number of cycles and reads the global timer at both ends."""

    name = "clock metered"
    kernel = "gpuperf_meter"

    def __init__(self, code: DeviceCode, torch: Any, slots: int) -> None:
        self._code = code
        self._on_device = torch.zeros(slots * SLOT_INTEGERS, dtype=torch.int64, device="cuda")
        self._on_host = code.allocate(slots * SLOT_INTEGERS)
        slot_bytes = SLOT_INTEGERS * self._on_device.element_size()
        addresses = [self._on_device.data_ptr() + slot * slot_bytes for slot in range(slots)]
        cycles = ctypes.c_uint32(METER_CYCLES)
        self._launches = [code.prepare(self.kernel, ctypes.c_uint64(address), cycles) for address in addresses]

    def start(self, slot: int, stream: int) -> None:
        """Launch the spin."""
        self._launches[slot](stream)

    def queue_reading(self, stream: int) -> None:
        """Copy to pinned memory."""
        self._code.copy_to_host(self._on_host, self._on_device.data_ptr(), stream)

    def clocks_ghz(self, count: int) -> tuple[float, ...]:
        """Return cycles over nanoseconds."""
        read = self._on_host.items[: count * SLOT_INTEGERS]
        return tuple(cycles / nanoseconds for cycles, nanoseconds in zip(read[::2], read[1::2], strict=True))

    def close(self) -> None:
        """Free the pinned memory."""
        self._code.free(self._on_host)


class NvmlMeter:
    """NVML's clock, in steps of 15 MHz and once a batch: for devices that refuse our own kernels."""

    name = ""
    kernel = ""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def start(self, slot: int, stream: int) -> None:
        """Do nothing: a reading takes milliseconds."""

    def queue_reading(self, stream: int) -> None:
        """Do nothing."""

    def clocks_ghz(self, count: int) -> tuple[float, ...]:
        """Return the present clock for each trial."""
        clock_ghz = self._nvml.sm_clock_ghz()
        return () if clock_ghz is None else (clock_ghz,) * count

    def close(self) -> None:
        """Do nothing."""
