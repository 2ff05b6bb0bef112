"""`gpubench` without a measuring session: one verified call; with one: what it asks of the measurer, in which order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy
import pytest

from pytest_gpuperf.calls import BenchmarkCall
from pytest_gpuperf.gpubench import GpuBench

NODE = "test_a.py::test_a"


class Recorder:
    """A measurer that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.calls: list[BenchmarkCall] = []
        self.usable = True

    def await_call(self) -> None:
        self.asked.append("awaited")

    def check_usable(self) -> None:
        self.asked.append("usable?")
        if not self.usable:
            raise RuntimeError("lost")

    def note_failure(self, error: BaseException) -> None:
        self.asked.append(f"failed: {error}")

    def watch(self, call: BenchmarkCall) -> Recorder:
        self.asked.append("watch")
        return self

    def reference_done(self) -> None:
        self.asked.append("reference done")

    def first_call(self, output: object, expected: object) -> None:
        self.asked.append(f"first call: {output}")

    def measure(self, call: BenchmarkCall, watch: Recorder) -> Any:
        self.asked.append("measure")
        self.calls.append(call)
        return f"result of {call.name!r}"


@pytest.fixture
def plain() -> GpuBench:
    """A gpubench that only calls."""
    return GpuBench(NODE, lambda: "cpu")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def measuring(recorder: Recorder) -> GpuBench:
    """A gpubench whose measuring end takes notes."""
    return GpuBench(NODE, lambda: "cuda:0", recorder)  # type: ignore[arg-type]


def test_one_call_with_everything_passed_on(plain: GpuBench) -> None:
    seen: list[object] = []

    def fn(*args: object, **kwargs: object) -> str:
        seen.append((args, kwargs))
        return "output"

    assert plain(fn, 1, fn=2, self=3) == "output"
    assert plain.run(fn, (4,), {"name": 5}, name="b") == "output"
    assert plain.run(fn, setup=lambda: ([6], {"x": 7}), name="c") == "output"
    assert seen == [((1,), {"fn": 2, "self": 3}), ((4,), {"name": 5}), ((6,), {"x": 7})]
    assert plain.result is None
    assert plain.results == {}
    assert plain.device == "cpu"


def test_none_is_an_output(plain: GpuBench) -> None:
    assert plain.run(lambda: None, reference=lambda: None) is None
    with pytest.raises(AssertionError):
        plain.run(lambda: 3, reference=lambda: None, name="b")


def test_the_reference_comes_first_so_that_work_in_place_does_not_spoil_its_inputs(plain: GpuBench) -> None:
    def in_place(values: list[int]) -> list[int]:
        values.sort()
        return list(values)

    assert plain.run(in_place, ([3, 1, 2],), reference=sorted) == [1, 2, 3]


def test_the_reference_has_fresh_inputs_of_its_own(plain: GpuBench) -> None:
    made: list[list[int]] = []

    def setup() -> tuple[tuple[list[int]], dict[str, object]]:
        made.append([3, 1])
        return (made[-1],), {}

    plain.run(sorted, setup=setup, reference=lambda values: sorted(values))
    assert len(made) == 2


def test_order_of_a_measured_call(measuring: GpuBench, recorder: Recorder) -> None:
    assert measuring.run(lambda: 7, reference=lambda: 7, name="x") == 7
    before, after = (
        ["watch", "usable?", "awaited", "reference done"],
        ["usable?", "awaited", "first call: 7", "measure"],
    )
    assert recorder.asked == before + after
    assert measuring.results == {"x": "result of 'x'"}
    assert measuring.result == "result of 'x'"  # type: ignore[comparison-overlap]
    assert measuring.device == "cuda:0"


def test_what_is_stated_reaches_the_measurer(measuring: GpuBench, recorder: Recorder) -> None:
    measuring.run(max, (1, 2), {"key": abs}, bytes_moved=10, flops=20, name="n")
    (call,) = recorder.calls
    assert (tuple(call.args), dict(call.kwargs), call.bytes_moved, call.flops, call.name) == (
        (1, 2),
        {"key": abs},
        10,
        20,
        "n",
    )


def test_a_wrong_output_is_not_measured(measuring: GpuBench, recorder: Recorder) -> None:
    with pytest.raises(AssertionError, match="differs from the reference's"):
        measuring.run(lambda: 7, reference=lambda: 8)
    assert "measure" not in recorder.asked
    assert measuring.result is None


