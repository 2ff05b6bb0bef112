"""What a measurement must not break: the machine's ceilings, and the limits that its test sets."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.ceilings import Ceilings, measure_ceilings
from pytest_gpuperf.measure.errors import first_line
from pytest_gpuperf.measure.measurement import Measurement
from pytest_gpuperf.measure.physics import Physics, assess
from pytest_gpuperf.measure.probes import float32_arithmetic
from pytest_gpuperf.report import units
from pytest_gpuperf.settings import BenchmarkSettings
from pytest_gpuperf.store import ceilings as kept

MEASURING_CEILINGS = "measuring this machine's ceilings"
NO_SHARE_NOTE = "min_speed_of_light is not judged: no ceiling applies to what bytes_moved and flops state"
NO_MEMORY_NOTE = "max_peak_memory is not judged: this device does not tell its memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One measurement beside the ceilings and limits."""

    measurement: Measurement
    physics: Physics
    findings: tuple[CheckFinding, ...] = ()


class Limits:
    """Judges measurements; fetches the ceilings when the first one states what it moves or computes.

    All is done after a measurement, under the device's lock. `off`: fresh processes leave it to the session's own.
    """

    def __init__(self, backend: Backend, mode: str, *, off: bool, say: Callable[[str], None] = lambda _: None) -> None:
        """`mode` is the setting `ceilings`; `say` shows a line while something takes long."""
        self._backend = backend
        self._mode = "off" if off else mode
        self._off = off
        self._say = say
        self._measured_here = False
        self._problem = ""

    def judge(self, measurement: Measurement, settings: BenchmarkSettings, again: Callable[[], Measurement]) -> Judged:
        """Hold a measurement against physics and the limits in `settings`.

        Before a ceiling is called broken it is measured again, and before a share is called too low the benchmark is,
        by `again`: what disturbs either can only err to that side.
        """
        physics = self._assessed(measurement)
        if physics.impossible and not self._measured_here:
            self._raise_ceilings()
            physics = self._assessed(measurement)
        if self._off:
            return Judged(measurement=measurement, physics=physics)
        least = settings.min_speed_of_light
        if least is not None and _too_slow(physics, least):
            physics = max(physics, self._assessed(again()), key=lambda seen: seen.share or 0.0)
        findings = (*_beyond_physics(physics), *_below(physics, least), *_too_much_memory(measurement, settings))
        notes = tuple(self._notes(measurement, settings, physics))
        record = msgspec.structs.replace(measurement.record, notes=(*measurement.record.notes, *notes))
        return Judged(measurement=replace(measurement, record=record), physics=physics, findings=findings)

    def _assessed(self, measurement: Measurement) -> Physics:
        workload = measurement.identity.workload
        stated = workload.bytes_moved is not None or workload.flops is not None
        ceilings = self._ceilings if stated and self._mode != "off" else None
        torch = sys.modules.get("torch")
        on_gpu = self._backend.device.startswith("cuda") and torch is not None
        return assess(
            measurement.record, measurement.identity, ceilings, float32_arithmetic(torch) if on_gpu else "fp32"
        )

    @functools.cached_property
    def _ceilings(self) -> Ceilings | None:
        return self._fetched(self._measured, anew=self._mode == "measure")

    def _measured(self) -> Ceilings:
        self._say(f"gpuperf: {MEASURING_CEILINGS}, which takes some seconds and is kept")
        return measure_ceilings(self._backend)

    def _raise_ceilings(self) -> None:
        """Measure the ceilings again; the higher ones count from now on, in other sessions too."""
        before = self._ceilings
        if before is not None:
            self._measured_here = True
            raised = self._fetched(lambda: before.best_with(self._measured()), anew=True)
            self.__dict__["_ceilings"] = raised or before

    def _fetched(self, measure: Callable[[], Ceilings], *, anew: bool) -> Ceilings | None:
        try:
            place = kept.place_of(self._backend.machine(), self._backend.probing().by)
            return kept.load_or_measure(place, measure, anew=anew)
        except Exception as error:
            self._backend.note_failure(MEASURING_CEILINGS, error)
            self._problem = f"no share of the ceilings: {MEASURING_CEILINGS} failed ({first_line(error)})"
            return None

    def _notes(self, measurement: Measurement, settings: BenchmarkSettings, physics: Physics) -> Iterator[str]:
        workload = measurement.identity.workload
        if self._problem and (workload.bytes_moved or workload.flops):
            yield self._problem
        if settings.min_speed_of_light is not None and physics.share is None:
            yield NO_SHARE_NOTE
        if settings.max_peak_memory is not None and measurement.record.peak_memory_bytes is None:
            yield NO_MEMORY_NOTE


def _too_slow(physics: Physics, least: float) -> bool:
    return physics.share_high is not None and physics.share_high < least


def _beyond_physics(physics: Physics) -> Iterator[CheckFinding]:
    if physics.impossible:
        yield CheckFinding(
            check="impossible",
            seen=physics.impossible,
            why="no call that does what is stated is that quick",
            remedy="is work left out or cached? Else state in bytes_moved and flops what one call has to move and to "
            "compute, or nothing",
            is_limit=True,
        )


def _below(physics: Physics, least: float | None) -> Iterator[CheckFinding]:
    if least is not None and _too_slow(physics, least):
        yield CheckFinding(
            check="min_speed_of_light",
            seen=f"{units.percent(physics.share)} of {physics.ceiling}, at most {units.percent(physics.share_high)}",
            why=f"the test asks for {units.limit(least)}, measured twice ({physics.bound}-bound)",
            remedy="make it quicker, or lower min_speed_of_light",
            is_limit=True,
        )


def _too_much_memory(measurement: Measurement, settings: BenchmarkSettings) -> Iterator[CheckFinding]:
    peak_bytes, most_bytes = measurement.record.peak_memory_bytes, settings.max_peak_memory
    if peak_bytes is not None and most_bytes is not None and peak_bytes > most_bytes:
        yield CheckFinding(
            check="max_peak_memory",
            seen=f"one call holds {units.size(peak_bytes)} ({peak_bytes} bytes) at its peak",
            why=f"the test allows {units.size(most_bytes)} ({most_bytes} bytes)",
            remedy="hold less at a time, or raise max_peak_memory",
            is_limit=True,
        )
