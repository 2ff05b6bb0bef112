"""What a session costs: minutes for 10, 100 and 1,000 benchmarks, by formula, from seconds that were measured.

    python benchmarks/session_cost.py benchmarks/results/exchangeability.json [--suspects 0.11]

The record of exchangeability.py holds how long its processes took. From them,

    t   one benchmark in one process, warm-up, timing and checks included
    s   start and end of a fresh process (a fork)
    c   start of the process that forks are made of
    S   start of the session itself: interpreter, imports, collection

and, for n benchmarks, a baseline of R runs, r confirming runs, and the share q of benchmarks that the screen suspects
though nothing changed (benchmarks/verdicts.py finds it on the recordings),

    save a baseline     S + n t + c + (R - 1)(s + n t)
    gate, no suspect    S + n t
    gate, unchanged     S + n t + c + r (s + q n t)
    A/B of R runs       S + n t + 2 c + 2 R (s + n t)

A gate adds up to `--gpuperf-confirm-time` (two minutes) for what is too noisy to tell.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tabulate import tabulate

SIZES = (10, 100, 1000)
SUSPECTS = 0.11


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """What a session is made of."""

    benchmark: float
    process: float
    server: float
    session: float

    @classmethod
    def of(cls, record: Mapping[str, dict]) -> Seconds:
        """Solve for the parts by the processes that ran one benchmark, some, and the whole suite."""
        took = {name: median(seconds) for name, seconds in record["process_seconds"].items()}
        counts = record["benchmarks"]
        benchmark = (took["suite"] - took["alone"]) / (counts["suite"] - counts["alone"])
        return cls(
            benchmark=benchmark,
            process=max(0.0, took["alone"] - benchmark),
            server=took["server"],
            session=max(0.0, took["own"] - counts["own"] * benchmark),
        )

    def save(self, n: int, runs: int) -> float:
        """Save a baseline of `runs` runs."""
        return self.gate(n) + self.server + (runs - 1) * (self.process + n * self.benchmark)

    def gate(self, n: int) -> float:
        """Measure everything once."""
        return self.session + n * self.benchmark

    def confirmed_gate(self, n: int, confirm_runs: int, suspects: float) -> float:
        """Measure everything once, and the suspects again."""
        rounds = confirm_runs * (self.process + suspects * n * self.benchmark)
        return self.gate(n) + self.server + rounds

    def against(self, n: int, runs: int) -> float:
        """Compare two revisions."""
        return self.gate(n) + 2 * self.server + 2 * runs * (self.process + n * self.benchmark)


def table(seconds: Seconds, runs: int, confirm_runs: int, suspects: float) -> str:
    """Return the minutes of each kind of session."""
    kinds = {
        f"save a baseline of {runs} runs": [seconds.save(n, runs) for n in SIZES],
        "gate, no suspect": [seconds.gate(n) for n in SIZES],
        f"gate, {suspects:.0%} suspected": [seconds.confirmed_gate(n, confirm_runs, suspects) for n in SIZES],
        f"--gpuperf-against, {runs} runs a side": [seconds.against(n, runs) for n in SIZES],
    }
    rows = [[kind, *(f"{value / 60:.1f}" for value in values)] for kind, values in kinds.items()]
    headings = ["minutes", *(f"{n:,} benchmarks" for n in SIZES)]
    return tabulate(
        rows, headings, tablefmt="github", disable_numparse=True, colalign=("left", *("right",) * len(SIZES))
    )


def main() -> int:
    """Print the parts and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="the JSON of exchangeability.py")
    parser.add_argument("--runs", type=int, default=10, help="of a baseline, and of each side of an A/B (default: 10)")
    parser.add_argument("--confirm-runs", type=int, default=7, help="of a suspect (default: 7)")
    parser.add_argument("--suspects", type=float, default=SUSPECTS, help="share of benchmarks (default: 0.11)")
    arguments = parser.parse_args()
    record = json.loads(arguments.record.read_text())
    seconds = Seconds.of(record)
    device = record["machine"].get("gpu") or record["machine"]["cpu"]
    print(
        f"{device}, --gpuperf-max-time={record['max_time']}: t = {seconds.benchmark:.2f} s, s = {seconds.process:.2f} s,"
    )
    print(f"c = {seconds.server:.1f} s, S = {seconds.session:.1f} s\n")
    print(table(seconds, arguments.runs, arguments.confirm_runs, arguments.suspects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
