"""What a JUnit file says of a benchmark: properties of its test case."""

from __future__ import annotations

import math

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.report.columns import mean_over_runs, peak_memory_bytes

_SIGNIFICANT_DIGITS = 6

PropertyValue = str | int | float


def junit_properties(outcome: Outcome) -> list[tuple[str, PropertyValue]]:
    """List an outcome's (name, value) properties: `gpuperf_verdict`, `gpuperf_ratio`, `gpuperf_mean_us` …

    What is not known is left out. In a test of several benchmarks the name says which: `gpuperf_verdict[backward]`.
    """
    which = f"[{outcome.benchmark.name}]" if outcome.benchmark.name else ""
    figures = {**_decided(outcome), **_measured(outcome)}
    known = {name: value for name, value in figures.items() if value is not None and value != ""}
    return [(f"gpuperf_{name}{which}", _readable(value)) for name, value in known.items()]


def _readable(value: PropertyValue) -> PropertyValue:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value


def _decided(outcome: Outcome) -> dict[str, PropertyValue | None]:
    decision = outcome.decision
    return {
        "verdict": decision.verdict,
        "reason": decision.reason,
        "ratio": decision.ratio,
        "ratio_low": decision.ratio_low,
        "ratio_high": decision.ratio_high,
        "p_welch": decision.p_welch,
        "p_rank": decision.p_rank,
        "baseline_runs": decision.baseline_runs,
        "runs": len(outcome.runs),
        "timer": outcome.identity.timer,
        "cache": outcome.identity.cache,
        "findings": "\n".join(finding.line for finding in outcome.checks),
    }


def _measured(outcome: Outcome) -> dict[str, PropertyValue | None]:
    return {
        "mean_us": mean_over_runs(outcome, lambda run: run.mean_us),
        "half_width_us": mean_over_runs(outcome, lambda run: run.half_width_us),
        "median_us": mean_over_runs(outcome, lambda run: math.exp(run.log_median)),
        "host_us": mean_over_runs(outcome, lambda run: run.host_us),
        "clock_ghz": mean_over_runs(outcome, lambda run: run.clock_ghz),
        "peak_memory_bytes": peak_memory_bytes(outcome),
        "trials": sum(run.trials for run in outcome.runs),
        "ceiling_share": outcome.ceiling_share,
        "bound": outcome.bound,
    }
