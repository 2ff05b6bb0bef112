"""Looks at one benchmark: before its first call, after that, around the timed region, and at its end.

Nothing of it runs inside the timed region. A check that fails itself is told in a note and costs nothing else.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pytest_gpuperf.checks.budget import Budget, OutOfTimeError
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.compiling import Compilations
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.checks.held_state import held_state
from pytest_gpuperf.checks.kernel_list import stored_names
from pytest_gpuperf.checks.known_calls import FirstCall, Timed
from pytest_gpuperf.checks.launches import KernelUse, kernel_uses
from pytest_gpuperf.checks.patched import patched_functions
from pytest_gpuperf.checks.registry import WITH_TENSORS, WITHOUT_TENSORS
from pytest_gpuperf.checks.state import process_state, state_changes
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.checks.watching import watcher_for
from pytest_gpuperf.measure.errors import first_line
from pytest_gpuperf.measure.samples import RunRecord

DEVICE_ERROR = "CUDA error"
LONGEST_FIRST_CALL_S = 0.3
"""A verified call that took longer, be it for compiling, leaves unknown what another one would take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What the checks of one benchmark found."""

    findings: tuple[CheckFinding, ...] = ()
    notes: tuple[str, ...] = ()
    """Checks that failed or were left out."""
    kernels: tuple[KernelUse, ...] | None = None
    """What one call launches on the GPU; None where that is not known."""
    kernel_names: tuple[str, ...] | None = None
    """The same as it is stored."""
    broke_off: Exception | None = None
    """What an extra call raised, after which the device may need a look."""
    seconds: float = 0.0


class Inspection:
    """The checks of one benchmark. `first_call`, `before`, `timing` and `after` are to be called in this order."""

    def __init__(
        self,
        subject: Subject,
        *,
        allowed: Collection[str] = (),
        budget: Budget | None = None,
    ) -> None:
        self._allowed = allowed
        self._budget = budget or Budget()
        self._compilations = Compilations()
        self._left_out: dict[str, list[str]] = {}
        """Names of checks that came to nothing, by the reason."""
        self._broke_off: Exception | None = None
        self._start_s = 0.0
        self._first_s = 0.0
        self._state: dict[str, str] = {}
        torch = sys.modules.get("torch")
        self._evidence = Evidence(subject, torch, watcher_for(subject.device, torch), FirstCall(), self._budget)
        with self._guarded("patched"):
            self._note_start()

    def reference_done(self) -> None:
        """Stamp the time that the reference took."""
        with self._guarded("output"):
            self._evidence.watcher.synchronize()
            self._evidence.first = replace(self._evidence.first, reference_s=time.perf_counter() - self._start_s)
            self._state = process_state(self._evidence.torch)
            self._note_dice()
            self._start_s = time.perf_counter()

    def first_call(self, output: Any, expected: Any) -> None:
        """Take the verified call's output and the reference's."""
        evidence = self._evidence
        with self._guarded("state"):
            changes = state_changes(self._state, process_state(evidence.torch))
            evidence.first = replace(evidence.first, state_changes=changes)
        with self._guarded("output"):
            evidence.watcher.synchronize()
            self._first_s = time.perf_counter() - self._start_s
            samples, expected_samples = evidence.samples(output), evidence.samples(expected)
            evidence.first = replace(
                evidence.first,
                output=output,
                samples=samples,
                memory=evidence.memory(output),
                expected_memory=evidence.memory(expected),
                expected_samples=expected_samples,
                written=evidence.written(evidence.subject.args, evidence.subject.kwargs),
            )

    def before(self) -> None:
        """Make the calls that belong before the timed region."""
        evidence = self._evidence
        with self._guarded("work"):
            if self._first_s > LONGEST_FIRST_CALL_S or not evidence.has_tensors:
                return
            evidence.call_s = self._first_s
            self._warm_up()
            evidence.take_early()

    def timing(self) -> AbstractContextManager[None]:
        """Return what to measure in."""
        return self._compilations.watching()

    def after(self, record: RunRecord, timer: str) -> Inspected:
        """Make the remaining calls and let every check look."""
        evidence = self._evidence
        evidence.timed = Timed(record=record, timer=timer, compilations=self._compilations.count)
        evidence.call_s = max(record.mean_us, record.host_us or 0.0) / 1e6
        findings = self._findings_of(WITHOUT_TENSORS)
        launches = None
        with self._guarded("kernels"):
            if evidence.has_tensors:
                self._warm_up()
                launches = evidence.launches
        # Outside of the guard: each of these checks has its own, whatever became of the list of kernels.
        findings += self._findings_of(WITH_TENSORS) if self._has_tensors else []
        return Inspected(
            findings=tuple(findings),
            notes=tuple(f"checks came to nothing ({why}): {', '.join(names)}" for why, names in self._left_out.items()),
            kernels=None if launches is None else kernel_uses(launches),
            kernel_names=None if launches is None else stored_names(launches),
            broke_off=self._broke_off,
            seconds=self._budget.spent_s,
        )

    def _note_start(self) -> None:
        evidence = self._evidence
        patched = patched_functions(evidence.torch)
        evidence.first = replace(
            evidence.first,
            patched=patched,
            sums=evidence.sums(),
            held=held_state(evidence.subject, evidence.torch),
        )
        self._state = process_state(evidence.torch)
        evidence.watcher.synchronize()
        self._note_dice()
        self._start_s = time.perf_counter()

    def _note_dice(self) -> None:
        self._evidence.first = replace(self._evidence.first, dice=self._evidence.dice())

    def _warm_up(self) -> None:
        """Do what is done once in a process, for which no benchmark is to answer."""
        with self._budget.paused():
            self._evidence.watcher.warm_up()

    def _findings_of(self, checks: tuple[Check, ...]) -> list[CheckFinding]:
        found: list[CheckFinding] = []
        for check in checks:
            if check.name not in self._allowed and not self._device_lost:
                with self._guarded(check.name):
                    found += check.findings(self._evidence)
        return found

    @property
    def _has_tensors(self) -> bool:
        return bool(vars(self._evidence).get("has_tensors", False))

    @property
    def _device_lost(self) -> bool:
        return self._evidence.on_gpu and DEVICE_ERROR in str(self._broke_off)

    @contextmanager
    def _guarded(self, check: str) -> Iterator[None]:
        """Count the body's time; note what goes wrong in it, and go on."""
        with self._budget.counting():
            try:
                yield
            except OutOfTimeError:
                self._leave_out(check, "no time for more calls")
            except Exception as error:
                self._broke_off = error
                self._leave_out(check, f"failed: {first_line(error)}")

    def _leave_out(self, check: str, reason: str) -> None:
        names = self._left_out.setdefault(reason, [])
        if check not in names:
            names.append(check)
