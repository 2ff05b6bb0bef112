"""The device around the trials: one reading, and the summary of a measurement's readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gpuperf.measure.samples import DeviceState


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """What could be read of the device at one moment; every item is None or empty where it could not."""

    sm_clock_ghz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    throttled: bool = False
    """Whether one of the reasons means that the device was slowed down from outside (heat, power brake)."""
    other_processes: int = 0
    notes: tuple[str, ...] = ()


def summarise_readings(readings: Sequence[DeviceReading]) -> DeviceState:
    """Return the mean clock and power, the highest temperature, and everything else that was seen at any time."""
    return DeviceState(
        sm_clock_ghz=_mean(r.sm_clock_ghz for r in readings),
        temperature_c=max((r.temperature_c for r in readings if r.temperature_c is not None), default=None),
        power_w=_mean(r.power_w for r in readings),
        throttle_reasons=tuple(dict.fromkeys(reason for r in readings for reason in r.throttle_reasons)),
        other_processes=max((r.other_processes for r in readings), default=0),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
