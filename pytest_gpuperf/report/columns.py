"""The columns that a table of results can have, and the text of their cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report import units


def mean_over_runs(outcome: Outcome, value: Callable[[RunRecord], float | None]) -> float | None:
    """The mean of one figure over an outcome's runs; None where no run has it."""
    known = [number for number in map(value, outcome.runs) if number is not None]
    return math.fsum(known) / len(known) if known else None


def mean_us(outcome: Outcome) -> float | None:
    """The headline figure: the mean time over this session's runs."""
    return mean_over_runs(outcome, lambda run: run.mean_us)


def peak_memory_bytes(outcome: Outcome) -> int | None:
    """The largest peak of any of this session's runs; None where it was not recorded."""
    return max((run.peak_memory_bytes for run in outcome.runs if run.peak_memory_bytes is not None), default=None)


def _error(outcome: Outcome) -> str:
    mean = mean_us(outcome)
    half_width_us = mean_over_runs(outcome, lambda run: run.half_width_us)
    return units.UNKNOWN if mean is None or half_width_us is None else units.half_width(half_width_us, mean)


def _change(outcome: Outcome) -> str:
    decision = outcome.decision
    return units.change(decision.ratio, decision.ratio_low, decision.ratio_high)


def _rate(outcome: Outcome, amount: float | None) -> str:
    """`amount` a call in the mean time, in 10^12 a second."""
    mean = mean_us(outcome)
    return units.UNKNOWN if amount is None or not mean else f"{amount / mean / 1e6:.3g}"


def _runs(outcome: Outcome) -> str:
    before, now = outcome.decision.baseline_runs, outcome.decision.new_runs or len(outcome.runs)
    return f"{before} + {now}" if before else str(now)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and the text of its cell for an outcome."""

    heading: str
    cell: Callable[[Outcome], str]
    align: str = "right"


def _time(value: Callable[[RunRecord], float | None]) -> Callable[[Outcome], str]:
    return lambda outcome: units.time(mean_over_runs(outcome, value))


COLUMNS: dict[str, Column] = {
    "mean": Column("mean", _time(lambda run: run.mean_us)),
    "error": Column("±", _error),
    "median": Column("median", _time(lambda run: math.exp(run.log_median))),
    "std": Column("std", _time(lambda run: run.sd_us)),
    "min": Column("min", _time(lambda run: run.min_us)),
    "p5": Column("p5", _time(lambda run: run.p5_us)),
    "p95": Column("p95", _time(lambda run: run.p95_us)),
    "trials": Column("trials", lambda outcome: str(sum(run.trials for run in outcome.runs))),
    "runs": Column("runs", _runs),
    "host": Column("host", _time(lambda run: run.host_us)),
    "clock": Column("clock", lambda outcome: units.clock(mean_over_runs(outcome, lambda run: run.clock_ghz))),
    "memory": Column("memory", lambda outcome: units.size(peak_memory_bytes(outcome))),
    "ratio": Column("vs baseline", _change),
    "bandwidth": Column("TB/s", lambda outcome: _rate(outcome, outcome.identity.workload.bytes_moved)),
    "compute": Column("TFLOP/s", lambda outcome: _rate(outcome, outcome.identity.workload.flops)),
    "bound": Column("bound", lambda outcome: outcome.bound or units.UNKNOWN, "left"),
    "verdict": Column("verdict", lambda outcome: outcome.decision.verdict, "left"),
    "share": Column("of peak", lambda outcome: units.percent(outcome.ceiling_share)),
}
COLUMN_NAMES = ("name", *COLUMNS)
DEFAULT_COLUMNS = ("name", "mean", "error", "ratio", "verdict", "share")
