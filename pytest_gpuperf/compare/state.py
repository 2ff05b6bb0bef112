"""What the device's state has to say beside a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_gpuperf.compare.clock import log_clock
from pytest_gpuperf.compare.numbers import mean
from pytest_gpuperf.measure.samples import RunRecord

CLOCKS_DIFFER = 0.02
"""Share by which the mean SM clocks must differ to be worth a line."""


def mean_clock_ghz(runs: Sequence[RunRecord]) -> float | None:
    """Return the runs' geometric mean SM clock; None where one was not metered."""
    clocks = [log_clock(run) for run in runs]
    metered = [clock for clock in clocks if clock is not None]
    return math.exp(mean(metered)) if metered and len(metered) == len(clocks) else None


def device_findings(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return one line for each thing about the device that differs from the baseline."""
    return (*_clocks(baseline, runs), *_throttling(baseline, runs), *_company(baseline, runs))


def _clocks(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    old, new = mean_clock_ghz(baseline), mean_clock_ghz(runs)
    if old is None or new is None or abs(math.log(new / old)) < CLOCKS_DIFFER:
        return []
    return [f"SM clock {old:.2f} → {new:.2f} GHz"]


def _throttling(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    before = {reason for run in baseline for reason in run.device.throttle_reasons}
    reasons = sorted({reason for run in runs for reason in run.device.throttle_reasons} - before)
    return [f"throttled: {', '.join(reasons)}"] if reasons else []


def _company(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    most = max(run.device.other_processes for run in runs)
    return [f"other processes on the device: {most}"] if most > max(r.device.other_processes for r in baseline) else []
