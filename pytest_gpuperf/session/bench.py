"""The measuring end of one pytest process: the back end, and what each test's calls yielded on it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import pytest

from pytest_gpuperf.calls import BenchmarkCall, BenchResult, Together
from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.checks.inspection import Inspected
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.backends.base import Backend, Timer
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.device_lock import exclusive
from pytest_gpuperf.measure.errors import MeasureError, StickyDeviceError
from pytest_gpuperf.measure.fingerprint import describe_arguments
from pytest_gpuperf.measure.interleaved import measure_interleaved
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.measurement import Measurement
from pytest_gpuperf.measure.notes import LAUNCH_BOUND_NOTE
from pytest_gpuperf.measure.physics import Physics
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Plan, Workload, timer_kind
from pytest_gpuperf.measure.samples import RunRecord, Trials
from pytest_gpuperf.options import Options
from pytest_gpuperf.session.checking import Listing, Unwatched, Watch
from pytest_gpuperf.session.limits import Judged, Limits
from pytest_gpuperf.session.saying import say
from pytest_gpuperf.session.subtests import Subtests
from pytest_gpuperf.session.tracing import Tracing
from pytest_gpuperf.settings import BenchmarkSettings, TimerChoice

StoredTimer = Callable[[BenchmarkId], str | None]
"""The kind of timer that a benchmark was measured with in what it is to be compared with, if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One benchmark as this process measured it."""

    benchmark: BenchmarkId
    settings: BenchmarkSettings
    identity: Identity
    record: RunRecord
    trials: Trials
    hazards: tuple[str, ...]
    checks: tuple[CheckFinding, ...] = ()
    physics: Physics


def stable_node_id(item: pytest.Item) -> str:
    """Return the node id as it is without pytest-xdist, which appends `@group` to grouped tests in its workers.

    Of several groups its older versions append the closest, later ones all of them.
    """
    if not item.config.getoption("loadgroup", False):  # what a worker is told; its `dist` depends on the version
        return item.nodeid
    marks = item.iter_markers("xdist_group")
    groups = [str(mark.args[0] if mark.args else mark.kwargs.get("name", "default")) for mark in marks]
    for appended in ("_".join(sorted(set(groups))), *groups[:1]):
        if groups and item.nodeid.endswith(f"@{appended}"):
            return item.nodeid.removesuffix(f"@{appended}")
    return item.nodeid


class Bench:
    """Makes the back end when first asked, and hands out a measurer a test."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self._config = config
        self._options = options
        self._taken: dict[str, list[Measured]] = {}
        self.stored_timer: StoredTimer = lambda _: None
        self.lists_kernels = False
        """Whether this fresh process is to record the kernels of what it measured."""
        self.subtests = Subtests()

    @functools.cached_property
    def backend(self) -> Backend:
        """The back end of the measured device; raises `pytest.UsageError` where there is no such device."""
        device = self._options.session.device
        made: Backend | None = self._config.hook.pytest_gpuperf_make_backend(config=self._config, device=device)
        if made is not None:
            return made
        try:
            return backend_for(device)
        except MeasureError as error:
            raise pytest.UsageError(str(error)) from None

    @functools.cached_property
    def machine(self) -> Machine:
        """What is measured on, with what the `pytest_gpuperf_machine_info` hooks add."""
        import msgspec

        machine = self.backend.machine()
        added: dict[str, str] = {}
        for facts in self._config.hook.pytest_gpuperf_machine_info(config=self._config, machine=machine):
            added.update(facts or {})
        return msgspec.structs.replace(machine, extra={**machine.extra, **added}) if added else machine

    @functools.cached_property
    def tracing(self) -> Tracing:
        """The ranges and profiles that were asked for."""
        return Tracing(self._options.session, self._config.invocation_params.dir, self.backend)

    @functools.cached_property
    def limits(self) -> Limits:
        """What holds measurements against the machine's ceilings and their tests' limits."""
        return Limits(
            self.backend,
            self._options.session.ceilings,
            off=self._options.fresh_role,
            say=functools.partial(say, self._config),
        )

    def timer_for(self, settings: BenchmarkSettings) -> Timer | None:
        """Return the timer that a `pytest_gpuperf_make_timer` hook makes; None for the back end's own."""
        hook = self._config.hook.pytest_gpuperf_make_timer
        made: Timer | None = hook(config=self._config, backend=self.backend, settings=settings)
        return made

    def watch(self, call: BenchmarkCall, settings: BenchmarkSettings) -> Unwatched:
        """Return what follows a benchmark; fresh processes leave checks to the session that asked for them."""
        if not self._options.fresh_role:
            return Watch(call, settings, self.backend)
        return Listing(call, settings, self.backend) if self.lists_kernels else Unwatched()

    def peak_reserved_bytes(self, target: Target) -> int | None:
        """Return what the allocator takes for one more call; fresh processes, which tell nobody, do not ask."""
        if self._options.fresh_role:
            return None
        try:
            return self.backend.peak_reserved_bytes(target)
        except Exception as error:
            self.backend.note_failure("a call whose reserved memory was looked at", error)
            raise

    @property
    def only_measures(self) -> bool:
        """Whether this is a fresh process, which measures for a session and holds no claim of its tests."""
        return self._options.fresh_role

    def measurer(self, item: pytest.Item, settings: BenchmarkSettings) -> ItemMeasurer:
        """Return what measures the calls of `item`."""
        return ItemMeasurer(self, stable_node_id(item), settings)

    def add(self, node_id: str, measured: Measured) -> None:
        """Keep what a test measured until its fate is known."""
        self._taken.setdefault(node_id, []).append(measured)

    def take(self, node_id: str) -> list[Measured]:
        """Return and forget what a test measured."""
        return self._taken.pop(node_id, [])

    def check_usable(self) -> None:
        """Raise `StickyDeviceError` where a test left the device in an error state."""
        if self._is_made:
            self.backend.check_usable()

    def await_call(self, culprit: str) -> None:
        """Wait for the device; raise `DeviceHangsError` where it takes longer than the session allows."""
        self.backend.await_call(culprit, self._options.session.hang_timeout)

    @property
    def hangs(self) -> bool:
        """Whether the device keeps this process from ending by itself."""
        return self._is_made and self.backend.hangs

    def after_test(self) -> None:
        """Start the next test with the device's memory as the first one found it."""
        if self._is_made:
            self.backend.release_memory()

    def close(self) -> None:
        """Release the back end, if it was ever made."""
        if self._is_made:
            self.backend.close()

    @property
    def _is_made(self) -> bool:
        return "backend" in self.__dict__


