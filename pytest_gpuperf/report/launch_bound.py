"""What is said of benchmarks whose host takes longer to dispatch a call than their device to run it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.notes import LAUNCH_BOUND_NOTE
from pytest_gpuperf.report import units
from pytest_gpuperf.report.columns import mean_over_runs, mean_us
from pytest_gpuperf.report.names import short_names

_NAMED = 3


def is_launch_bound(outcome: Outcome) -> bool:
    """Whether most of the runs found so."""
    found = [LAUNCH_BOUND_NOTE in run.notes for run in outcome.runs]
    return sum(found) * 2 > len(found)


def launch_bound_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Name them in one sentence, with both times of the first few; nothing where there are none."""
    names = short_names(outcome.benchmark for outcome in outcomes)
    found = [outcome for outcome in outcomes if is_launch_bound(outcome)]
    if not found:
        return []
    told = [f"{names[outcome.benchmark]} ({_both_times(outcome)})" for outcome in found[:_NAMED]]
    if len(found) > _NAMED:
        told.append(f"{len(found) - _NAMED} more")
    return [
        f"Launch-bound: {', '.join(told)}: end to end the host sets the pace, not the device whose time is shown; "
        "fuse, compile, capture in a graph, or give more work a call."
    ]


def _both_times(outcome: Outcome) -> str:
    host_us = mean_over_runs(outcome, lambda run: run.host_us)
    return f"{units.time(host_us)} to dispatch, {units.time(mean_us(outcome))} to run"
