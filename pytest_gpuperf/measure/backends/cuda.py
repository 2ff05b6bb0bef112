"""A CUDA device through torch. What another accelerator needs is one more file like this."""

from __future__ import annotations

import gc
import platform
import socket
import time
from collections.abc import Callable
from typing import Any

from pytest_gpuperf.measure.backends.base import Timer
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.cupti import detach
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.errors import DeviceHangsError, StickyDeviceError, TimerUnavailableError, first_line
from pytest_gpuperf.measure.garbage import YOUNG_GENERATION
from pytest_gpuperf.measure.gpu_work import profiled_work
from pytest_gpuperf.measure.hanging import ends_within
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.nvml import Nvml
from pytest_gpuperf.measure.probes import Limits, Probing, Sizes, torch_probes
from pytest_gpuperf.measure.timers.auto import AutoTimer
from pytest_gpuperf.measure.timers.device_wall import DeviceWallTimer
from pytest_gpuperf.measure.timers.events import EventsTimer
from pytest_gpuperf.measure.timers.graph import GraphTimer
from pytest_gpuperf.measure.timers.kernel import KernelTimer
from pytest_gpuperf.measure.timers.rig import Rig
from pytest_gpuperf.measure.versions import installed_version
from pytest_gpuperf.measure.warmup import WarmupPolicy
from pytest_gpuperf.settings import BenchmarkSettings

TIMERS: dict[str, Callable[[Rig, str], Timer]] = {
    "events": EventsTimer,
    "graph": GraphTimer,
    "kernel": KernelTimer,
    "wall": DeviceWallTimer,
}
CHOSEN_BY_AUTO = ("events", "graph")
PROBE_TRIALS = 5
COPIES_BYTES = (64 << 20, 256 << 20, 1 << 30)
MATMULS = (
    ("bf16", 4096),
    ("bf16", 8192),
    ("fp16", 4096),
    ("fp16", 8192),
    ("tf32", 4096),
    ("tf32", 8192),
    ("fp32", 4096),
)
LIMITS = Limits(margin=1.1, clock_margin=1.3)
"""Reading alone is some percent faster than copying; at the same clock no matmul is a tenth faster than the library's.
A cool card clocks a quarter higher than one that has been multiplying for a second."""
SHORT_OF_MEMORY = 0.75
"""Share of the device's memory that is free."""


