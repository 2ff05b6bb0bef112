"""What a device and a timer must be able to do. A new accelerator is one more file that implements `Backend`.

The shape follows `torch.accelerator` and `torch.Event`: a current device, streams that run in order, events on them.
"""

from __future__ import annotations

from typing import Protocol

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.probes import Probing
from pytest_gpuperf.measure.warmup import WarmupPolicy
from pytest_gpuperf.settings import BenchmarkSettings


class Timer(Protocol):
    """Times calls of one target. Made anew for every measurement."""

    @property
    def kind(self) -> str:
        """The name of the timer's choice: `events`, `wall`, …"""
        ...

    @property
    def cache(self) -> str:
        """`cold` where caches are flushed before every trial, otherwise `warm`."""
        ...

    @property
    def floor_us(self) -> float:
        """What the timer reads around nothing at all; 0 until `prepare`. It is stated, never subtracted."""
        ...

    def describe(self) -> str:
        """Everything of the method that decides whether two results are comparable, in a few words."""
        ...

    def prepare(self, target: Target) -> None:
        """Call the target once or more, synchronised, and size the batches by what was seen."""
        ...

    def batch(self, target: Target, trials: int) -> Batch:
        """Time up to `trials` calls, at least one; fewer where the device's queue or patience asks for it."""
        ...


class Backend(Protocol):
    """A device that calls are measured on."""

    @property
    def device(self) -> str:
        """The device as torch's factory functions take it: `cuda:0`, `cpu`."""
        ...

    @property
    def lock_name(self) -> str:
        """Unique to the physical device: two measurements under one name must not overlap, in any process."""
        ...

    @property
    def warmup(self) -> WarmupPolicy:
        """How long this device must work before its clocks and caches have settled."""
        ...

    @property
    def least_timed_us(self) -> float:
        """How long the trials of one run take at least, to see more than one moment of a wandering clock."""
        ...

    def machine(self) -> Machine:
        """Say what is measured on, with its software."""
        ...

    def check_usable(self) -> None:
        """Raise `StickyDeviceError` where an earlier failure left the device unusable."""
        ...

    def note_failure(self, culprit: str, error: BaseException, /) -> None:
        """Look, after a call failed, whether the device is still usable, and remember it if not."""
        ...

    def await_call(self, culprit: str, seconds: float, /) -> None:
        """Wait for a call that has returned; raise what it left behind, `DeviceHangsError` if it takes longer."""
        ...

    @property
    def hangs(self) -> bool:
        """Whether the device never came to an end with a call, and keeps this process from ending by itself."""
        ...

    def now_us(self) -> float:
        """Return a monotonic time that budgets are kept by."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""
        ...

    def timer(self, settings: BenchmarkSettings, preferred: str | None = None) -> Timer:
        """Return the timer that `settings` ask for; `auto` may be resolved when it is prepared.

        `preferred` is what `auto` is to be if it can: the kind of the results that these are to be compared with.

        Raises `TimerUnavailableError` where this device has no such timer.
        """
        ...

    def read_state(self) -> DeviceReading:
        """Read clocks, temperature, power and throttling. Takes milliseconds: only between batches."""
        ...

    def peak_memory_bytes(self, target: Target, /) -> int | None:
        """Call once and return the most device memory that the call itself held; None where it cannot be told."""
        ...

    def peak_reserved_bytes(self, target: Target, /) -> int | None:
        """Call once and return how much memory the allocator took from the device for it; None where it cannot be told.

        It is what must fit beside other processes: at least the peak of what the call held, and rounded up by blocks.
        """
        ...

    def probing(self) -> Probing:
        """Say how this device's ceilings are measured."""
        ...

    def work_recorded(self, target: Target, timer: Timer, /) -> bool | None:
        """Whether the target gives the device work at all; `timer` has been prepared for it. None: cannot be told."""
        ...

    def release_memory(self) -> None:
        """Give cached device memory back, so that the next benchmark starts like the first."""
        ...

    def close(self) -> None:
        """Release everything that is kept between measurements."""
        ...
