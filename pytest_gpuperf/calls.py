"""What passes between the callable that tests use and what measures its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pytest_gpuperf.checks.finding import CheckFinding
    from pytest_gpuperf.checks.launches import KernelUse
    from pytest_gpuperf.measure.passes import Mode
    from pytest_gpuperf.measure.samples import RunRecord, Trials

Inputs = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCall:
    """One call to be measured, as the test stated it."""

    fn: Callable[..., object]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    setup: Callable[[], Inputs] | None = None
    reference: Callable[..., object] | None = None
    bytes_moved: float | None = None
    flops: float | None = None
    name: str = ""
    mode: Mode = "forward"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """What one measurement in this process found. Times are of one call, in microseconds; the mean is the headline."""

    mean_us: float
    median_us: float
    std_us: float
    min_us: float
    p5_us: float
    p95_us: float
    half_width_us: float
    """Half the width of the mean's 95 % interval (Student's t, effective number of trials)."""
    trials: int
    runs: int
    host_us: float | None
    """The host's time to dispatch one call."""
    peak_memory_bytes: int | None
    clock_ghz: float | None
    """SM clock, metered on the GPU before every trial."""
    timer: str
    cache: str
    notes: tuple[str, ...]
    findings: tuple[CheckFinding, ...]
    """What the checks found: reasons to doubt the figures, each with `check`, `seen`, `why`, `remedy` and `line`."""
    kernels: tuple[KernelUse, ...] | None
    """The kernels, copies and memsets of one call, the longest first; None where they were not recorded."""
    peak_reserved_bytes: int | None
    """What the device's allocator took for one call, in whole blocks."""
    launch_bound: bool
    """Whether the host takes longer to dispatch a call than the device to run it."""
    terabytes_per_second: float | None
    """The stated bytes_moved in the mean time."""
    teraflops_per_second: float | None
    """The stated flops in the mean time."""
    ceiling_share: float | None
    """The least time that this machine's ceilings allow over the mean: 1 is the speed of light."""
    bound: str
    """Which ceiling that is: `memory`, `compute`, or empty where none applies."""
    ceiling: str
    """The ceiling in words: `4.27 TB/s copied`, `797 TFLOP/s bf16`."""
    record: RunRecord = field(repr=False)
    raw: Trials = field(repr=False)


class Watch(Protocol):
    """What follows a benchmark from before its first call."""

    def reference_done(self) -> None:
        """Note that the reference has returned."""

    def first_call(self, output: object, expected: object) -> None:
        """Take the verified call's output and the reference's."""


class Measurer(Protocol):
    """What measures the calls of one test."""

    def check_usable(self) -> None:
        """Raise where the device cannot be measured on any more."""

    def note_failure(self, error: BaseException) -> None:
        """Look whether the device survived a call that raised."""

    def await_call(self) -> None:
        """Wait for a call that has returned; raise what it left behind on the device."""

    def watch(self, call: BenchmarkCall) -> Any:
        """Return the `Watch` on a call that is about to be made for the first time."""

    def measure(self, call: BenchmarkCall, watch: Any) -> BenchResult:
        """Measure the call, which has been made and verified once under `watch`."""

    def measure_together(self, calls: Sequence[BenchmarkCall], watches: Sequence[Any]) -> Together:
        """Measure the calls in turn, each of which has been made and verified once under its watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What calls that were measured in turn yielded, each item in the order of the calls."""

    results: tuple[BenchResult, ...]
    log_times: tuple[dict[int, float], ...]
    """Log of the median trial in microseconds, by the number of the round."""
    binding: bool
    """Whether assertions on times are held to this process's run."""
