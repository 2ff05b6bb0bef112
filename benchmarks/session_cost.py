"""What a session costs: minutes for 10, 100 and 1,000 benchmarks, by formula, from seconds that were measured.

    python benchmarks/session_cost.py benchmarks/results/gate_sessions_h200.txt
    python benchmarks/session_cost.py benchmarks/results/exchangeability.json

From a record of gate_sessions.py (its output) or exchangeability.py (its JSON) it takes

    t   one benchmark in one process, warm-up, timing and checks included
    s   start and end of a fresh process: of a new interpreter in the former, of a fork in the latter
    c   start of the process that forks are made of; 0 for new interpreters
    S   start of the session itself: interpreter, imports, collection

and prints, for n benchmarks, a baseline of R runs, r confirming runs, and the share q of benchmarks that the screen
suspects though nothing changed (benchmarks/verdicts.py finds it on the recordings),

    save a baseline     S + n t + c + (R - 1)(s + n t)
    gate, no suspect    S + n t
    gate, unchanged     S + n t + c + r (s + q n t)
    A/B of R runs       S + n t + 2 c + 2 R (s + n t)

A gate adds up to `--gpuperf-confirm-time` (two minutes) for what is too noisy to tell.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tabulate import tabulate

SIZES = (10, 100, 1000)
SUSPECTS = 0.11
NEEDED = ("server", "suite", "alone", "own")
"""The processes of exchangeability.py that a session's parts are found from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """What a session is made of."""

    benchmark: float
    process: float
    server: float
    session: float

    @classmethod
    def of_processes(cls, record: Mapping[str, dict]) -> Seconds:
        """Solve for the parts by the processes that ran one benchmark, some, and the whole suite."""
        took = {name: median(seconds) for name, seconds in record["process_seconds"].items()}
        if lacking := [name for name in NEEDED if name not in took]:
            raise SystemExit(f"the record has no {', '.join(lacking)}: measure it with --conditions suite alone own")
        counts = record["benchmarks"]
        benchmark = (took["suite"] - took["alone"]) / (counts["suite"] - counts["alone"])
        return cls(
            benchmark=benchmark,
            process=max(0.0, took["alone"] - benchmark),
            server=took["server"],
            session=max(0.0, took["own"] - counts["own"] * benchmark),
        )

    @classmethod
    def of_sessions(cls, text: str) -> Seconds:
        """Solve for the parts by sessions that store ten runs, that suspect nothing, and that confirm one suspect.

        With n benchmarks: saved - unchanged = 9 (s + n t), and slower - unchanged = 7 (s + t).
        """
        [n] = [int(count) for count in re.findall(r"^save a baseline: exit 0, (\d+) new", text, re.MULTILINE)]
        took = {
            kind: median(
                float(seconds) for seconds in re.findall(rf"^{kind}.*, (\d+) s: as expected", text, re.MULTILINE)
            )
            for kind in ("save a baseline", "unchanged", "3 % more work")
        }
        whole = (took["save a baseline"] - took["unchanged"]) / 9
        alone = (took["3 % more work"] - took["unchanged"]) / 7
        benchmark = (whole - alone) / (n - 1)
        session = took["unchanged"] - n * benchmark
        return cls(benchmark=benchmark, process=alone - benchmark, server=0.0, session=session)

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
    parser.add_argument("record", type=Path, help="of gate_sessions.py (text) or exchangeability.py (JSON)")
    parser.add_argument("--runs", type=int, default=10, help="of a baseline, and of each side of an A/B (default: 10)")
    parser.add_argument("--confirm-runs", type=int, default=7, help="of a suspect (default: 7)")
    parser.add_argument("--suspects", type=float, default=SUSPECTS, help="share of benchmarks (default: 0.11)")
    arguments = parser.parse_args()
    text = arguments.record.read_text(encoding="utf-8")
    is_json = arguments.record.suffix == ".json"
    seconds = Seconds.of_processes(json.loads(text)) if is_json else Seconds.of_sessions(text)
    print(f"t = {seconds.benchmark:.2f} s, s = {seconds.process:.1f} s, ", end="")
    print(f"c = {seconds.server:.1f} s, S = {seconds.session:.1f} s\n")
    print(table(seconds, arguments.runs, arguments.confirm_runs, arguments.suspects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