class CudaBackend:
    """Measures calls on one CUDA device."""

    warmup = WarmupPolicy(
        least_work_us=200_000.0, block_work_us=50_000.0, batch_trials=50, longest_us=800_000.0, tolerance=0.01
    )

    least_timed_us = 150_000.0

    def __init__(self, index: int) -> None:
        import torch

        self.index = index
        self.device = f"cuda:{index}"
        self._torch: Any = torch
        self._properties = torch.cuda.get_device_properties(index)
        self.lock_name = f"GPU-{self._properties.uuid}"
        self._nvml = Nvml(str(self._properties.uuid))
        self._rig: Rig | None = None
        self._sticky: tuple[str, str] | None = None
        self.hangs = False

    def machine(self) -> Machine:
        """Say which GPU this is (a MIG slice is named with its profile), and which driver and software drive it."""
        torch = self._torch
        return Machine(
            model=torch.cuda.get_device_name(self.index),
            kind="cuda",
            host=socket.gethostname(),
            uuid=str(self._properties.uuid),
            driver=self._nvml.driver(),
            cuda=torch.version.cuda or "",
            python=platform.python_version(),
            torch=str(torch.__version__),  # a subclass of str, which is not stored as one
            triton=installed_version("triton"),
        )

    def check_usable(self) -> None:
        """Raise what an earlier failure left behind."""
        if self._sticky is not None:
            raise StickyDeviceError(self.device, *self._sticky)

    def note_failure(self, culprit: str, _error: BaseException, /) -> None:
        """See whether the device still computes after a failure; a CUDA error of the sticky kind stays for good."""
        if self._sticky is not None:
            return
        try:
            self.release_memory()
            self._torch.ones(1, device=self.device).sum().item()
        except Exception as after:
            self._sticky = (culprit, first_line(after))

    def await_call(self, culprit: str, seconds: float, /) -> None:
        """Wait for the whole device, every stream of it."""
        if not ends_within(seconds, self.synchronize):
            self.hangs, self._sticky = True, (culprit, f"not done after {seconds:g} s")
            raise DeviceHangsError(self.device, culprit, seconds)

    def now_us(self) -> float:
        """Return the host's monotonic clock."""
        return time.perf_counter_ns() / 1e3

    def synchronize(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize(self.index)

    def timer(self, settings: BenchmarkSettings, preferred: str | None = None) -> Timer:
        """Return the timer that is asked for; `auto` chooses between events and a graph when it is prepared.

        The profiler's hold on the process is let go first.
        """
        detach(self._torch, self.index)
        kind: str = settings.timer
        if kind == "auto":
            if preferred is None or preferred in CHOSEN_BY_AUTO:
                return AutoTimer(self.rig(), settings.cache, preferred)
            kind = preferred
        if kind not in TIMERS:
            raise TimerUnavailableError(
                f"timer `{kind}` does not exist on {self.device}: use one of {', '.join(TIMERS)} (--gpuperf-timer)"
            )
        return TIMERS[kind](self.rig(), settings.cache)

    def rig(self) -> Rig:
        """Return the device's timing tools, made at the first use."""
        if self._rig is None:
            self._rig = Rig(self._torch, self.index, self._nvml)
        return self._rig

    def read_state(self) -> DeviceReading:
        """Read the device through NVML."""
        return self._nvml.read()

    def peak_memory_bytes(self, target: Target, /) -> int | None:
        """Call once; return the most memory that it had requested at a time, beyond what was held before."""
        return self.rig().peak_bytes(target.bind())

    def peak_reserved_bytes(self, target: Target, /) -> int | None:
        """Call once with an empty allocator's cache; return how much more the allocator then held at its peak."""
        call = target.bind()
        with self.rig().current():
            self.synchronize()
            self._torch.cuda.empty_cache()
            self._torch.cuda.reset_peak_memory_stats(self.index)
            before_bytes = self._torch.cuda.memory_reserved(self.index)
            call()
            self.synchronize()
            return int(self._torch.cuda.max_memory_reserved(self.index) - before_bytes)

    def probing(self) -> Probing:
        """Copy buffers that take no more than a quarter of the free memory, and multiply matrices."""
        torch, free_bytes = self._torch, self._torch.cuda.mem_get_info(self.index)[0]
        fitting = [size_bytes for size_bytes in COPIES_BYTES if size_bytes <= free_bytes // 8]
        sizes = Sizes(copies_bytes=fitting or COPIES_BYTES[:1], matmuls=MATMULS)
        return Probing(
            by=f"torch {torch.__version__}, CUDA {torch.version.cuda}",
            cache_bytes=int(self._properties.L2_cache_size) or None,
            probes=lambda: torch_probes(torch, self.device, sizes),
            limits=LIMITS,
        )

    def work_recorded(self, target: Target, timer: Timer, /) -> bool | None:
        """Compare with an empty pair of events; where that leaves a doubt, ask the profiler, which takes seconds."""
        used = timer.chosen if isinstance(timer, AutoTimer) else timer
        probe = used if isinstance(used, EventsTimer) else self._probe(target)
        if not probe.at_floor(probe.batch(target, PROBE_TRIALS)):
            return True
        call = target.bind()
        with self.rig().current():
            seen = profiled_work(self._torch, call, self.index)
        detach(self._torch, self.index)
        return seen

    def release_memory(self) -> None:
        """Give the allocator's cache back, and what unreachable cycles hold.

        A full collection takes a tenth of a second with torch loaded, so it is left until memory is getting short.
        A device in an error state is left alone.
        """
        if self._sticky is not None:
            return
        free_bytes, total_bytes = self._torch.cuda.mem_get_info(self.index)
        gc.collect(*(() if free_bytes < SHORT_OF_MEMORY * total_bytes else (YOUNG_GENERATION,)))
        self._torch.cuda.empty_cache()

    def close(self) -> None:
        """Free the timing tools."""
        if self._rig is not None and self._sticky is None:
            self._rig.close()
        self._rig = None

    def _probe(self, target: Target) -> EventsTimer:
        probe = EventsTimer(self.rig(), "warm")
        probe.prepare(target)
        return probe
