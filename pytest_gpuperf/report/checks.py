"""What is said of benchmarks that the checks doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.report.names import short_names

_SHOWN = 10


def check_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Give each finding a line, the first ten; one more says how many are left out."""
    names = short_names(outcome.benchmark for outcome in outcomes)
    lines = [f"Check of {names[outcome.benchmark]}: {said}" for outcome in outcomes for said in _said(outcome)]
    hidden = len(lines) - _SHOWN
    return lines if hidden <= 0 else [*lines[:_SHOWN], f"and {hidden} more findings of checks (see --gpuperf-json)"]


def failed_checks(outcome: Outcome, findings: Sequence[CheckFinding]) -> str:
    """Tell why a test fails whose benchmark did not pass its checks: the first line alone fits a list of failures."""
    label = f"{outcome.benchmark.name}: " if outcome.benchmark.name else ""
    first, *others = [finding.line for finding in findings]
    return "\n".join([f"{label}check {first}", *(f"check {line}" for line in others)])


def _said(outcome: Outcome) -> Iterator[str]:
    return (finding.line for finding in outcome.checks)
