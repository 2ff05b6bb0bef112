"""Does a benchmark's time depend on the company it keeps, or on the process that measures it?

    python benchmarks/exchangeability.py [--runs 4] [--minutes 5] [--conditions suite own]
        [--out benchmarks/results/exchangeability.json] [--add-to benchmarks/results/exchangeability.json]

Measures some benchmarks of suites/test_kernels.py under six conditions, in random order within each round:

- suite: in a fresh process that runs the whole suite in shuffled order, as a baseline's runs and a session's own do;
- alone: in a fresh process that runs nothing else, as a confirming process does for a lone suspect;
- heavy: each right after 0.6 s of large matrix products;
- idle: each right after 0.6 s in which the device does nothing;
- listed: as in the suite, in a process that also records each benchmark's kernels after timing it, as the first of a
  baseline does;
- own: in the process of a pytest session itself, in the suite's order.

Prints after every round the ratio of each condition's mean to the suite's, adjusted to the suite's clock as verdicts
are, with its standard error, and the raw ratio beside it. `--conditions` leaves out what is not named; without the
suite the ratios are to the first of the others. Exits with 1 where two conditions' adjusted means of one benchmark lie
more than 0.8 % apart, with 3 where it was ended early or there are fewer than two rounds.

The record is written after every process; runs of a round that was cut short are in it, but are not compared.
`--add-to` takes the rounds of an earlier record along: of the same machine, versions and code, conditions and
benchmarks, and no other.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from early_end import UNDECIDED, EndedEarly
from exchangeability_rounds import (
    CONDITIONS,
    FEWEST_ROUNDS,
    LARGEST_DIFFERENCE,
    Rounds,
    Setup,
    compare,
    continued,
    largest,
    load,
    report,
)
from records import code_digest, machine, write_record
from suite_runs import fresh_command, names, node_id_of, session, short_name

from pytest_gpuperf.compare.fresh import Limits, run_fresh
from pytest_gpuperf.compare.launchers import ForkLauncher

SUBJECTS = ("matmul_4k", "attention_4k", "gelu_64m", "softmax_4k", "mlp_step")
MAX_TIME = "0.2"
NEIGHBOURS = ("heavy", "idle")
NEIGHBOUR_FILE = "GPUPERF_SUITE_NEIGHBOUR_FILE"
START_SECONDS = 180.0
Turn = Done = Callable[[], None]


class Conditions:
    """Runs benchmarks under one condition after another; `rounds` keeps what they measured."""

    def __init__(self, folder: Path, setup: Setup, rounds: Rounds) -> None:
        self._setup = setup
        self._rounds = rounds
        self._options = [f"--gpuperf-max-time={setup.max_time}"]
        self._storage = f"--gpuperf-storage={folder / 'storage'}"
        self._neighbour = folder / "neighbour"
        self._neighbour.write_text("")
        self._turns = sum(map(len, rounds.seconds.values()))
        """Seeds the order within a process: rounds that were taken along had other orders."""
        begun = time.perf_counter()
        self._launcher = ForkLauncher(
            fresh_command(["--gpuperf-only", *self._options], {NEIGHBOUR_FILE: str(self._neighbour)}), START_SECONDS
        )
        self._launcher.await_ready()
        self._took("server", begun)

    def close(self) -> None:
        """End the process that forks are made of."""
        self._launcher.close()

    def turns(self) -> list[Turn]:
        """Return what a round consists of."""
        by_condition: dict[str, list[Turn]] = {
            "suite": [lambda: self._fresh("suite", self._setup.suite)],
            "alone": [lambda name=name: self._fresh("alone", [name]) for name in self._setup.subjects],
            "listed": [lambda: self._fresh("listed", self._setup.subjects, list_kernels=True)],
            "own": [self._own],
            **{neighbour: [lambda n=neighbour: self._beside(n)] for neighbour in NEIGHBOURS},
        }
        return [turn for condition in self._setup.conditions for turn in by_condition[condition]]

    def _beside(self, neighbour: str) -> None:
        self._neighbour.write_text(neighbour)
        self._fresh(neighbour, self._setup.subjects)
        self._neighbour.write_text("")

    def _own(self) -> None:
        """Run the subjects in the process of a session that stores one run."""
        self._turns += 1
        name = f"--gpuperf-save-baseline=own{self._turns}"
        done = session([name, "--gpuperf-runs=1", self._storage, *self._options], self._setup.subjects)
        if done.exit_code:
            raise SystemExit(done.output)
        self._rounds.seconds.setdefault("own", []).append(done.seconds)
        for subject, run in done.own_runs().items():
            self._rounds.take("own", subject, run)

    def _fresh(self, condition: str, names: Sequence[str], *, list_kernels: bool = False) -> None:
        self._turns += 1
        limits = Limits(start_seconds=START_SECONDS, test_seconds={})
        begun = time.perf_counter()
        node_ids = [node_id_of(name) for name in names]
        done = run_fresh(self._launcher, node_ids, seed=self._turns, limits=limits, list_kernels=list_kernels)
        if done.failures:
            raise SystemExit("\n".join(done.failures.values()))
        self._took(condition, begun)
        for node_id, event in done.measured:
            self._rounds.take(condition, short_name(node_id), event.record)

    def _took(self, condition: str, begun: float) -> None:
        self._rounds.seconds.setdefault(condition, []).append(time.perf_counter() - begun)


def measure(setup: Setup, rounds: Rounds, runs: int, minutes: float, date: str, *, keep: Done, tell: Done) -> None:
    """Add `runs` rounds, fewer where another would outlast `minutes`; `keep` after every process, `tell` after a round.

    Rounds that can be compared, those taken along included, are measured however long they take.
    """
    order = random.Random(1 + len(rounds.dates))
    begun, longest = time.perf_counter(), 0.0
    with tempfile.TemporaryDirectory() as name:
        conditions = Conditions(Path(name), setup, rounds)
        try:
            for number in range(runs):
                round_begun = time.perf_counter()
                if len(rounds.dates) >= FEWEST_ROUNDS and round_begun + longest - begun > 60 * minutes:
                    break
                turns = conditions.turns()
                for turn in order.sample(turns, len(turns)):
                    turn()
                    keep()
                rounds.end_round(date)
                keep()
                longest = max(longest, time.perf_counter() - round_begun)
                print(f"\nround {number + 1} of {runs} done in {time.perf_counter() - round_begun:.0f} s", flush=True)
                tell()
        finally:
            conditions.close()


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4, help="rounds to measure, 2 at least for a verdict (default: 4)")
    parser.add_argument("--minutes", type=float, default=5.0, help="no round begins that may end later (default: 5)")
    parser.add_argument(
        "--conditions", nargs="+", choices=CONDITIONS, help="two or more (default: all, or the record's)"
    )
    parser.add_argument("--subjects", help=f"benchmarks, separated by commas (default: {','.join(SUBJECTS)})")
    parser.add_argument("--everything", help="the whole suite; by default all of test_kernels.py")
    parser.add_argument("--max-time", help=f"of one benchmark in one run, in seconds (default: {MAX_TIME})")
    parser.add_argument("--add-to", type=Path, metavar="RECORD", help="continue this record; its setup is the default")
    parser.add_argument("--out", type=Path, help="where to write the record as JSON (default: RECORD, if there is one)")
    arguments = parser.parse_args()
    if arguments.conditions and len(set(arguments.conditions)) < 2:
        parser.error("--conditions: one alone has nothing to be compared with; name two or more")
    return arguments


def setup_of(arguments: argparse.Namespace, earlier: dict[str, object]) -> Setup:
    """Return what is to be measured: as told, else as in the earlier record, else the usual."""
    chosen = arguments.conditions or earlier.get("conditions", CONDITIONS)
    conditions = [condition for condition in CONDITIONS if condition in chosen]
    subjects = arguments.subjects.split(",") if arguments.subjects else list(earlier.get("subjects", SUBJECTS))
    suite: list[str] = []
    if "suite" in conditions:
        suite = arguments.everything.split(",") if arguments.everything else list(earlier.get("suite", ())) or names()
    max_time = arguments.max_time or str(earlier.get("max_time", MAX_TIME))
    return Setup(code=code_digest(), max_time=max_time, conditions=conditions, subjects=subjects, suite=suite)


def main() -> int:
    """Measure; print the table and write the record as rounds come."""
    arguments = parsed()
    begun, about = time.perf_counter(), machine()
    print(about, flush=True)
    earlier = load(arguments.add_to) if arguments.add_to else {}
    setup = setup_of(arguments, earlier)
    rounds = continued(arguments.add_to, earlier, about, setup) if arguments.add_to else Rounds()
    out, before = arguments.out or arguments.add_to, float(earlier.get("seconds", 0))

    def keep() -> None:
        compared = compare(rounds.whole, setup) if rounds.dates else {}
        counts = {"suite": len(setup.suite), "alone": 1, "own": len(setup.subjects)}
        record = {"machine": about, **asdict(setup), "seconds": round(before + time.perf_counter() - begun)}
        record |= {"limit": LARGEST_DIFFERENCE, "largest": largest(compared) if compared else None}
        write_record(record | {"benchmarks": counts, "compared": compared, **rounds.plain()}, out)

    def tell() -> None:
        print(report(compare(rounds.whole, setup), setup, len(rounds.dates)), flush=True)

    with EndedEarly() as ended_early:
        measure(setup, rounds, arguments.runs, arguments.minutes, about["date"], keep=keep, tell=tell)
    if ended_early:
        keep()
        print(f"of a round that was cut short: runs of {', '.join(rounds.under_way) or 'nothing'}")
        if rounds.dates:
            tell()
    print(f"{time.perf_counter() - begun:.0f} s")
    if ended_early or len(rounds.dates) < FEWEST_ROUNDS:
        return UNDECIDED
    return 0 if largest(compare(rounds.whole, setup)) <= LARGEST_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
