"""Does a benchmark's time depend on the company it keeps, or on the process that measures it?

    python benchmarks/exchangeability.py [--runs 4] [--minutes 5] [--out benchmarks/results/exchangeability.json]

Measures some benchmarks of suites/test_kernels.py under five conditions, in random order within each round:

- suite: in a fresh process that runs the whole suite in shuffled order, as a baseline's runs and a session's own do;
- alone: in a fresh process that runs nothing else, as a confirming process does for a lone suspect;
- heavy: each right after 0.6 s of large matrix products;
- idle: each right after 0.6 s in which the device does nothing;
- listed: as in the suite, in a process that also records each benchmark's kernels after timing it, as the first of a
  baseline does;
- own: in the process of a pytest session itself, in the suite's order.

Prints the ratio of each condition's mean to the suite's, adjusted to the suite's clock as verdicts are, with its
standard error, and the raw ratio beside it. Exits with 1 where two conditions' adjusted means of one benchmark lie more
than 0.8 % apart.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, variance

from records import machine, write_record
from suite_runs import Runs, fresh_command, names, node_id_of, plain, session, short_name
from tabulate import tabulate

from pytest_gpuperf.compare.fresh import Limits, run_fresh
from pytest_gpuperf.compare.launchers import ForkLauncher
from pytest_gpuperf.compare.values import adjusted_arms, raw_arms
from pytest_gpuperf.measure.samples import RunRecord

CONDITIONS = ("suite", "alone", "heavy", "idle", "listed", "own")
SUBJECTS = ("matmul_4k", "attention_4k", "gelu_64m", "softmax_4k", "mlp_step")
LARGEST_DIFFERENCE = 0.008
NEIGHBOUR_FILE = "GPUPERF_SUITE_NEIGHBOUR_FILE"
START_SECONDS = 180.0
FEWEST_ROUNDS = 2
"""A standard error takes two."""
SHOWN = ("adjusted", "standard_error", "raw")
Cell = dict[str, float]


class Conditions:
    """Runs benchmarks under one condition after another and keeps what they measured."""

    def __init__(self, folder: Path, subjects: Sequence[str], options: Sequence[str]) -> None:
        self._subjects = subjects
        self._options = options
        self._storage = f"--gpuperf-storage={folder / 'storage'}"
        self._neighbour = folder / "neighbour"
        self._neighbour.write_text("")
        begun = time.perf_counter()
        self._launcher = ForkLauncher(
            fresh_command(["--gpuperf-only", *options], {NEIGHBOUR_FILE: str(self._neighbour)}), START_SECONDS
        )
        self.seconds: dict[str, list[float]] = {"server": [time.perf_counter() - begun]}
        """How long each process took, by condition; `server` is the start of the process that forks are made of."""
        self._turns = 0
        self.runs: dict[str, Runs] = {condition: {} for condition in CONDITIONS}

    def close(self) -> None:
        """End the process that forks are made of."""
        self._launcher.close()

    def suite(self, everything: Sequence[str]) -> None:
        """Run the whole suite in one fresh process."""
        self._fresh("suite", everything)

    def alone(self, name: str) -> None:
        """Run one benchmark in a fresh process."""
        self._fresh("alone", [name])

    def listed(self) -> None:
        """Run the subjects in one fresh process that starts the profiler after the first of them."""
        self._fresh("listed", self._subjects, list_kernels=True)

    def beside(self, neighbour: str) -> None:
        """Run the subjects in one fresh process, each after the neighbour."""
        self._neighbour.write_text(neighbour)
        self._fresh(neighbour, self._subjects)
        self._neighbour.write_text("")

    def own(self) -> None:
        """Run the subjects in the process of a session that stores one run."""
        name = f"--gpuperf-save-baseline=own{self._turns}"
        done = session([name, "--gpuperf-runs=1", self._storage, *self._options], self._subjects)
        self._turns += 1
        if done.exit_code:
            raise SystemExit(done.output)
        self.seconds.setdefault("own", []).append(done.seconds)
        for subject, run in done.own_runs().items():
            self.runs["own"].setdefault(subject, []).append(run)

    def _fresh(self, condition: str, names: Sequence[str], *, list_kernels: bool = False) -> None:
        self._turns += 1
        limits = Limits(start_seconds=START_SECONDS, test_seconds={})
        begun = time.perf_counter()
        node_ids = [node_id_of(name) for name in names]
        done = run_fresh(self._launcher, node_ids, seed=self._turns, limits=limits, list_kernels=list_kernels)
        if done.failures:
            raise SystemExit("\n".join(done.failures.values()))
        self.seconds.setdefault(condition, []).append(time.perf_counter() - begun)
        for node_id, event in done.measured:
            self.runs[condition].setdefault(short_name(node_id), []).append(event.record)


def measure(
    runs: int, minutes: float, subjects: Sequence[str], everything: Sequence[str], options: Sequence[str]
) -> Conditions:
    """Run every condition `runs` times, fewer where another round would outlast `minutes`; whole rounds only."""
    order = random.Random(1)
    begun, longest = time.perf_counter(), 0.0
    with tempfile.TemporaryDirectory() as name:
        conditions = Conditions(Path(name), subjects, options)
        try:
            for number in range(runs):
                round_begun = time.perf_counter()
                if number >= FEWEST_ROUNDS and round_begun + longest - begun > 60 * minutes:
                    break
                turns = [(conditions.suite, (everything,)), (conditions.own, ()), (conditions.listed, ())]
                turns += [(conditions.alone, (subject,)) for subject in subjects]
                turns += [(conditions.beside, (neighbour,)) for neighbour in ("heavy", "idle")]
                for turn, arguments in order.sample(turns, len(turns)):
                    turn(*arguments)
                longest = max(longest, time.perf_counter() - round_begun)
                print(f"round {number + 1} of {runs} done in {time.perf_counter() - round_begun:.0f} s", flush=True)
        finally:
            conditions.close()
    return conditions


def compare(runs: dict[str, Runs], subject: str) -> dict[str, Cell]:
    """Return for each condition the log ratio of its mean to the suite's, its standard error, and the raw log ratio."""
    return {condition: _cell(runs["suite"][subject], runs[condition][subject]) for condition in CONDITIONS}


