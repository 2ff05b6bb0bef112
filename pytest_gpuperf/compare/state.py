"""What the device's state has to say beside a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_gpuperf.compare.numbers import mean
from pytest_gpuperf.measure.samples import RunRecord

CLOCKS_DIFFER = 0.02
"""Share by which the mean clocks must differ to be worth a line."""


def mean_clock_ghz(runs: Sequence[RunRecord]) -> float | None:
    """Return the runs' geometric mean clock; None where one was not metered."""
    logs = [math.log(run.clock_ghz) for run in runs if run.clock_ghz is not None and run.clock_ghz > 0]
    return math.exp(mean(logs)) if logs and len(logs) == len(runs) else None


def device_findings(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return one line for each thing about the device that differs from the baseline."""
    return (*_clocks(baseline, runs), *_throttling(baseline, runs), *_company(baseline, runs))


def _clocks(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    old, new = mean_clock_ghz(baseline), mean_clock_ghz(runs)
    if old is None or new is None or abs(math.log(new) - math.log(old)) < CLOCKS_DIFFER:
        return []
    return [f"clock {old:.2f} → {new:.2f} GHz"]


def _throttling(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    before = {reason for run in baseline for reason in run.device.throttle_reasons}
    reasons = sorted({reason for run in runs for reason in run.device.throttle_reasons} - before)
    return [f"throttled: {', '.join(reasons)}"] if reasons else []


def _company(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    most = max(run.device.other_processes for run in runs)
    return [f"other processes on the device: {most}"] if most > max(r.device.other_processes for r in baseline) else []
