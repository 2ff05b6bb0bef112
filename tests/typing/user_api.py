"""What users write, as type checkers see it; checked by mypy and pyright, never run.

A line that must be an error carries an ignore comment, which is itself an error where there is nothing to ignore.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from typing_extensions import assert_type

from pytest_gpuperf import BenchResult, GpuBench, perf


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


def test_mistakes_are_seen(gpubench: GpuBench) -> None:
    gpubench()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gpubench("add")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    gpubench.run(add, (1,), repeat=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gpubench.device = "cpu"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
