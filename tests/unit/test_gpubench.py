"""`gpubench` without a measuring session: one verified call; with one: what it asks of the measurer, in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from pytest_gpuperf.gpubench import BenchmarkCall, GpuBench

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
        (lambda bench: bench.sweep(lambda size: (int, size), [1, 2, 3]), "args must be a tuple or list"),
    ],
)
@pytest.mark.parametrize("bench", ["plain", "measuring"])
def test_what_cannot_be_called(
    bench: str, wrong: Callable[[GpuBench], object], message: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        wrong(request.getfixturevalue(bench))
    assert str(caught.value).startswith(NODE)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "3", 1j])
@pytest.mark.parametrize("what", ["bytes_moved", "flops"])
def test_impossible_amounts(plain: GpuBench, what: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{NODE}: {what} must be a positive number, not"):
        plain.run(int, **{what: value})  # type: ignore[arg-type]


def test_the_public_names_are_lazy_and_there() -> None:
    import pytest_gpuperf

    assert pytest_gpuperf.GpuBench is GpuBench
    assert pytest_gpuperf.perf(min_effect=0.1).mark.kwargs == {"min_effect": 0.1}
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pytest_gpuperf.nonsense
