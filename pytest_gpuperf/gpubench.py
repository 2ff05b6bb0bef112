"""The callable that tests use: `gpubench(fn, *args)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_gpuperf.calls import BenchmarkCall, BenchResult, Inputs, Measurer, Together, Watch
from pytest_gpuperf.naming import failures_named
from pytest_gpuperf.passage import Passage, passage
from pytest_gpuperf.refusals import (
    is_arguments,
    refuse_impossible_call,
    refuse_impossible_tolerances,
    refuse_what_is_no_comparison,
    refuse_what_is_no_function_of_size,
)
from pytest_gpuperf.stated import shown

if TYPE_CHECKING:
    from pytest_gpuperf.comparison import BenchComparison
    from pytest_gpuperf.measure.passes import Mode
    from pytest_gpuperf.sweep import BenchSweep

_NOTHING = object()
"""Stands for the output of a reference that there is not: None is an output."""

T = TypeVar("T")
Number = TypeVar("Number", int, float)


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
        self._test_is_over = False

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

    def _end_of_test(self) -> None:
        """Refuse calls from now on: their test has its verdict, and no other would get them."""
        self._test_is_over = True

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
        mode: Mode = "forward",
    ) -> T:
        """Call `fn` on `args` and `kwargs`, verify it against `reference`, time it, and return its output.

        `setup` returns fresh `(args, kwargs)` for every call, outside the timed region, in place of `args` and
        `kwargs`. `reference` is called on the same inputs and compared (`rtol`, `atol` as in
        `torch.testing.assert_close`) before anything is timed. `bytes_moved` and `flops` state what one call has to
        move and to compute, in bytes and operations. Several calls in one test need distinct `name`s.

        `mode` is what is timed of a function that torch's autograd differentiates: the call itself (`forward`), its
        backward pass on a graph made outside the timed region (`backward`), or the one after the other (`both`). With
        a backward pass, the gradients of the inputs that require one are verified too. They are not added to `.grad`.

        Raises `TypeError` or `ValueError` for what cannot be measured, `AssertionError` for an output that differs
        from the reference's, and whatever `fn` itself raises.
        """
        call = BenchmarkCall(
            fn=fn,
            args=args,
            kwargs={} if kwargs is None else kwargs,
            setup=setup,
            reference=reference,
            bytes_moved=bytes_moved,
            flops=flops,
            name=self._claimed(name),
            mode=mode,
        )
        refuse_impossible_tolerances(self._node_id, rtol, atol, has_reference=reference is not None)
        (one,) = self._passages([call])
        watch = self._watch(one)
        output = self._verified(one, self._expected(one, watch), watch, rtol, atol)
        if self._measurer is not None:
            self._results[call.name] = self._measurer.measure(one.timed, watch)
        own: T = one.own_output(output)
        return own

    def compare(
        self,
        implementations: Mapping[str, Callable[..., object]],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        setup: Callable[[], Inputs] | None = None,
        reference: Callable[..., object] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        error: Callable[[Any, Any], float] | None = None,
        bytes_moved: float | None = None,
        flops: float | None = None,
        mode: Mode = "forward",
    ) -> BenchComparison:
        """Call implementations of the same thing, verify them, time them interleaved, and return the comparison.

        Each is called on the same inputs and compared with `reference`; without one, with the first implementation.
        All that is verified before anything is timed. `error(output, expected)` measures how far an output is from the
        reference's, in place of the largest difference over the reference's largest magnitude. Every implementation is
        also a benchmark of its own under its name in `implementations`, stored and gated like any other. The other
        arguments are those of `run`.

        Raises as `run` does, and `AssertionError` with the implementation's name for an output that differs.
        """
        from pytest_gpuperf.comparison import comparison_of

        refuse_what_is_no_comparison(self._node_id, implementations, reference, error)
        refuse_impossible_tolerances(self._node_id, rtol, atol, has_reference=True)
        stated = BenchmarkCall(
            fn=next(iter(implementations.values())),
            args=args,
            kwargs={} if kwargs is None else kwargs,
            setup=setup,
            reference=reference,
            bytes_moved=bytes_moved,
            flops=flops,
            mode=mode,
        )
        calls = [replace(stated, fn=fn, name=self._claimed(name, needed=True)) for name, fn in implementations.items()]
        passages = self._passages(calls)
        watches, errors = self._verified_alike(passages, rtol, atol, error)
        return comparison_of(tuple(implementations), errors, self._measured(passages, watches))

    def sweep(
        self,
        make: Callable[[Number], Callable[[], object] | tuple[Any, ...]],
        sizes: Sequence[Number],
        *,
        reference: Callable[..., object] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        bytes_moved: Callable[[Number], float] | None = None,
        flops: Callable[[Number], float] | None = None,
        fit_from: float | None = None,
        mode: Mode = "forward",
    ) -> BenchSweep:
        """Call a function at each size, verify it, time all sizes interleaved, and fit time ~ size^k.

        `make(size)` returns a callable, or `(fn, args)` or `(fn, args, kwargs)`; the inputs of all sizes exist at once.
        `reference` is called on the same inputs. `bytes_moved(size)` and `flops(size)` state the work at a size.
        Exponents are fitted to the sizes from `fit_from` on: small ones may be bound by their launch. Every size is
        also a benchmark of its own, whose name is the size.

        Raises as `run` does; `ValueError` for sizes that an exponent cannot be fitted to.
        """
        from pytest_gpuperf.sweep import BenchSweep, checked_sizes, name_of, sweep_of

        sizes = checked_sizes(sizes, fit_from)
        refuse_impossible_tolerances(self._node_id, rtol, atol, has_reference=reference is not None)
        for what, stated in (("make", make), ("bytes_moved", bytes_moved), ("flops", flops)):
            refuse_what_is_no_function_of_size(self._node_id, what, stated)
        calls = [
            replace(
                self._made(make(size)),
                reference=reference,
                bytes_moved=None if bytes_moved is None else bytes_moved(size),
                flops=None if flops is None else flops(size),
                name=self._claimed(name_of(size), needed=True),
                mode=mode,
            )
            for size in sizes
        ]
        passages = self._passages(calls)
        watches = [self._watch(one) for one in passages]
        for one, watch in zip(passages, watches, strict=True):
            self._verified(one, self._expected(one, watch), watch, rtol, atol, f"size {one.whole.name}")
        together = self._measured(passages, watches)
        if together is None:
            return BenchSweep(sizes=sizes, points=(), fit_from=fit_from, time_fit=None, memory_fit=None)
        return sweep_of(sizes, together.results, together.log_times, fit_from=fit_from, binding=together.binding)

    def _passages(self, calls: Sequence[BenchmarkCall]) -> list[Passage]:
        """Refuse what cannot be measured, and split the calls up; all get the same incoming gradients."""
        for call in calls:
            refuse_impossible_call(self._node_id, call)
        passes = None
        if any(call.mode != "forward" for call in calls):
            from pytest_gpuperf.measure.passes import Passes

            passes = Passes()
        return [passage(call, passes) for call in calls]

    def _made(self, made: object) -> BenchmarkCall:
        """Return the call that a sweep's `make` returned."""
        if callable(made):
            return BenchmarkCall(fn=made, args=(), kwargs={})
        if isinstance(made, tuple) and len(made) in (2, 3):
            return BenchmarkCall(fn=made[0], args=made[1], kwargs=made[2] if len(made) == 3 else {})
        raise TypeError(
            f"{self._node_id}: make must return a callable, (fn, args) or (fn, args, kwargs); "
            f"it returned {type(made).__name__}"
        )

    def _watch(self, one: Passage) -> Watch | None:
        return None if self._measurer is None else self._measurer.watch(one.timed)

    def _expected(self, one: Passage, watch: Watch | None) -> object:
        """Call the reference, which goes first: a function that works in place must not spoil its inputs."""
        if one.whole.reference is None:
            return _NOTHING
        expected = self._called(one.whole.reference, one.whole)
        if watch is not None:
            watch.reference_done()
        return expected

    def _verified(
        self,
        one: Passage,
        expected: object,
        watch: Watch | None,
        rtol: float | None,
        atol: float | None,
        whose: str = "",
    ) -> Any:
        """Call once and compare; return what was returned. `whose` output it is goes into the failure."""
        output = self._called(one.whole.fn, one.whole)
        if watch is not None:
            told = None if expected is _NOTHING else one.timed_output(expected)
            watch.first_call(one.timed_output(output), told)
        if expected is not _NOTHING:
            from pytest_gpuperf.checks.correctness import verify

            try:
                for place, returned, wanted in one.compared(output, expected):
                    verify(returned, wanted, rtol=rtol, atol=atol, place=place)
            except AssertionError as difference:
                if not whose:
                    raise
                raise AssertionError(f"{whose}: {difference}") from None
        return output

    def _verified_alike(
        self,
        passages: Sequence[Passage],
        rtol: float | None,
        atol: float | None,
        error: Callable[[Any, Any], float] | None,
    ) -> tuple[list[Watch | None], list[float | None]]:
        """Call and verify implementations of one thing; return their watches and their distances to the reference."""
        from pytest_gpuperf.checks.in_place import InputVersions

        first = passages[0].whole
        inputs = InputVersions(() if first.setup is not None else (first.args, first.kwargs))
        expected = self._expected(passages[0], None)
        has_reference = expected is not _NOTHING
        remarks = [] if has_reference else [f"the first implementation, {first.name}, is the reference"]
        remarks += inputs.changed_by("the reference")
        watches: list[Watch | None] = []
        errors: list[float | None] = []
        for one in passages:
            watches.append(self._watch(one))
            whose = f"{one.whole.name} ({'; '.join(remarks)})" if remarks else one.whole.name
            output = self._verified(one, expected, watches[-1], rtol, atol, whose)
            remarks += inputs.changed_by(one.whole.name)
            errors.append(self._distance(error, output, expected, one) if has_reference else None)
            expected = output if expected is _NOTHING else expected
        return watches, errors

    def _distance(
        self, error: Callable[[Any, Any], float] | None, output: object, expected: object, one: Passage
    ) -> float | None:
        """Measure by `error`, which knows nothing of gradients, or else by the deviation of them and the output."""
        from pytest_gpuperf.checks.deviation import deviation

        if error is None:
            return deviation(output, expected)
        found: Any = error(one.own_output(output), one.own_output(expected))
        try:
            return float(found.item() if hasattr(found, "item") else found)  # of a tensor with one element, too
        except Exception:
            raise TypeError(
                f"{self._node_id}: error= must return a number; for {one.whole.name} it returned {shown(found)}"
            ) from None

    def _measured(self, passages: Sequence[Passage], watches: Sequence[Watch | None]) -> Together | None:
        if self._measurer is None:
            return None
        together = self._measurer.measure_together([one.timed for one in passages], watches)
        self._results.update((one.timed.name, result) for one, result in zip(passages, together.results, strict=True))
        return together

    def _called(self, fn: Callable[..., T], call: BenchmarkCall) -> T:
        args, kwargs = (call.args, call.kwargs) if call.setup is None else self._fresh_inputs(call.setup)
        whose = f"the reference, on the inputs of {call.name}" if fn is call.reference and call.name else call.name
        if self._measurer is None:
            with failures_named(whose):
                return fn(*args, **kwargs)
        self._measurer.check_usable()
        try:
            with failures_named(whose):
                output = fn(*args, **kwargs)
            self._measurer.await_call()
        except Exception as error:
            self._measurer.note_failure(error)
            raise
        return output

    def _fresh_inputs(self, setup: Callable[[], Inputs]) -> Inputs:
        made = setup()
        if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping)):
            raise TypeError(
                f"{self._node_id}: setup must return (args, kwargs), a sequence and a dict; "
                f"it returned {type(made).__name__}"
            )
        if not is_arguments(made[0]):
            raise TypeError(
                f"{self._node_id}: setup must return (args, kwargs) with args a tuple or list, such as (x,); "
                f"it is {type(made[0]).__name__}"
            )
        return made

    def _claimed(self, name: str | None, *, needed: bool = False) -> str:
        if (name is not None or needed) and (not isinstance(name, str) or not name):
            raise TypeError(f"{self._node_id}: the benchmark's name must be a non-empty text, not {name!r}")
        if self._test_is_over:
            raise RuntimeError(
                f"{self._node_id}: gpubench was called after this test had ended; "
                "each test and each function-scoped fixture has to ask for its own"
            )
        claimed = name or ""
        if claimed in self._names:
            what = f"the name {claimed!r}" if claimed else "no name"
            raise ValueError(
                f"{self._node_id}: gpubench was called twice with {what} in one test; give each call its own: "
                "gpubench.run(fn, args=…, name=…). The names of compare are its keys, those of sweep its sizes: "
                "where two of them share some, give each a test of its own"
            )
        self._names.add(claimed)
        return claimed
