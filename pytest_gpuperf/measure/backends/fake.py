"""A scripted device for tests: callables under test advance its clock, and nothing depends on hardware or real time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from pytest_gpuperf.measure.backends.base import Timer
from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.errors import (
    DeviceHangsError,
    GraphUnavailableError,
    StickyDeviceError,
    TimerUnavailableError,
    first_line,
)
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.notes import AUTO_NOTE, UNQUEUED_NOTE
from pytest_gpuperf.measure.probes import COPY, Limits, Probe, Probing
from pytest_gpuperf.measure.warmup import WarmupPolicy
from pytest_gpuperf.settings import BenchmarkSettings

REFERENCE_CLOCK_GHZ = 1.7
"""At this clock a call takes just what the callable says."""
BATCH_LIMIT = 50
TRIAL_OVERHEAD_US = 60.0
RESERVED_BLOCK_BYTES = 2 << 20
COPIED_BYTES = 1e9
MULTIPLIED_FLOPS = 1e12
ScriptedClock = float | Callable[[int], float] | None


class FakeDeviceError(RuntimeError):
    """Raised by a callable under test: a failure that leaves the device unusable."""


@dataclass(slots=True)
class FakeClock:
    """What a callable under test tells the fake device; all times in microseconds of scripted time."""

    now_us: float = 0.0
    device_us: float = 0.0
    host_us: float = 0.0
    held_bytes: int = 0
    synchronised: bool = False
    endless: bool = False

    def advance_us(self, device_us: float) -> None:
        """Give the device this much work (at the reference clock)."""
        self.device_us += device_us

    def advance_host_us(self, host_us: float) -> None:
        """Spend this much time on the host."""
        self.host_us += host_us

    def allocate(self, count_bytes: int) -> None:
        """Hold this much more device memory until the call returns."""
        self.held_bytes += count_bytes

    def synchronize(self) -> None:
        """Wait for the device inside the call."""
        self.synchronised = True

    def hang(self) -> None:
        """Give the device work without an end."""
        self.endless = True

    def reset(self) -> None:
        """Forget what the last call did; the time goes on."""
        self.device_us = self.host_us = 0.0
        self.held_bytes = 0
        self.synchronised = False


@dataclass(kw_only=True)
class FakeBackend:
    """A scripted GPU. Every process is another run, whose times differ by `between_run_sd` for each benchmark.

    `clock_ghz` is the metered clock, constant or by the number of the batch (counted from 0 over the backend's life,
    warm-up included); None: not metered. Times go with its inverse to the power of `clock_sensitivity`.
    `run` makes the noise reproducible across processes; without it the process id takes its place.
    """

    model: str = "Fake GPU"
    seed: int = 0
    between_run_sd: float = 0.003
    trial_sd: float = 0.005
    clock_ghz: ScriptedClock = None
    clock_sensitivity: float = 1.0
    run: int | None = None
    throttled_readings: Collection[int] = ()
    """Numbers of the readings of the device's state, counted from 0, that report throttling."""
    device: str = "cpu"
    """Where torch's factory functions are to make tensors: there is no fake memory."""
    clock: FakeClock = field(default_factory=FakeClock)
    warmup: WarmupPolicy = field(
        default_factory=lambda: WarmupPolicy(
            least_work_us=1000.0, block_work_us=300.0, batch_trials=10, longest_us=20_000.0, tolerance=0.05
        )
    )
    least_timed_us: float = 0.0
    copy_bytes_per_s: float = 4e12
    flops_per_s: Mapping[str, float] = field(default_factory=lambda: {"bf16": 8e14, "tf32": 4e14, "fp32": 5e13})
    """What the ceilings are measured to be, by arithmetic."""
    cache_bytes: int | None = 60_000_000
    probings: int = 0
    """How often the ceilings were measured."""
    graph_below_us: float = 0.0
    """What `auto` takes a graph for; scripted graphs read what events read."""
    capturable: bool = True
    closed: bool = False
    hangs: bool = False
    batches_taken: int = 0
    readings_taken: int = 0
    _sticky: tuple[str, str] | None = None
    _noise: tuple[int, random.Random] | None = None

    @property
    def lock_name(self) -> str:
        """One lock for each model."""
        return self.model

    def machine(self) -> Machine:
        """Say what the test made up."""
        return Machine(model=self.model, kind="cuda", host="fake-host", uuid=f"fake-{self.model}")

    def check_usable(self) -> None:
        """Raise after a `FakeDeviceError`."""
        if self._sticky is not None:
            raise StickyDeviceError(self.model, *self._sticky)

    def note_failure(self, culprit: str, error: BaseException, /) -> None:
        """Become unusable if the callable said so."""
        self.clock.reset()
        if isinstance(error, FakeDeviceError) and self._sticky is None:
            self._sticky = (culprit, first_line(error))

    def await_call(self, culprit: str, seconds: float, /) -> None:
        """Raise after a call that said it would never end."""
        if self.clock.endless:
            self.hangs, self._sticky = True, (culprit, f"not done after {seconds:g} s")
            raise DeviceHangsError(self.model, culprit, seconds)

    def now_us(self) -> float:
        """Return the scripted time."""
        return self.clock.now_us

    def synchronize(self) -> None:
        """Do nothing: scripted work is done when the call returns."""

    def timer(self, settings: BenchmarkSettings, preferred: str | None = None) -> FakeTimer:
        """Return a timer; `auto` chooses between events and a graph when it is prepared, as on a GPU."""
        kind: str = preferred or "auto" if settings.timer == "auto" else settings.timer
        if kind not in ("auto", "events", "graph", "wall"):
            raise TimerUnavailableError(f"timer `{kind}` does not exist on the fake device")
        return FakeTimer(self, kind, settings.cache, may_choose=settings.timer == "auto")

    def read_state(self) -> DeviceReading:
        """Return the scripted clock, throttled where the script says so."""
        throttled = self.readings_taken in self.throttled_readings
        self.readings_taken += 1
        return DeviceReading(
            sm_clock_ghz=self.metered_clock_ghz(),
            throttle_reasons=("scripted",) if throttled else (),
            throttled=throttled,
        )

    def peak_memory_bytes(self, target: Target, /) -> int | None:
        """Call once and return what the callable said that it held."""
        call = target.bind()
        self.clock.reset()
        call()
        return self.clock.held_bytes

    def peak_reserved_bytes(self, target: Target, /) -> int | None:
        """Call once and round what it held up to whole blocks."""
        held_bytes = self.peak_memory_bytes(target) or 0
        return -(-held_bytes // RESERVED_BLOCK_BYTES) * RESERVED_BLOCK_BYTES

    def probing(self) -> Probing:
        """Measure what the script says."""
        return Probing(
            by="a script",
            cache_bytes=self.cache_bytes,
            probes=self._probes,
            limits=Limits(margin=1.1, clock_margin=1.3),
        )

    def _probes(self) -> Iterator[Probe]:
        self.probings += 1
        rates = {COPY: self.copy_bytes_per_s, **self.flops_per_s}
        for what, per_s in rates.items():
            amount = COPIED_BYTES if what == COPY else MULTIPLIED_FLOPS
            yield Probe(what=what, amount=amount, call=partial(self.clock.advance_us, amount / per_s * 1e6))

    def work_recorded(self, target: Target, _timer: Timer, /) -> bool | None:
        """Whether the callable advanced the device's clock."""
        call = target.bind()
        self.clock.reset()
        call()
        return self.clock.device_us > 0.0

    def release_memory(self) -> None:
        """Do nothing: there is no memory."""

    def close(self) -> None:
        """Remember that the session closed it."""
        self.closed = True

    def metered_clock_ghz(self) -> float | None:
        """Return the clock at the present batch."""
        return self.clock_ghz(self.batches_taken) if callable(self.clock_ghz) else self.clock_ghz

    def noise(self) -> random.Random:
        """Return this process's generator; a forked child gets its own."""
        process = os.getpid()
        if self._noise is None or self._noise[0] != process:
            run = process if self.run is None else self.run
            self._noise = (process, random.Random(f"{self.seed}/{run}"))
        return self._noise[1]


class FakeTimer:
    """Reads the scripted clock around each call."""

    floor_us = 0.0

    def __init__(self, backend: FakeBackend, kind: str, cache: str, *, may_choose: bool) -> None:
        self.kind = "events" if kind == "auto" else kind
        self.cache = cache
        self._backend = backend
        self._run_factor = 1.0 + backend.between_run_sd * backend.noise().gauss(0.0, 1.0)
        self._pilot = kind == "auto"
        self._may_choose = may_choose
        self._note = ""

    def describe(self) -> str:
        """Say that this is scripted."""
        return f"{self.kind}, scripted"

    def prepare(self, target: Target) -> None:
        """Call once, and choose by what it took."""
        call = target.bind()
        self._backend.clock.reset()
        call()
        if self._pilot and self._backend.clock.device_us < self._backend.graph_below_us:
            self.kind = "graph"
        self._backend.clock.reset()
        if self.kind == "graph" and not self._backend.capturable:
            if not self._may_choose:
                raise GraphUnavailableError("the script says so")
            self.kind = "events"
        self._note = f"{AUTO_NOTE}{self.kind}" if self._may_choose and self._backend.graph_below_us else ""

    def batch(self, target: Target, trials: int) -> Batch:
        """Call up to `BATCH_LIMIT` times; the scripted time passes by what the calls and their preparations take."""
        clock_ghz = self._backend.metered_clock_ghz()
        slowed = 1.0 if clock_ghz is None else (REFERENCE_CLOCK_GHZ / clock_ghz) ** self._backend.clock_sensitivity
        measured = [self._trial(target, slowed) for _ in range(min(trials, BATCH_LIMIT))]
        work_us = sum(device + TRIAL_OVERHEAD_US for device, _, _ in measured)
        unqueued = any(waited for _, _, waited in measured)
        self._backend.batches_taken += 1
        self._backend.clock.now_us += work_us
        return Batch(
            times_us=tuple(device for device, _, _ in measured),
            host_us=tuple(host for _, host, _ in measured),
            clocks_ghz=() if clock_ghz is None else (clock_ghz,) * len(measured),
            work_us=work_us,
            unqueued=unqueued,
            notes=tuple(note for note in (self._note, UNQUEUED_NOTE if unqueued else "") if note),
        )

    def _trial(self, target: Target, slowed: float) -> tuple[float, float, bool]:
        """Return one call's time on the device, its time on the host, and whether it waited for the device."""
        clock = self._backend.clock
        call = target.bind()
        clock.reset()
        call()
        noise = 1.0 + self._backend.trial_sd * self._backend.noise().gauss(0.0, 1.0)
        return clock.device_us * self._run_factor * slowed * noise, clock.host_us, clock.synchronised