class ItemMeasurer:
    """Measures the calls of one test."""

    def __init__(self, bench: Bench, node_id: str, settings: BenchmarkSettings) -> None:
        self._bench = bench
        self._node_id = node_id
        self._settings = settings

    def check_usable(self) -> None:
        """Refuse to go on on a device that an earlier test left in an error state."""
        self._bench.backend.check_usable()

    def note_failure(self, error: BaseException) -> None:
        """Look whether the device survived a call that failed."""
        if not isinstance(error, StickyDeviceError):
            self._bench.backend.note_failure(self._node_id, error)

    def await_call(self) -> None:
        """Wait for a call that has returned, as long as the session allows."""
        self._bench.await_call(self._node_id)

    def watch(self, call: BenchmarkCall) -> Unwatched:
        """Return what follows the call from before it is made for the first time."""
        return self._bench.watch(call, self._settings)

    def measure(self, call: BenchmarkCall, watch: Unwatched) -> BenchResult:
        """Measure the call and keep the measurement for the verdict on this test."""
        plan = self._plan(call, self._preferred_timer([call]))
        traced = self._traced(call)
        with exclusive(self._bench.backend.lock_name):
            return self._concluded(call, plan, watch, lambda: measure(traced, plan, self._bench.backend))

    def measure_together(self, calls: Sequence[BenchmarkCall], watches: Sequence[Unwatched]) -> Together:
        """Measure the calls in turn and keep the measurements for the verdict on this test."""
        preferred = self._preferred_timer(calls)
        plans = [self._plan(call, preferred) for call in calls]
        contenders = [(self._traced(call), plan) for call, plan in zip(calls, plans, strict=True)]
        with exclusive(self._bench.backend.lock_name):
            found = measure_interleaved(contenders, self._bench.backend)
            # The checks' calls come after the rounds: what one of them counts in between may be another's.
            results = tuple(
                self._concluded(call, plan, watch, functools.partial(_as_it_is, measurement))
                for call, plan, watch, measurement in zip(calls, plans, watches, found.measurements, strict=True)
            )
        return Together(results=results, log_times=found.log_times, binding=not self._bench.only_measures)

    def _traced(self, call: BenchmarkCall) -> Callable[..., object]:
        """Return the call with every trial marked, and its arguments still to be seen: a graph gets copies of them."""
        return _bound(replace(call, fn=self._bench.tracing.each_trial(call.fn)))

    def _plan(self, call: BenchmarkCall, preferred_timer: str | None) -> Plan:
        return Plan(
            benchmark=BenchmarkId.of(self._node_id, call.name),
            settings=self._settings,
            workload=_workload(call),
            setup=call.setup,
            timer=self._bench.timer_for(self._settings),
            preferred_timer=preferred_timer,
            annotate=self._bench.tracing.range,
        )

    def _concluded(
        self, call: BenchmarkCall, plan: Plan, watch: Unwatched, measuring: Callable[[], Measurement]
    ) -> BenchResult:
        """Measure, look at what was measured, and keep it."""
        bound, tracing = _bound(call), self._bench.tracing
        with tracing.range(plan.benchmark.label):
            measurement, inspected = watch.around(measuring)
            tracing.profile(plan.benchmark, Target(bound, call.setup))
            judged = self._bench.limits.judge(
                measurement, plan.settings, lambda: self._measured_again(call, plan, measurement)
            )
            peak_reserved_bytes = self._bench.peak_reserved_bytes(Target(bound, call.setup))
        measurement = judged.measurement
        inspected = replace(inspected, findings=(*inspected.findings, *judged.findings))
        if inspected.broke_off is not None:
            self.note_failure(inspected.broke_off)
        self._bench.add(
            self._node_id,
            Measured(
                benchmark=plan.benchmark,
                settings=self._settings,
                identity=measurement.identity,
                record=measurement.record,
                trials=measurement.trials,
                hazards=tuple(measurement.hazards),
                checks=inspected.findings,
                physics=judged.physics,
            ),
        )
        return _result(judged, inspected, peak_reserved_bytes)

    def _measured_again(self, call: BenchmarkCall, plan: Plan, first: Measurement) -> Measurement:
        again = replace(plan, timer=self._bench.timer_for(plan.settings), preferred_timer=timer_kind(first.identity))
        return measure(_bound(call), again, self._bench.backend)

    def _preferred_timer(self, calls: Sequence[BenchmarkCall]) -> str | None:
        """Return the kind of timer that all calls' results are to be compared with, where `auto` may choose it."""
        # Like is compared with like: what `auto` chose before is chosen again, where that was one choice, and one of
        # ours: the timers of a hook are its own to choose, or gone.
        kinds = {self._bench.stored_timer(BenchmarkId.of(self._node_id, call.name)) for call in calls} - {None}
        return kinds.pop() if len(kinds) == 1 and kinds <= set(get_args(TimerChoice)) else None


