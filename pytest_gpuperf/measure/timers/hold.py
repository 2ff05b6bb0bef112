"""Holds the device while the host queues a batch, so that the device never waits for the host within a trial."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from pytest_gpuperf.measure.device_code import DeviceCode

TIMEOUT_US = 50_000.0
"""A hold ends by itself after this time: it is the watchdog for calls that wait for the device."""
SLEEP_CYCLES_PER_US = 2_000
SLEEP_MARGIN = 2.0
LEAST_SLEEP_US = 300.0


class Hold(Protocol):
    """Keeps a stream busy from `begin` until `release`."""

    name: str

    def begin(self, stream: int, expected_us: float) -> None:
        """Start to hold `stream`; the host expects to queue for `expected_us`."""
        ...

    def release(self) -> None:
        """Let the stream go on: everything is queued."""
        ...

    def overran(self) -> bool:
        """After synchronising: whether the hold had ended before it was released."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class SpinHold:
    """A kernel of one thread that spins on a flag in pinned host memory: it waits just as long as the host needs."""

    name = "queued"

    def __init__(self, code: DeviceCode) -> None:
        self._code = code
        self._flags = code.allocate(2)
        timeout_ns = ctypes.c_uint64(int(TIMEOUT_US * 1e3))
        self._launch = code.prepare("gpuperf_hold", ctypes.c_uint64(self._flags.device_address), timeout_ns)

    def begin(self, stream: int, _expected_us: float) -> None:
        """Launch the spin."""
        self._flags.items[0] = self._flags.items[1] = 0
        self._launch(stream)

    def release(self) -> None:
        """Set the flag that the spin watches."""
        self._flags.items[0] = 1

    def overran(self) -> bool:
        """Whether the spin gave up."""
        return bool(self._flags.items[1])

    def close(self) -> None:
        """Free the flags."""
        self._code.free(self._flags)


class SleepHold:
    """A spin of fixed length, twice what the host is expected to need: for devices that refuse our own kernels."""

    name = "queued by sleep"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._slept = torch.cuda.Event()
        self._overran = False

    def begin(self, _stream: int, expected_us: float) -> None:
        """Launch the sleep on the current stream."""
        sleep_us = min(max(SLEEP_MARGIN * expected_us, LEAST_SLEEP_US), TIMEOUT_US)
        self._torch.cuda._sleep(int(sleep_us * SLEEP_CYCLES_PER_US))
        self._slept.record()

    def release(self) -> None:
        """See whether the sleep is still going on; it cannot be cut short."""
        self._overran = self._slept.query()

    def overran(self) -> bool:
        """Whether it had ended when the host was done."""
        return self._overran

    def close(self) -> None:
        """Do nothing."""
