"""The CPU: the host is the device, so its clock times the call itself."""

from __future__ import annotations

import functools
import gc
import os
import platform
import re
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_gpuperf.measure.backends.base import Timer
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.errors import TimerUnavailableError
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.probes import Limits, Probe, Probing, Sizes, numpy_probes, torch_probes, torch_threads
from pytest_gpuperf.measure.timers.loops import LoopTimer
from pytest_gpuperf.measure.versions import installed_version
from pytest_gpuperf.measure.warmup import WarmupPolicy
from pytest_gpuperf.settings import BenchmarkSettings

CPU_INFO = Path("/proc/cpuinfo")
CPUS = Path("/sys/devices/system/cpu")
CACHE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MEMORY_IN_USE = Path("/proc/self/statm")
GROWTH_BYTES = 256 << 20
LEAST_COPY_BYTES = 64 << 20
COPY_TO_CACHE_RATIO = 2
MOST_COPY_BYTES = 256 << 20
MATMULS = (("fp32", 512), ("fp32", 1024), ("bf16", 512))
LIMITS = Limits(margin=1.5, clock_margin=1.5)
"""Generous: a core alone clocks higher than all together, and a shared machine may have been busy with others."""
MODEL_FIELDS = ("model name", "Model", "Hardware", "cpu")


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class CpuBackend:
    """Measures calls on the CPU, torch's own CPU operations among them."""

    device = "cpu"
    lock_name = "cpu"
    warmup = WarmupPolicy(least_work_us=0.0, block_work_us=400.0, batch_trials=5, longest_us=20_000.0, tolerance=0.05)

    least_timed_us = 0.0

    def __init__(self) -> None:
        self._settled_bytes: int | None = None
        """What this process held when there was last nothing to collect, or less since."""

    def machine(self) -> Machine:
        """Say which CPU this is; torch's and Triton's versions are looked up without importing them."""
        return Machine(
            model=cpu_model(),
            kind="cpu",
            host=socket.gethostname(),
            python=platform.python_version(),
            torch=installed_version("torch"),
            triton=installed_version("triton"),
            threads=allowed_threads(),
        )

    hangs = False

    def check_usable(self) -> None:
        """Do nothing: a CPU has no error state of its own."""

    def note_failure(self, _culprit: str, _error: BaseException, /) -> None:
        """Do nothing: a failed call leaves the CPU as it was."""

    def await_call(self, _culprit: str, _seconds: float, /) -> None:
        """Do nothing: a call has finished when it returns."""

    def now_us(self) -> float:
        """Return the host's monotonic clock."""
        return time.perf_counter_ns() / 1e3

    def synchronize(self) -> None:
        """Do nothing: a call has finished when it returns."""

    def timer(self, settings: BenchmarkSettings, _preferred: str | None = None) -> LoopTimer:
        """Return the wall timer; the others need a GPU."""
        if settings.timer not in ("auto", "wall"):
            raise TimerUnavailableError(
                f"timer `{settings.timer}` needs a GPU, and this measures on the CPU: "
                "use `wall` or `auto` (--gpuperf-timer), or a GPU (--gpuperf-device)"
            )
        return LoopTimer()

    def read_state(self) -> DeviceReading:
        """Return an empty reading: nothing about a CPU can be read the same way everywhere."""
        return DeviceReading()

    def peak_memory_bytes(self, _target: Target, /) -> int | None:
        """Return None: the host's memory is not counted."""
        return None

    def peak_reserved_bytes(self, _target: Target, /) -> int | None:
        """Return None: the host's memory is not counted."""
        return None

    def probing(self) -> Probing:
        """Copy on all cores; multiply with torch where it is loaded, else with NumPy."""
        held_bytes = cache_bytes()
        wanted_bytes = max(COPY_TO_CACHE_RATIO * (held_bytes or 0), LEAST_COPY_BYTES)
        largest_bytes = min(wanted_bytes, MOST_COPY_BYTES, available_bytes() // 8)
        torch, cores = sys.modules.get("torch"), usable_cores()
        software = f"numpy {installed_version('numpy')}" if torch is None else f"torch {torch.__version__}"
        return Probing(
            by=f"{software} on {cores} cores",
            cache_bytes=held_bytes,
            probes=lambda: _probes((largest_bytes // 2, largest_bytes), torch, cores),
            limits=LIMITS,
        )

    def work_recorded(self, _target: Target, _timer: Timer, /) -> bool | None:
        """Return True: whatever ran, ran here."""
        return True

    def release_memory(self) -> None:
        """Free what unreachable cycles hold, once this process has grown by enough to make up for the time it takes.

        While calls are timed nothing but young garbage is collected, and what was held for the checks has aged by
        then: the outputs of a thousand benchmarks would pile up.
        """
        present_bytes, settled_bytes = resident_bytes(), self._settled_bytes
        if settled_bytes is not None and present_bytes - settled_bytes > GROWTH_BYTES:
            gc.collect()
            self._settled_bytes = resident_bytes()
        else:
            self._settled_bytes = present_bytes if settled_bytes is None else min(settled_bytes, present_bytes)

    def close(self) -> None:
        """Do nothing: nothing is kept between measurements."""


def cpu_model() -> str:
    """Return the CPU's name: from /proc/cpuinfo, else what the platform module knows."""
    try:
        text = CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return model_in_cpu_info(text) or platform.processor() or platform.machine() or "unknown CPU"


def allowed_threads() -> str:
    """Say how many cores this process may use, and how many threads the environment allows libraries."""
    cores = usable_cores()
    stated = (f"{variable}={os.environ[variable]}" for variable in THREAD_VARIABLES if os.environ.get(variable))
    return ", ".join((f"{cores} core{'' if cores == 1 else 's'}", *stated))


def model_in_cpu_info(text: str) -> str:
    """Return the model name in the text of /proc/cpuinfo; empty where there is none (many ARM systems)."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), " ".join(value.split()))
    return next((fields[name] for name in MODEL_FIELDS if fields.get(name)), "")


def _probes(copies_bytes: Sequence[int], torch: Any, cores: int) -> Iterator[Probe]:
    yield from numpy_probes(Sizes(copies_bytes=copies_bytes, matmuls=MATMULS if torch is None else ()), cores)
    if torch is not None:
        with torch_threads(torch, cores):
            yield from torch_probes(torch, "cpu", Sizes(copies_bytes=(), matmuls=MATMULS))


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def cache_bytes(cpus: Path = CPUS) -> int | None:
    """Return what all caches of all cores hold together; None where the system does not tell.

    Levels may hold the same lines or not, so that their sum is the most that they can keep away from memory.
    """
    found: dict[tuple[str, str, str], int] = {}
    for index in cpus.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level, kind, size, shared = (
                (index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list")
            )
        except OSError:
            continue
        number = re.fullmatch(r"(\d+)([KMG]?)", size)
        if number is not None and kind != "Instruction":
            found[level, kind, shared] = int(number[1]) * CACHE_UNITS.get(number[2], 1)
    return sum(found.values()) or None


def available_bytes(memory_info: Path = Path("/proc/meminfo")) -> int:
    """Return the host's memory that is free to use; what the probes least need where the system does not tell."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", memory_info.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) << 10 if found else 8 * LEAST_COPY_BYTES


def resident_bytes() -> int:
    """Return the memory that this process holds; 0 where the system does not tell."""
    try:
        return int(MEMORY_IN_USE.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