def _as_it_is(measurement: Measurement) -> Measurement:
    return measurement


def _bound(call: BenchmarkCall) -> Callable[..., object]:
    return call.fn if call.setup is not None else functools.partial(call.fn, *call.args, **call.kwargs)


def _workload(call: BenchmarkCall) -> Workload:
    args, kwargs = (call.args, call.kwargs) if call.setup is None else call.setup()
    arguments = describe_arguments(args, kwargs)
    return Workload(
        arguments=arguments if call.mode == "forward" else f"{call.mode} of {arguments}",
        bytes_moved=None if call.bytes_moved is None else float(call.bytes_moved),
        flops=None if call.flops is None else float(call.flops),
    )


def _result(judged: Judged, inspected: Inspected, peak_reserved_bytes: int | None) -> BenchResult:
    measurement, physics = judged.measurement, judged.physics
    record = measurement.record
    return BenchResult(
        mean_us=record.mean_us,
        median_us=math.exp(record.log_median),
        std_us=record.sd_us,
        min_us=record.min_us,
        p5_us=record.p5_us,
        p95_us=record.p95_us,
        half_width_us=record.half_width_us,
        trials=record.trials,
        runs=1,
        host_us=record.host_us,
        peak_memory_bytes=record.peak_memory_bytes,
        clock_ghz=record.clock_ghz,
        timer=measurement.identity.timer,
        cache=measurement.identity.cache,
        notes=record.notes,
        findings=inspected.findings,
        kernels=inspected.kernels,
        terabytes_per_second=physics.terabytes_per_second,
        teraflops_per_second=physics.teraflops_per_second,
        ceiling_share=physics.share,
        bound=physics.bound,
        ceiling=physics.ceiling,
        launch_bound=LAUNCH_BOUND_NOTE in record.notes,
        peak_reserved_bytes=peak_reserved_bytes,
        record=record,
        raw=measurement.trials,
    )
