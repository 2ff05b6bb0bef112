"""The checks of one benchmark in a session: what they look at, and where their findings go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from pytest_gpuperf.checks.inspection import Inspected, Inspection
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.gpubench import BenchmarkCall
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.measurement import Measurement
from pytest_gpuperf.settings import BenchmarkSettings

Measuring = Callable[[], Measurement]


class Watch:
    """Follows one benchmark from before its first call; does nothing where checks are off."""

    def __init__(self, call: BenchmarkCall, settings: BenchmarkSettings, backend: Backend, *, off: bool) -> None:
        self._inspection: Inspection | None = None
        if off or settings.checks == "off":
            return
        subject = Subject(
            fn=call.fn,
            args=call.args,
            kwargs=call.kwargs,
            setup=call.setup,
            reference=call.reference,
            device=backend.device,
            max_kernels=settings.max_kernels,
            extra_checks=settings.extra_checks,
        )
        self._inspection = Inspection(subject, allowed=settings.allow)

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
            return measuring(), Inspected()
        self._inspection.before()
        with self._inspection.timing():
            measurement = measuring()
        inspected = self._inspection.after(measurement.record, measurement.identity.timer)
        record = msgspec.structs.replace(
            measurement.record,
            notes=(*measurement.record.notes, *inspected.notes),
            kernels=inspected.kernel_names,
        )
        return replace(measurement, record=record), inspected
