"""Launch-bound benchmarks are named, with both times, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.notes import LAUNCH_BOUND_NOTE
from pytest_gpuperf.report.launch_bound import is_launch_bound, launch_bound_lines

BOUND = {"notes": (LAUNCH_BOUND_NOTE,), "host_us": 900.0}


def test_nothing_is_said_where_nothing_is(make_outcome: Callable[..., Outcome]) -> None:
    assert launch_bound_lines([make_outcome(), make_outcome("t.py::test_gone", "missing", runs=0)]) == []


def test_both_times_are_told(make_outcome: Callable[..., Outcome]) -> None:
    bound = make_outcome("t.py::test_step", mean_us=160.0, figures=BOUND)
    (line,) = launch_bound_lines([make_outcome("t.py::test_other"), bound])
    assert line.startswith("Launch-bound: test_step (900.0 us to dispatch, 160.0 us to run): ")
    assert "test_other" not in line


def test_many_are_counted(make_outcome: Callable[..., Outcome]) -> None:
    many = [make_outcome(f"t.py::test_step[{number}]", figures=BOUND) for number in range(5)]
    (line,) = launch_bound_lines(many)
    assert ", 2 more: " in line


def test_one_run_of_many_does_not_make_it_so(make_outcome: Callable[..., Outcome]) -> None:
    from msgspec.structs import replace

    mostly_not = make_outcome(runs=3)
    once = replace(mostly_not, runs=(make_outcome(figures=BOUND).runs[0], *mostly_not.runs[1:]))
    assert not is_launch_bound(once)
