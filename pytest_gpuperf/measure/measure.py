"""Measure one callable: prepare, warm up, time until there is enough, summarise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_gpuperf.measure.backends.base import Backend, Timer
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.device_state import summarise_readings
from pytest_gpuperf.measure.errors import NoGpuWorkError
from pytest_gpuperf.measure.garbage import collection_paused
from pytest_gpuperf.measure.hazards import hazards
from pytest_gpuperf.measure.host_clock import check_clock_runs
from pytest_gpuperf.measure.interpreter import interpreter_forbidden
from pytest_gpuperf.measure.measurement import Measurement
from pytest_gpuperf.measure.notes import result_notes
from pytest_gpuperf.measure.plan import Identity, Plan
from pytest_gpuperf.measure.sampling import Sampling
from pytest_gpuperf.measure.summary import summarise
from pytest_gpuperf.measure.warmup import warm_up
from pytest_gpuperf.naming import failures_named

__all__ = ["Measurement", "failures_noted", "measure", "measurement_of", "prepare"]


def measure(call: Callable[..., Any], plan: Plan, backend: Backend) -> Measurement:
    """Measure `call` on the back end's device; it is called as `call()`, or with what `plan.setup` returns.

    Raises a `MeasureError` where no honest figure can be given; whatever `call` raises goes through as it is.
    """
    backend.check_usable()
    check_clock_runs()
    backend.release_memory()
    target = Target(call, plan.setup)
    timer = plan.timer if plan.timer is not None else backend.timer(plan.settings, plan.preferred_timer)
    with failures_noted(plan, backend), collection_paused():
        with plan.annotate("prepare"):
            prepare(timer, target, backend)
        with plan.annotate("warm-up"):
            warm_up(timer, target, plan.settings.warmup, backend.warmup, backend.now_us)
        sampling = Sampling(timer, target, backend)
        with plan.annotate("trials"):
            sampling.run(plan.settings)
        peak_memory_bytes = backend.peak_memory_bytes(target)
    return measurement_of(sampling, timer, plan, peak_memory_bytes)


def prepare(timer: Timer, target: Target, backend: Backend) -> None:
    """Everything that happens once: compiling, autotuning, loading, the size of a batch, the checks."""
    with interpreter_forbidden():
        timer.prepare(target)
    if backend.work_recorded(target, timer) is False:
        raise NoGpuWorkError(backend.device)


def measurement_of(sampling: Sampling, timer: Timer, plan: Plan, peak_memory_bytes: int | None) -> Measurement:
    """Summarise what was sampled."""
    trials = sampling.trials()
    found = hazards()
    record = summarise(
        trials,
        session=plan.session,
        peak_memory_bytes=peak_memory_bytes,
        device=summarise_readings(sampling.readings),
        notes=(*found, *sampling.all_notes(), *result_notes(trials, timer, unqueued=sampling.unqueued)),
    )
    identity = Identity(timer=timer.describe(), cache=timer.cache, workload=plan.workload)
    return Measurement(record=record, trials=trials, identity=identity, hazards=found)


@contextmanager
def failures_noted(plan: Plan, backend: Backend) -> Iterator[None]:
    """Let the back end look at the device after any failure, so that what follows is not blamed for it."""
    name = plan.benchmark.name
    try:
        with failures_named(f"{name}, while it was measured" if name else ""):
            yield
    except BaseException as error:
        backend.note_failure(plan.benchmark.label, error)
        raise
