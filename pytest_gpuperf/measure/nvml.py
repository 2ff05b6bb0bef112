"""NVML: temperature, power, throttling and company on the device. Readings take milliseconds, and any may fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.errors import first_line
from pytest_gpuperf.measure.hanging import ends_within

REASONS = {
    0x0001: "idle",
    0x0002: "application clocks",
    0x0004: "power cap",
    0x0008: "hardware slowdown",
    0x0010: "sync boost",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "power brake",
    0x0100: "display clocks",
}
THROTTLING = 0x0008 | 0x0020 | 0x0040 | 0x0080
"""Slowed from outside. Running into the power cap is how these devices work under load; the clock meter sees that."""
SM_CLOCK = 1
CORE_TEMPERATURE = 0
HOTTEST_C, MOST_POWER_W, HIGHEST_GHZ = 200.0, 10_000.0, 10.0
"""Beyond these a reading is no reading."""
LONGEST_START_S = 20.0

T = TypeVar("T")


class NvmlAbsentError(Exception):
    """There is no NVML, or it does not know the device."""


class Nvml:
    """One device as NVML sees it; without NVML, everything reads as unknown and a note says why."""

    def __init__(self, uuid: str, library: Any = None) -> None:
        self.notes: tuple[str, ...] = ()
        self._library: Any = None
        try:
            self._library = _started(_import_pynvml() if library is None else library)
            self._handle = self._find(uuid)
        except Exception as error:
            self._library = None
            self.notes = (f"no NVML ({first_line(error)}): temperature, power and throttling are unknown",)

    def read(self) -> DeviceReading:
        """Return what can be read now; a device that no longer answers reads as unknown."""
        if self._library is None:
            return DeviceReading(notes=self.notes)
        temperature_c = self._ask(
            lambda n, h: _plausible("temperature", n.nvmlDeviceGetTemperature(h, CORE_TEMPERATURE), HOTTEST_C)
        )
        power_w = self._ask(lambda n, h: _plausible("power", n.nvmlDeviceGetPowerUsage(h) / 1e3, MOST_POWER_W))
        reasons = self._ask(_throttle_reasons) or 0
        return DeviceReading(
            sm_clock_ghz=self.sm_clock_ghz(),
            temperature_c=temperature_c,
            power_w=power_w,
            throttle_reasons=tuple(text for bit, text in REASONS.items() if reasons & bit),
            throttled=bool(reasons & THROTTLING),
            other_processes=self._ask(_other_processes) or 0,
            notes=self.notes,
        )

    def sm_clock_ghz(self) -> float | None:
        """Return the SM clock, in steps of 15 MHz."""
        return self._ask(lambda n, h: _plausible("clock", n.nvmlDeviceGetClockInfo(h, SM_CLOCK) / 1e3, HIGHEST_GHZ))

    def driver(self) -> str:
        """Return the driver's version; empty where unknown."""
        version = self._ask(lambda n, _: n.nvmlSystemGetDriverVersion())
        return version.decode(errors="replace") if isinstance(version, bytes) else str(version or "")

    def answer(self, question: Callable[[Any, Any], T]) -> T:
        """Return the answer to a question to (library, device). Raises `NvmlAbsentError`, or what NVML raises."""
        if self._library is None:
            raise NvmlAbsentError(self.notes[0])
        return question(self._library, self._handle)

    def _find(self, uuid: str) -> Any:
        """Return the handle of the device with this UUID, which torch tells without NVML's prefix."""
        known = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        try:
            return self._library.nvmlDeviceGetHandleByUUID(known)
        except Exception:
            return self._library.nvmlDeviceGetHandleByUUID(known.replace("GPU-", "MIG-", 1))

    def _ask(self, question: Callable[[Any, Any], T]) -> T | None:
        if self._library is None:
            return None
        try:
            return question(self._library, self._handle)
        except Exception as error:
            self._remember(f"NVML could not tell everything ({first_line(error)})")
            return None

    def _remember(self, note: str) -> None:
        if note not in self.notes:
            self.notes = (*self.notes, note)


def devices_seen(library: Any = None) -> int | None:
    """Return how many GPUs the driver knows, whatever torch makes of them; None where NVML cannot be asked."""
    try:
        return int(_started(_import_pynvml() if library is None else library).nvmlDeviceGetCount())
    except Exception:
        return None


def _import_pynvml() -> Any:
    import pynvml

    return pynvml


def _started(library: Any) -> Any:
    """Return the library once it has started; a driver that is stuck is given up, as nothing can interrupt it."""
    if not ends_within(LONGEST_START_S, library.nvmlInit):
        raise NvmlAbsentError(f"nvmlInit not done after {LONGEST_START_S:g} s")
    return library


def _plausible(what: str, value: float, most: float) -> float:
    """Return a reading as a float; a driver in trouble tells 0xFFFFFFFF for what it does not know."""
    if not 0 <= value <= most:
        raise ValueError(f"{what} is told to be {value:g}")
    return float(value)


def _throttle_reasons(nvml: Any, handle: Any) -> int:
    read = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return int((read or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))


def _other_processes(nvml: Any, handle: Any) -> int:
    """Count processes on the device but this one, which a container may show under another id."""
    ids = [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    return max(len(ids) - 1, 0)
