"""How often would the gate cry wolf, and what would it find? Replays the recordings and writes the docs' tables.

    python benchmarks/verdicts.py [--comparisons 2000] [--out benchmarks/results]

Every comparison deals recorded runs into ten baseline runs and up to eight new ones and goes the way that the plugin's
verdicts go. Writes verdicts.json, with every row, and verdicts.md, which docs/explanation/statistics.md includes.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from scipy.stats import ttest_ind
from tabulate import tabulate

from pytest_gpuperf.compare.audit import AuditRow, Deal, audit_suite
from pytest_gpuperf.compare.recordings import Suite, load_recording
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.samples import RunRecord

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "tests" / "data"
METHODS = {
    "wall": "textbook wall loop",
    "ev_flush": "events behind an L2 flush",
    "ev_warm": "the same, no flush",
    "ev_ahead": "events queued behind a spin",
    "graph_flush": "CUDA graph, L2 flushed",
    "clocked": "queued events, clock-adjusted",
    "clocked, raw": "queued events, raw time",
}
FOUND = ("gelu_64m_p2", "softmax_4k_p2", "matmul_4k_p2", "sdpa_4k_p3", "gelu_64m_p5", "softmax_4k_p5", "matmul_4k_p5")
STARTS_SECONDS = 4.0
BENCHMARK_SECONDS = 1.3
NAIVE_ALPHA = 0.001


def main() -> None:
    """Replay everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    arguments = parser.parse_args()
    deal = Deal(comparisons=arguments.comparisons)
    rows = {name: replay(name, deal) for name in ("h200_clocked", "h200_a")}
    sharp = audit_suite(suites_of("h200_clocked")["clocked"], deal, Policy(min_effect=0.005), method="clocked")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "verdicts.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
    (arguments.out / "verdicts.md").write_text(document(rows, sharp, arguments.comparisons))
    print(f"wrote {arguments.out / 'verdicts.md'}")


def suites_of(recording: str) -> dict[str, Suite]:
    """Return a recording's suites by method; a metered one once more without its clock."""
    suites: dict[str, Suite] = dict(load_recording(RECORDINGS / f"{recording}.npz"))
    if "clocked" in suites:
        suites["clocked, raw"] = {op: [unmetered(run) for run in runs] for op, runs in suites["clocked"].items()}
    return suites


def unmetered(run: RunRecord) -> RunRecord:
    """Return the run as it would be without a clock meter."""
    return msgspec.structs.replace(run, batches=(), clock_ghz=None, locations=run.locations[:1])


def replay(recording: str, deal: Deal) -> list[AuditRow]:
    """Replay all methods of a recording."""
    rows = []
    for method, suite in suites_of(recording).items():
        print(f"{recording}: {method}")
        rows += audit_suite(suite, deal, method=method)
    return rows


def document(rows: Mapping[str, Sequence[AuditRow]], sharp: Sequence[AuditRow], comparisons: int) -> str:
    """Return the tables as Markdown."""
    parts = [f"<!-- written by benchmarks/verdicts.py, {comparisons} comparisons a benchmark -->"]
    for recording, of_machine in rows.items():
        parts += [f"**`{recording}`: false alarms and detection**", methods_table(of_machine)]
    clocked = [row for row in rows["h200_clocked"] if row.method == "clocked"]
    parts += ["**Benchmark by benchmark, clock-adjusted**", benchmarks_table(clocked, sharp)]
    parts += ["**What a naive test says of identical code, on the same samples**", naive_table()]
    parts += ["**What a session costs, in minutes**", cost_table(clocked)]
    return "\n\n".join(parts) + "\n"


def methods_table(rows: Sequence[AuditRow]) -> str:
    """One line a method: false alarms, confirmations, and the share of each known slowdown that was found."""
    slowdowns = [f"{op.replace('_p', ' +')} %" for op in FOUND]
    body = []
    for method in dict.fromkeys(row.method for row in rows):
        chosen = {row.op: row for row in rows if row.method == method}
        unchanged = [row for row in chosen.values() if row.false_alarm_rate is not None]
        rates = [row.false_alarm_rate or 0.0 for row in unchanged]
        advanced = np.mean([row.advanced_rate for row in unchanged])
        found = [found_share(chosen.get(op)) for op in FOUND]
        body.append(
            [METHODS[method], f"{np.mean(rates):.3%}", f"{max(rates):.2%}", f"{advanced:.0%}", *found],
        )
    return table(body, ["value tested", "false alarms", "worst benchmark", "confirmed", *slowdowns])


def found_share(row: AuditRow | None) -> str:
    """Return a detection rate, with what the slowdown came to."""
    return "" if row is None or row.detection_rate is None else f"{row.detection_rate:.0%}"


def benchmarks_table(rows: Sequence[AuditRow], sharp: Sequence[AuditRow]) -> str:
    """One line a benchmark: its spread, and the smallest slowdown that is found 95 times in 100."""
    sharper = {row.op: row for row in sharp}
    body = [
        [row.op, f"{row.spread:.2%}", f"{row.false_alarm_rate:.2%}", seen(row), seen(sharper[row.op])]
        for row in sorted(rows, key=lambda row: row.spread)
        if row.false_alarm_rate is not None
    ]
    return table(body, ["benchmark", "between runs", "false alarms", "sees from", "with min_effect 0.5 %"])


def seen(row: AuditRow) -> str:
    """Return the smallest slowdown that a benchmark shows."""
    return "nothing" if row.visible_ratio is None else f"{row.visible_ratio - 1:+.1%}"


def naive_table() -> str:
    """Pairs of single runs of one key, tested on their pooled trials: how often p is under 0.001 on either side."""
    body = []
    for recording, method in (("h200_clocked", "wall"), ("h200_a", "ev_flush"), ("h200_clocked", "clocked")):
        alarms: list[bool] = []
        with np.load(RECORDINGS / f"{recording}.npz") as arrays:
            for key in arrays.files:
                if key.endswith(f"__{method}") and "_p" not in key:
                    alarms += naive_alarms(arrays[key].astype(float))
        body.append([METHODS[method] if method != "clocked" else METHODS["clocked, raw"], f"{np.mean(alarms):.0%}"])
    return table(body, ["timer", f"pairs of runs called different at p < {NAIVE_ALPHA}"])


def naive_alarms(runs: np.ndarray) -> list[bool]:
    """Return for each pair of runs whether Welch's test on their trials calls them different."""
    pairs = itertools.combinations(range(len(runs)), 2)
    return [bool(ttest_ind(runs[i], runs[j], equal_var=False).pvalue < NAIVE_ALPHA) for i, j in pairs]


def cost_table(rows: Sequence[AuditRow], sizes: Sequence[int] = (10, 100, 1000)) -> str:
    """Minutes of a session: each benchmark once, suspects seven times more in fresh processes that share a start."""
    advanced = float(np.mean([row.advanced_rate for row in rows if row.false_alarm_rate is not None]))
    body = []
    for size in sizes:
        once, confirmed = size * BENCHMARK_SECONDS, advanced * size
        fresh = 7 * (STARTS_SECONDS + confirmed * BENCHMARK_SECONDS)
        baseline = 10 * (STARTS_SECONDS + size * BENCHMARK_SECONDS)
        body.append([size, *(f"{seconds / 60:.1f}" for seconds in (once, fresh, once + fresh, baseline))])
    return table(body, ["benchmarks", "own run", f"confirming {advanced:.0%}", "session", "saving a baseline"])


def table(body: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Return a Markdown table."""
    return tabulate(body, headers=headers, tablefmt="github", disable_numparse=True)


if __name__ == "__main__":
    main()
