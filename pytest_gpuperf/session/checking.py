"""The checks of one benchmark in a session: what they look at, and where their findings go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from pytest_gpuperf.calls import BenchmarkCall
from pytest_gpuperf.checks.inspection import Inspected, Inspection
from pytest_gpuperf.checks.recording import record_kernels
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.measurement import Measurement
from pytest_gpuperf.settings import BenchmarkSettings

Measuring = Callable[[], Measurement]


class Unwatched:
    """Measures, and looks at nothing."""

    def reference_done(self) -> None:
        """Do nothing."""

    def first_call(self, output: Any, expected: Any) -> None:
        """Do nothing."""

    def around(self, measuring: Measuring) -> tuple[Measurement, Inspected]:
        """Measure; return the measurement with what was noted and what was found around it."""
        return measuring(), Inspected()


class Watch(Unwatched):
    """Follows one benchmark from before its first call; does nothing where checks are off."""

    def __init__(self, call: BenchmarkCall, settings: BenchmarkSettings, backend: Backend) -> None:
        self._inspection: Inspection | None = None
        if settings.checks != "off":
            self._inspection = Inspection(_subject(call, settings, backend), allowed=settings.allow)

    def reference_done(self) -> None:
        """Note that the reference has returned."""
        if self._inspection is not None:
            self._inspection.reference_done()

    def first_call(self, output: Any, expected: Any) -> None:
        """Take the verified call's output and the reference's."""
        if self._inspection is not None:
            self._inspection.first_call(output, expected)

    def around(self, measuring: Measuring) -> tuple[Measurement, Inspected]:
        """Measure between the checks; return the measurement with what they noted and what they found."""
        if self._inspection is None:
            return super().around(measuring)
        self._inspection.before()
        with self._inspection.timing():
            measurement = measuring()
        inspected = self._inspection.after(measurement.record, measurement.identity.timer)
        return _with_kernels(measurement, inspected), inspected


class Listing(Unwatched):
    """Records the kernels of a benchmark after it was measured, and checks nothing."""

    def __init__(self, call: BenchmarkCall, settings: BenchmarkSettings, backend: Backend) -> None:
        self._subject = None if settings.checks == "off" else _subject(call, settings, backend)

    def around(self, measuring: Measuring) -> tuple[Measurement, Inspected]:
        """Measure, then call a few times more under the profiler."""
        measurement = measuring()
        inspected = Inspected() if self._subject is None else record_kernels(self._subject)
        return _with_kernels(measurement, inspected), inspected


def _subject(call: BenchmarkCall, settings: BenchmarkSettings, backend: Backend) -> Subject:
    return Subject(
        fn=call.fn,
        args=call.args,
        kwargs=call.kwargs,
        setup=call.setup,
        reference=call.reference,
        device=backend.device,
        max_kernels=settings.max_kernels,
        extra_checks=settings.extra_checks,
    )


def _with_kernels(measurement: Measurement, inspected: Inspected) -> Measurement:
    record = msgspec.structs.replace(
        measurement.record,
        notes=(*measurement.record.notes, *inspected.notes),
        kernels=inspected.kernel_names,
    )
    return replace(measurement, record=record)
