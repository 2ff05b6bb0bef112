"""The two kernels that timing on a CUDA device needs, loaded through the driver: no compiler, no build.

They are PTX for the oldest architecture that still matters; the driver translates them for the device at hand in
milliseconds, and a launch through ctypes costs the host a few microseconds, which a batch of trials pays every time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.measure.errors import MeasureError

DRIVERS = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
SUCCESS = 0
PORTABLE_AND_MAPPED = 0x01 | 0x02

PTX = """
.version 6.0
.target sm_50
.address_size 64

// Spins until the host sets the word at `flag`, or until `timeout_ns` have passed; then sets the next word but one.
.visible .entry gpuperf_hold(.param .u64 flag, .param .u64 timeout_ns)
{
    .reg .pred %released, %early;
    .reg .b32 %state;
    .reg .b64 %address, %limit, %now;
    ld.param.u64 %address, [flag];
    ld.param.u64 %limit, [timeout_ns];
    mov.u64 %now, %globaltimer;
    add.u64 %limit, %limit, %now;
WAIT:
    ld.volatile.global.u32 %state, [%address];
    setp.ne.u32 %released, %state, 0;
    @%released bra DONE;
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %early, %now, %limit;
    @%early bra WAIT;
    st.volatile.global.u32 [%address+8], 1;
DONE:
    ret;
}

// Counts SM cycles over at least `cycles` of them between two ticks of the global timer, whose step is 32 ns on some
// devices and 1 us on others; writes the cycles and the nanoseconds to `slot`.
.visible .entry gpuperf_meter(.param .u64 slot, .param .u32 cycles)
{
    .reg .pred %again;
    .reg .b32 %cycles, %first, %spent;
    .reg .b64 %address, %edge, %from, %to;
    ld.param.u64 %address, [slot];
    ld.param.u32 %cycles, [cycles];
    mov.u64 %edge, %globaltimer;
FIRST_TICK:
    mov.u64 %from, %globaltimer;
    setp.eq.u64 %again, %from, %edge;
    @%again bra FIRST_TICK;
    mov.u32 %first, %clock;
SPIN:
    mov.u32 %spent, %clock;
    sub.u32 %spent, %spent, %first;
    setp.lt.u32 %again, %spent, %cycles;
    @%again bra SPIN;
    mov.u64 %edge, %globaltimer;
LAST_TICK:
    mov.u64 %to, %globaltimer;
    setp.eq.u64 %again, %to, %edge;
    @%again bra LAST_TICK;
    mov.u32 %spent, %clock;
    sub.u32 %spent, %spent, %first;
    cvt.u64.u32 %edge, %spent;
    sub.u64 %to, %to, %from;
    st.global.u64 [%address], %edge;
    st.global.u64 [%address+8], %to;
    ret;
}
"""

Launch = Callable[[int], None]
"""Launches a prepared kernel on the stream of the given handle."""


class DeviceCodeError(MeasureError):
    """The driver refused; the timers then do without these kernels."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """Host memory that the device can reach. torch's own would end the process if freed after a CUDA error."""

    items: Any
    """A ctypes array of 64-bit integers."""
    device_address: int


class DeviceCode:
    """The kernels in the context of the device that is current when it is made."""

    def __init__(self) -> None:
        self._driver = _load_driver()
        self._module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self._module), PTX.encode())

    def prepare(self, name: str, *arguments: Any) -> Launch:
        """Return a launch of one thread of kernel `name` with these ctypes arguments, which are kept alive with it."""
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        launch = self._driver.cuLaunchKernel

        def launch_on(stream: int, _alive: object = arguments) -> None:
            status = launch(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None)
            if status != SUCCESS:
                raise DeviceCodeError(self._message("cuLaunchKernel", status))

        return launch_on

    def allocate(self, count: int) -> Pinned:
        """Return pinned host memory for `count` 64-bit integers."""
        host, device = ctypes.c_void_p(), ctypes.c_uint64()
        size_bytes = count * ctypes.sizeof(ctypes.c_uint64)
        self._call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(size_bytes), PORTABLE_AND_MAPPED)
        self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
        items = (ctypes.c_uint64 * count).from_address(host.value or 0)
        return Pinned(items=items, device_address=device.value)

    def copy_to_host(self, pinned: Pinned, device_address: int, stream: int) -> None:
        """Queue a copy from device memory that fills `pinned`."""
        size_bytes = ctypes.sizeof(pinned.items)
        self._call("cuMemcpyDtoHAsync_v2", pinned.items, ctypes.c_uint64(device_address), size_bytes, stream)

    def free(self, pinned: Pinned) -> None:
        """Give pinned memory back."""
        self._call("cuMemFreeHost", ctypes.c_void_p(ctypes.addressof(pinned.items)))

    def unload(self) -> None:
        """Unload the kernels; prepared launches must not be used any more."""
        self._call("cuModuleUnload", self._module)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status != SUCCESS:
            raise DeviceCodeError(self._message(name, status))

    def _message(self, name: str, status: int) -> str:
        text = ctypes.c_char_p()
        self._driver.cuGetErrorString(status, ctypes.byref(text))
        return f"{name} failed: {(text.value or b'unknown error').decode()} ({status})"


def _load_driver() -> Any:
    try:
        driver = ctypes.CDLL(DRIVERS[sys.platform])
    except (KeyError, OSError) as error:
        raise DeviceCodeError(f"the CUDA driver cannot be loaded: {error}") from error
    handle, count = ctypes.c_void_p, ctypes.c_uint
    driver.cuLaunchKernel.argtypes = [handle, *[count] * 7, handle, handle, handle]
    driver.cuMemcpyDtoHAsync_v2.argtypes = [handle, ctypes.c_uint64, ctypes.c_size_t, handle]
    return driver
