"""What users write, as type checkers see it; checked by mypy and pyright, never run.

A line that must be an error carries an ignore comment, which is itself an error where there is nothing to ignore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from typing_extensions import assert_type

from pytest_gpuperf import BenchComparison, BenchResult, BenchSweep, GpuBench, PairedRatio, ScalingFit, SweepPoint, perf


def add(x: int, y: float = 0.0) -> float:
    return x + y


def fresh_inputs() -> tuple[tuple[int], dict[str, float]]:
    return (1,), {"y": 2.0}


@perf(min_effect=0.03)
@pytest.mark.parametrize("columns", [1024, 4096])
def test_the_plain_call_returns_what_the_function_returns(gpubench: GpuBench, columns: int) -> None:
    assert_type(gpubench(add, columns, y=1.0), float)
    assert_type(gpubench(str, columns), str)


def test_the_full_form(gpubench: GpuBench) -> None:
    assert_type(gpubench.run(add, (1,)), float)
    assert_type(gpubench.run(add, [1], {"y": 1.0}, reference=add, rtol=1e-6, atol=0, name="list"), float)
    assert_type(gpubench.run(add, setup=fresh_inputs, bytes_moved=24, flops=1.0, name="setup"), float)


def test_the_device_and_the_results(gpubench: GpuBench) -> None:
    assert_type(gpubench.device, str)
    assert_type(gpubench.result, BenchResult | None)
    assert_type(gpubench.results, Mapping[str, BenchResult])
    if gpubench.result is not None:
        assert_type(gpubench.result.mean_us, float)
        assert_type(gpubench.result.trials, int)
        assert_type(gpubench.result.notes, tuple[str, ...])
        assert_type(gpubench.result.findings[0].line, str)


def add_inputs(size: int) -> tuple[object, ...]:
    return add, (size,)


def prepared(size: float) -> Callable[[], float]:
    return lambda: size


def difference(output: float, expected: float) -> float:
    return abs(output - expected)


def test_passes(gpubench: GpuBench) -> None:
    assert_type(gpubench.run(add, (1,), mode="both"), float)


def test_a_comparison(gpubench: GpuBench) -> None:
    comparison = gpubench.compare({"one": add, "other": str}, (1,), reference=add, error=difference, mode="backward")
    assert_type(comparison, BenchComparison)
    assert_type(comparison.ratio("one", to="other"), PairedRatio | None)
    assert_type(comparison.results["one"], BenchResult)
    assert_type(comparison.errors["one"], float | None)
    assert_type(comparison.pareto(), tuple[str, ...])
    assert_type(comparison.table(to="one"), str)
    comparison.assert_faster("one", than="other", by=2)


def test_a_sweep(gpubench: GpuBench) -> None:
    sweep = gpubench.sweep(add_inputs, [1, 2, 3], flops=float, fit_from=2)
    assert_type(sweep, BenchSweep)
    assert_type(sweep.exponent, float | None)
    assert_type(sweep.interval, tuple[float, float] | None)
    assert_type(sweep.time_fit, ScalingFit | None)
    assert_type(sweep.points, tuple[SweepPoint, ...])
    assert_type(sweep.table(), str)
    sweep.assert_scaling(1, tolerance=0.2)
    gpubench.sweep(prepared, [0.5, 1.5], mode="forward").assert_memory_scaling(1.0)


def test_mistakes_are_seen(gpubench: GpuBench) -> None:
    gpubench()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gpubench("add")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    gpubench.run(add, (1,), repeat=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gpubench.run(add, (1,), mode="back")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    gpubench.compare([add, add], (1,))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    gpubench.sweep(prepared, ["1", "2"])  # type: ignore[arg-type, type-var]  # pyright: ignore[reportArgumentType]
    gpubench.device = "cpu"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