def test_a_call_that_raises_is_noted_and_not_measured(measuring: GpuBench, recorder: Recorder) -> None:
    def broken() -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        measuring(broken)
    assert recorder.asked[-1] == "failed: broken"
    assert "measure" not in recorder.asked


def test_nothing_is_called_on_a_lost_device(measuring: GpuBench, recorder: Recorder) -> None:
    recorder.usable = False
    called: list[int] = []
    with pytest.raises(RuntimeError, match="lost"):
        measuring(lambda: called.append(1))
    assert not called


@pytest.mark.parametrize("bench", ["plain", "measuring"])
def test_names_must_be_distinct(bench: str, request: pytest.FixtureRequest) -> None:
    gpubench: GpuBench = request.getfixturevalue(bench)
    gpubench(int)
    gpubench.run(int, name="a")
    with pytest.raises(ValueError, match=f"{NODE}: gpubench was called twice with no name"):
        gpubench(int)
    with pytest.raises(ValueError, match=f"{NODE}: gpubench was called twice with the name 'a'"):
        gpubench.run(int, name="a")


async def coroutine() -> None: ...


def generator() -> Any:
    yield


async def async_generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda bench: bench(3), "needs a function to call, not int"),
        (lambda bench: bench(None), "needs a function to call, not NoneType"),
        (lambda bench: bench(coroutine), "calling coroutine only creates a coroutine or generator"),
        (lambda bench: bench(generator), "calling generator only creates"),
        (lambda bench: bench(async_generator), "calling async_generator only creates"),
        (lambda bench: bench.run(int, name=""), "name must be a non-empty text, not ''"),
        (lambda bench: bench.run(int, name=3), "name must be a non-empty text, not 3"),
        (lambda bench: bench.run(int, (1,), setup=lambda: ((), {})), "either setup= or args and kwargs, not both"),
        (lambda bench: bench.run(int, setup=lambda: 3), r"setup must return \(args, kwargs\), a sequence and a dict"),
        (lambda bench: bench.run(int, setup=lambda: ((), ())), r"setup must return \(args, kwargs\)"),
        (lambda bench: bench.run(int, setup=lambda: [(), {}]), r"setup must return \(args, kwargs\)"),
        (lambda bench: bench.run(int, setup=lambda: (iter("1"), {})), "with args a tuple or list, such as .*str_"),
        (lambda bench: bench.run(int, setup=3), "setup must be a function to call, not int"),
        (lambda bench: bench.run(int, reference=3), "reference must be a function to call, not int"),
        (lambda bench: bench.run(int, 3), r"args must be a tuple or list of fn's positional arguments, .*, not int"),
        (lambda bench: bench.run(int, "3"), "args must be a tuple or list .*, not str"),
        (lambda bench: bench.run(int, {3: 4}), "args must be a tuple or list .*, not dict"),
        (lambda bench: bench.run(int, numpy.ones((1, 2))), "args must be a tuple or list .*, not ndarray"),
        (lambda bench: bench.run(int, (), 3), "kwargs must be a dict, not int"),
        (lambda bench: bench.run(int, (), []), "kwargs must be a dict, not list"),
        (lambda bench: bench.compare([int, float]), "takes a dict of functions by name, not list"),
        (lambda bench: bench.compare({"a": int, "b": float}, 3), "args must be a tuple or list"),
        (lambda bench: bench.compare({"a": int, "b": int}, reference=int, error=3), "error must be a function to call"),
        (lambda bench: bench.sweep(lambda size: (int, size), [1, 2, 3]), "args must be a tuple or list"),
        (lambda bench: bench.sweep(int, [1, 2], bytes_moved=8), "bytes_moved must be a function of the size, .* not 8"),
        (lambda bench: bench.sweep(int, [1, 2], flops=8.5), "flops must be a function of the size, .* not 8.5"),
        (lambda bench: bench.sweep(3, [1, 2]), "make must be a function of the size, .* not 3"),
    ],
)
@pytest.mark.parametrize("bench", ["plain", "measuring"])
def test_what_cannot_be_called(
    bench: str, wrong: Callable[[GpuBench], object], message: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        wrong(request.getfixturevalue(bench))
    assert str(caught.value).startswith(NODE)


IMPOSSIBLE = [0, -1, float("nan"), float("inf"), True, "3", 1j, 10**400, 10**5000, 1e31, numpy.float64("nan"), [8], abs]


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=[str(place) for place in range(len(IMPOSSIBLE))])
@pytest.mark.parametrize("what", ["bytes_moved", "flops"])
def test_impossible_amounts(plain: GpuBench, what: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{NODE}: {what} must be a positive number, not"):
        plain.run(int, **{what: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [8, 8.0, numpy.int64(8), numpy.float32(8), numpy.uint8(8), Fraction(8)])
def test_numbers_of_any_kind_can_be_stated(measuring: GpuBench, recorder: Recorder, value: Any) -> None:
    measuring.run(int, bytes_moved=value, flops=value)
    assert recorder.calls[0].bytes_moved == recorder.calls[0].flops == 8


ENTRANCES: dict[str, Callable[..., object]] = {
    "run": lambda bench, **tolerances: bench.run(int, reference=int, **tolerances),
    "compare": lambda bench, **tolerances: bench.compare({"a": int, "b": int}, **tolerances),
    "sweep": lambda bench, **tolerances: bench.sweep(lambda _: int, [1, 2], reference=int, **tolerances),
}


@pytest.mark.parametrize("wrong", [-1, -1e-9, float("nan"), float("inf"), "1", True, [1]], ids=str)
@pytest.mark.parametrize("entrance", ENTRANCES.values(), ids=ENTRANCES)
def test_impossible_tolerances(plain: GpuBench, entrance: Callable[..., object], wrong: object) -> None:
    with pytest.raises(ValueError, match=f"{NODE}: rtol must be a number from 0, not "):
        entrance(plain, rtol=wrong, atol=0)
    with pytest.raises(ValueError, match=f"{NODE}: rtol and atol go together"):
        GpuBench(NODE, lambda: "cpu").run(int, reference=int, atol=wrong)
    with pytest.raises(ValueError, match=f"{NODE}: atol must be a number from 0, not "):
        entrance(GpuBench(NODE, lambda: "cpu"), rtol=0, atol=wrong)
    entrance(GpuBench(NODE, lambda: "cpu"), rtol=0, atol=numpy.float32(0.1))


@pytest.mark.parametrize("tolerances", [{"rtol": 0.1, "atol": 0.1}, {"rtol": 0.1}, {"atol": 0}])
def test_tolerances_without_a_reference_would_tolerate_nothing(plain: GpuBench, tolerances: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{NODE}: rtol and atol are for the comparison with a reference: give ref"):
        plain.run(int, **tolerances)
    with pytest.raises(TypeError, match="give reference= too"):
        plain.sweep(lambda _: int, [1, 2], **tolerances)


needs_notes = pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes before Python 3.11")


@needs_notes
@pytest.mark.parametrize("bench", ["plain", "measuring"])
@pytest.mark.parametrize(
    ("call", "whose"),
    [
        (lambda bench, no: bench.compare({"good": int, "bad": no}), "bad"),
        (lambda bench, no: bench.compare({"a": int, "b": int}, reference=no), "the reference, on the inputs of a"),
        (lambda bench, no: bench.sweep(lambda size: no if size > 1 else int, [1, 2]), "2"),
        (lambda bench, no: bench.sweep(lambda _: int, [1, 2], reference=no), "the reference, on the inputs of 1"),
        (lambda bench, no: bench.run(no, name="second"), "second"),
    ],
)
def test_of_several_it_is_said_which_one_raised(
    bench: str, call: Callable[[GpuBench, Any], object], whose: str, request: pytest.FixtureRequest
) -> None:
    def no() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError) as caught:
        call(request.getfixturevalue(bench), no)
    assert caught.value.__notes__ == [f"gpubench: raised by {whose}"]


@needs_notes
def test_of_one_it_need_not_be_said(plain: GpuBench) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        plain(lambda: 1 / 0)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    ("returned", "found"),
    [(0.5, 0.5), (numpy.float32(0.5), 0.5), (numpy.array(0.5), 0.5), (numpy.array([0.5]), 0.5), (True, 1.0)],
)
def test_the_distance_may_be_any_number(plain: GpuBench, returned: object, found: float) -> None:
    implementations = {"a": int, "b": int}
    error: Any = lambda output, expected: returned  # noqa: E731
    comparison = plain.compare(implementations, reference=int, error=error)
    assert comparison.errors == {"a": found, "b": found}
    assert all(type(value) is float for value in comparison.errors.values())


@pytest.mark.parametrize("returned", ["x", [1.0], numpy.ones(2), None], ids=["text", "list", "array", "none"])
def test_a_distance_that_is_no_number(plain: GpuBench, returned: object) -> None:
    with pytest.raises(TypeError, match=f"{NODE}: error= must return a number; for a it returned "):
        plain.compare({"a": int, "b": int}, reference=int, error=lambda output, expected: returned)  # type: ignore[arg-type,return-value]


def test_a_difference_is_told_once() -> None:
    with pytest.raises(AssertionError) as caught:
        GpuBench(NODE, lambda: "cpu").run(lambda: numpy.ones(2), reference=lambda: numpy.zeros(2))
    assert caught.value.__suppress_context__


class TestWithABackwardPass:
    torch = pytest.importorskip("torch")

    def values(self) -> Any:
        return self.torch.linspace(-1.0, 1.0, 8, requires_grad=True)

    @pytest.mark.parametrize("mode", ["backward", "both"])
    def test_a_wrong_gradient_is_called_that(self, plain: GpuBench, mode: Any) -> None:
        torch = self.torch

        def like_sin(x: Any) -> Any:
            return x.sin().detach() + (x - x.detach())

        with pytest.raises(AssertionError, match=r"^gradients\[0\] differs from the reference's"):
            plain.run(like_sin, (self.values(),), reference=torch.sin, mode=mode)
        with pytest.raises(AssertionError, match=r"^output differs from the reference's"):
            plain.run(torch.cos, (self.values(),), reference=torch.sin, mode=mode, name="b")

    @pytest.mark.parametrize("nested", [False, True])
    @pytest.mark.parametrize("with_reference", [False, True])
    def test_who_spoiled_the_inputs_is_told_with_the_difference(
        self, plain: GpuBench, nested: bool, with_reference: bool
    ) -> None:
        torch = self.torch

        def in_place(x: Any) -> Any:
            return x["x"][0].mul_(2) if nested else x.mul_(2)

        def pure(x: Any) -> Any:
            return x["x"][0] * 2 if nested else x * 2

        x = torch.ones(3)
        more = {"reference": in_place} if with_reference else {}
        culprit = "the reference" if with_reference else "in_place"
        with pytest.raises(
            AssertionError, match=rf"(pure|again) \(.*{culprit} has changed the inputs in place before it: give"
        ):
            plain.compare({"pure": pure, "in_place": in_place, "again": pure}, ({"x": [x]} if nested else x,), **more)
        with torch.inference_mode():
            plain.compare({"a": pure, "b": pure}, ({"x": [x]} if nested else x,))

    def test_inputs_of_their_own_are_nobodys_fault(self, plain: GpuBench) -> None:
        torch = self.torch

        def wrong(x: Any) -> Any:
            return x * 3

        implementations = {"in_place": lambda x: x.mul_(2), "wrong": wrong}
        with pytest.raises(AssertionError) as caught:
            plain.compare(implementations, setup=lambda: ((torch.ones(3),), {}))
        assert "has changed the inputs" not in str(caught.value)

    @pytest.mark.parametrize("mode", ["forward", "backward", "both"])
    def test_the_distance_is_of_the_functions_own_outputs(self, plain: GpuBench, mode: Any) -> None:
        sin = self.torch.sin
        comparison = plain.compare(
            {"a": sin, "b": lambda x: x.sin()},
            (self.values(),),
            reference=sin,
            mode=mode,
            error=lambda output, expected: (output - expected).abs().max(),
        )
        assert comparison.errors == {"a": 0.0, "b": 0.0}


def test_the_public_names_are_lazy_and_there() -> None:
    import pytest_gpuperf

    assert pytest_gpuperf.GpuBench is GpuBench
    assert pytest_gpuperf.perf(min_effect=0.1).mark.kwargs == {"min_effect": 0.1}
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pytest_gpuperf.nonsense
