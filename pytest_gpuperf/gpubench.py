"""The callable that tests use: `gpubench(fn, *args)`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pytest_gpuperf.checks.finding import CheckFinding
    from pytest_gpuperf.checks.launches import KernelUse
    from pytest_gpuperf.measure.samples import RunRecord, Trials

T = TypeVar("T")
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
    terabytes_per_second: float | None
    teraflops_per_second: float | None
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

    def watch(self, call: BenchmarkCall) -> Any:
        """Return the `Watch` on a call that is about to be made for the first time."""

    def measure(self, call: BenchmarkCall, watch: Any) -> BenchResult:
        """Measure the call, which has been made and verified once under `watch`."""


class GpuBench:
    """Calls a function, verifies its output and, in a measuring session, times it.

    Without `--gpuperf` the function is called once. Use `gpubench(fn, *args, **kwargs)` for the plain case and
    `gpubench.run` for everything else; both return the function's own output.
    """

    def __init__(self, node_id: str, device: Callable[[], str], measurer: Measurer | None = None) -> None:
        self._node_id = node_id
        self._device = device
        self._measurer = measurer
        self._names: set[str] = set()
        self._results: dict[str, BenchResult] = {}

    def __call__(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call `fn(*args, **kwargs)`, time it in a measuring session, and return its output."""
        return self.run(fn, args, kwargs)

    @property
    def device(self) -> str:
        """The measured device: `--gpuperf-device`, else the accelerator where there is one, else `"cpu"`."""
        return self._device()

    @property
    def result(self) -> BenchResult | None:
        """The latest measurement in this test; None in a session that does not measure."""
        return next(reversed(self._results.values()), None)

    @property
    def results(self) -> Mapping[str, BenchResult]:
        """The measurements of this test by name (`""` for the unnamed one)."""
        return dict(self._results)

    def run(
        self,
        fn: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        setup: Callable[[], Inputs] | None = None,
        reference: Callable[..., object] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        bytes_moved: float | None = None,
        flops: float | None = None,
        name: str | None = None,
    ) -> T:
        """Call `fn` on `args` and `kwargs`, verify it against `reference`, time it, and return its output.

        `setup` returns fresh `(args, kwargs)` for every call, outside the timed region, in place of `args` and
        `kwargs`. `reference` is called on the same inputs and compared (`rtol`, `atol` as in
        `torch.testing.assert_close`) before anything is timed. `bytes_moved` and `flops` state what one call has to
        move and to compute, in bytes and operations. Several calls in one test need distinct `name`s.

        Raises `TypeError` or `ValueError` for what cannot be measured, `AssertionError` for an output that differs
        from the reference's, and whatever `fn` itself raises.
        """
        self._refuse_what_is_no_plain_callable(fn)
        if setup is not None and (args or kwargs):
            raise TypeError(f"{self._node_id}: gpubench.run takes either setup= or args and kwargs, not both")
        self._refuse_impossible("bytes_moved", bytes_moved)
        self._refuse_impossible("flops", flops)
        call = BenchmarkCall(
            fn=fn,
            args=args,
            kwargs=kwargs or {},
            setup=setup,
            reference=reference,
            bytes_moved=bytes_moved,
            flops=flops,
            name=self._claimed(name),
        )
        watch: Watch | None = None if self._measurer is None else self._measurer.watch(call)
        output = self._verified_call(fn, call, watch, rtol, atol)
        if self._measurer is not None:
            self._results[call.name] = self._measurer.measure(call, watch)
        return output

    def _verified_call(
        self,
        fn: Callable[..., T],
        call: BenchmarkCall,
        watch: Watch | None,
        rtol: float | None,
        atol: float | None,
    ) -> T:
        # The reference goes first, so that a function that works in place does not spoil the reference's inputs.
        expected = None if call.reference is None else self._called(call.reference, call)
        if watch is not None and call.reference is not None:
            watch.reference_done()
        output = self._called(fn, call)
        if watch is not None:
            watch.first_call(output, expected)
        if call.reference is not None:
            from pytest_gpuperf.checks.correctness import verify

            verify(output, expected, rtol=rtol, atol=atol)
        return output

    def _called(self, fn: Callable[..., T], call: BenchmarkCall) -> T:
        args, kwargs = (call.args, call.kwargs) if call.setup is None else self._fresh_inputs(call.setup)
        if self._measurer is None:
            return fn(*args, **kwargs)
        self._measurer.check_usable()
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            self._measurer.note_failure(error)
            raise

    def _fresh_inputs(self, setup: Callable[[], Inputs]) -> Inputs:
        made = setup()
        if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping)):
            raise TypeError(
                f"{self._node_id}: setup must return (args, kwargs), a sequence and a dict; "
                f"it returned {type(made).__name__}"
            )
        return made

    def _claimed(self, name: str | None) -> str:
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(f"{self._node_id}: the benchmark's name must be a non-empty text, not {name!r}")
        claimed = name or ""
        if claimed in self._names:
            what = f"the name {claimed!r}" if claimed else "no name"
            raise ValueError(
                f"{self._node_id}: gpubench was called twice with {what} in one test; "
                "give each call its own: gpubench.run(fn, args=…, name=…)"
            )
        self._names.add(claimed)
        return claimed

    def _refuse_what_is_no_plain_callable(self, fn: object) -> None:
        if not callable(fn):
            raise TypeError(f"{self._node_id}: gpubench needs a function to call, not {type(fn).__name__}")
        lazy = inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)
        if lazy:
            raise TypeError(
                f"{self._node_id}: calling {getattr(fn, '__name__', 'the function')} only creates a coroutine or "
                "generator and does no work; wrap it in a function that runs it to its end"
            )

    def _refuse_impossible(self, what: str, value: float | None) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ValueError(f"{self._node_id}: {what} must be a positive number, not {value!r}")