def _cell(suite: Sequence[RunRecord], other: Sequence[RunRecord]) -> Cell:
    adjusted, raw = adjusted_arms(suite, other), raw_arms(suite, other)
    clocks = [run.clock_ghz for run in other if run.clock_ghz]
    return {
        "adjusted": mean(adjusted.new) - mean(adjusted.baseline),
        "standard_error": math.sqrt(variance(adjusted.new) / len(other)),
        "raw": mean(raw.new) - mean(raw.baseline),
        "clock_ghz": mean(clocks) if clocks else 0.0,
        "mean_us": mean(run.mean_us for run in other),
    }


def apart(cells: dict[str, Cell], value: str) -> float:
    """Return how far the conditions lie apart, as a share of the time."""
    values = [cell[value] for cell in cells.values()]
    return math.expm1(max(values) - min(values))


def table(compared: dict[str, dict[str, Cell]]) -> str:
    """Return a row for each benchmark and condition, in percent of the suite's mean."""
    rows = [
        [subject, condition, cell["mean_us"], cell["clock_ghz"], *(100 * cell[key] for key in SHOWN)]
        for subject, cells in compared.items()
        for condition, cell in cells.items()
    ]
    headings = ["benchmark", "condition", "mean us", "SM GHz", "adjusted %", "± %", "raw %"]
    return tabulate(rows, headings, floatfmt=("", "", ".2f", ".3f", "+.2f", ".2f", "+.2f"))


def summary(compared: dict[str, dict[str, Cell]]) -> str:
    """Return how far each benchmark's conditions lie apart."""
    rows = [[subject, apart(cells, "adjusted"), apart(cells, "raw")] for subject, cells in compared.items()]
    return tabulate(rows, ["benchmark", "apart, adjusted", "apart, raw"], floatfmt=".2%")


def main() -> int:
    """Measure, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4, help="runs of each condition, at least 2 (default: 4)")
    parser.add_argument("--minutes", type=float, default=5.0, help="no round begins that may end later (default: 5)")
    parser.add_argument("--subjects", default=",".join(SUBJECTS), help="benchmarks, separated by commas")
    parser.add_argument("--everything", default="", help="the whole suite; by default all of test_kernels.py")
    parser.add_argument("--max-time", default="0.2", help="of one benchmark in one run, in seconds (default: 0.2)")
    parser.add_argument("--out", type=Path, help="where to write the record as JSON")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    subjects = arguments.subjects.split(",")
    everything = arguments.everything.split(",") if arguments.everything else names()
    about = machine()
    print(about, flush=True)
    measured = measure(
        arguments.runs, arguments.minutes, subjects, everything, [f"--gpuperf-max-time={arguments.max_time}"]
    )
    compared = {subject: compare(measured.runs, subject) for subject in subjects}
    print(table(compared), summary(compared), sep="\n\n")
    largest = max(apart(cells, "adjusted") for cells in compared.values())
    print(
        f"largest difference of two conditions' means, clock-adjusted: {largest:.2%} (limit {LARGEST_DIFFERENCE:.1%})"
    )
    seconds = time.perf_counter() - begun
    print(f"{seconds:.0f} s")
    record = {"machine": about, "seconds": round(seconds), "limit": LARGEST_DIFFERENCE, "largest": largest}
    counts = {"suite": len(everything), "alone": 1, "own": len(subjects)}
    record |= {"benchmarks": counts, "process_seconds": measured.seconds, "max_time": arguments.max_time}
    record |= {"compared": compared, "runs": {condition: plain(runs) for condition, runs in measured.runs.items()}}
    write_record(record, arguments.out)
    return 0 if largest <= LARGEST_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
