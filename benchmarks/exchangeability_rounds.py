"""Rounds of exchangeability.py: a run of every condition each, kept as they come, continued from a record, and told."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, variance
from typing import Any

import msgspec
from records import differing
from suite_runs import Runs, plain
from tabulate import tabulate

from pytest_gpuperf.compare.values import adjusted_arms, raw_arms
from pytest_gpuperf.measure.samples import RunRecord

CONDITIONS = ("suite", "alone", "heavy", "idle", "listed", "own")
LARGEST_DIFFERENCE = 0.008
FEWEST_ROUNDS = 2
"""A standard error takes two."""
SHOWN = ("adjusted", "standard_error", "raw")
Cell = dict[str, "float | None"]
Compared = dict[str, dict[str, Cell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What all rounds of a record have in common, besides the machine."""

    code: str
    """A digest of the code that measured and was measured."""
    max_time: str
    conditions: list[str]
    subjects: list[str]
    suite: list[str]
    """The benchmarks that the condition `suite` runs; none where it is left out."""

    @property
    def base(self) -> str:
        """The condition that the others are compared with."""
        return "suite" if "suite" in self.conditions else self.conditions[0]


@dataclass(slots=True)
class Rounds:
    """Runs by condition and benchmark; those of the round under way count once it is whole."""

    whole: dict[str, Runs] = field(default_factory=dict)
    under_way: dict[str, Runs] = field(default_factory=dict)
    dates: list[str] = field(default_factory=list)
    """One for each whole round."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """How long each process took, by condition; `server` is the start of the process that forks are made of."""
    cut_short: list[dict[str, object]] = field(default_factory=list)
    """The runs of earlier rounds that were not finished, as plain values: no condition may have more than the rest."""

    def take(self, condition: str, name: str, run: RunRecord) -> None:
        """Keep a run of the round under way."""
        self.under_way.setdefault(condition, {}).setdefault(name, []).append(run)

    def end_round(self, date: str) -> None:
        """Have the runs of the round under way count."""
        for condition, runs in self.under_way.items():
            for name, records in runs.items():
                self.whole.setdefault(condition, {}).setdefault(name, []).extend(records)
        self.under_way = {}
        self.dates.append(date)

    def plain(self) -> dict[str, object]:
        """Return everything as plain values, for a record."""
        unfinished = [*self.cut_short, *([_plain(self.under_way)] if self.under_way else [])]
        return {
            "runs": _plain(self.whole),
            "round_dates": self.dates,
            "unfinished": unfinished,
            "process_seconds": self.seconds,
        }


def _plain(runs: Mapping[str, Runs]) -> dict[str, object]:
    return {condition: plain(by_name) for condition, by_name in runs.items()}


def load(path: Path) -> dict[str, Any]:
    """Return a record that is to be continued."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SystemExit(f"--add-to: {path} is no record of this script: {error}") from error


def continued(path: Path, record: Mapping[str, Any], about: Mapping[str, str], setup: Setup) -> Rounds:
    """Return the rounds of an earlier record; one of another machine, other versions or another setup is refused."""
    mine = msgspec.to_builtins(setup)
    theirs = {key: record[key] for key in mine if key in record}
    different = differing(record.get("machine", {}), about)
    different += differing({"code": theirs.get("code", "(not said)")}, {"code": setup.code})
    different = different or differing(theirs, mine)
    if different:
        raise SystemExit(f"--add-to: {path} cannot be continued: {'; '.join(different)}. Measure into another record")
    return Rounds(
        whole=msgspec.convert(record["runs"], dict[str, dict[str, list[RunRecord]]]),
        dates=list(record["round_dates"]),
        seconds={name: list(seconds) for name, seconds in record["process_seconds"].items()},
        cut_short=list(record["unfinished"]),
    )


def compare(whole: Mapping[str, Runs], setup: Setup) -> Compared:
    """Return each condition's log ratio to the base, adjusted and raw, and the former's standard error, by benchmark.

    One round has no standard error.
    """
    return {
        subject: {name: _cell(whole[setup.base][subject], whole[name][subject]) for name in setup.conditions}
        for subject in setup.subjects
    }


def _cell(base: Sequence[RunRecord], other: Sequence[RunRecord]) -> Cell:
    adjusted, raw = adjusted_arms(base, other), raw_arms(base, other)
    clocks = [run.clock_ghz for run in other if run.clock_ghz]
    enough = len(other) >= FEWEST_ROUNDS
    return {
        "adjusted": mean(adjusted.new) - mean(adjusted.baseline),
        "standard_error": math.sqrt(variance(adjusted.new) / len(other)) if enough else None,
        "raw": mean(raw.new) - mean(raw.baseline),
        "clock_ghz": mean(clocks) if clocks else 0.0,
        "mean_us": mean(run.mean_us for run in other),
    }


def apart(cells: Mapping[str, Cell], value: str) -> float:
    """Return how far the conditions lie apart, as a share of the time."""
    values = [number for cell in cells.values() if (number := cell[value]) is not None]
    return math.expm1(max(values) - min(values))


def largest(compared: Compared) -> float:
    """Return how far two conditions' adjusted means of one benchmark lie apart at most."""
    return max(apart(cells, "adjusted") for cells in compared.values())


def report(compared: Compared, setup: Setup, rounds: int) -> str:
    """Return all that is to be told of so many rounds."""
    told = f"largest difference of two conditions' means, clock-adjusted: {largest(compared):.2%}"
    limit = f"(limit {LARGEST_DIFFERENCE:.1%})" if rounds >= FEWEST_ROUNDS else "(one round: it says nothing yet)"
    title = f"rounds: {rounds}; compared with: {setup.base}"
    return "\n\n".join([title, table(compared), summary(compared), f"{told} {limit}"])


def table(compared: Compared) -> str:
    """Return a row for each benchmark and condition, in percent of the base's mean."""
    rows = [
        [subject, condition, cell["mean_us"], cell["clock_ghz"], *(_percent(cell[key]) for key in SHOWN)]
        for subject, cells in compared.items()
        for condition, cell in cells.items()
    ]
    headings = ["benchmark", "condition", "mean us", "SM GHz", "adjusted %", "± %", "raw %"]
    return tabulate(rows, headings, floatfmt=("", "", ".2f", ".3f", "+.2f", ".2f", "+.2f"))


def _percent(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else 100 * log_ratio


def summary(compared: Compared) -> str:
    """Return how far each benchmark's conditions lie apart."""
    rows = [[subject, apart(cells, "adjusted"), apart(cells, "raw")] for subject, cells in compared.items()]
    return tabulate(rows, ["benchmark", "apart, adjusted", "apart, raw"], floatfmt=".2%")
