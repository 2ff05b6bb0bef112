"""What the pace loop is worth on this CPU: the spread between runs, false alarms and slowdowns found, with and without.

    python benchmarks/cpu_pace.py [RUNS]

Every run is a fresh process that measures all functions once. The sensitivity comes from the first ten runs of each
function; spread and verdicts are those of the others.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence

import msgspec
from early_end import EndedEarly

from pytest_gpuperf.compare.clock import adjusted, clock_model, clock_points, raw
from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.backends.cpu import CpuBackend
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.settings import BenchmarkSettings

RUNS = 36
BASELINE_RUNS = 10
NEW_RUNS = 8
COMPARISONS = 200
SETTINGS = BenchmarkSettings(max_time=0.15)
SLOWDOWNS = ("+10 %", "+100 %")

Records = dict[str, RunRecord]


def functions() -> dict[str, Callable[[], object]]:
    """The functions under test, and for some of them the same with 10 and 100 % more work."""
    values = [random.Random(1).random() for _ in range(6000)]
    numbers = list(range(200_000))

    def squares(count: int) -> Callable[[], object]:
        return lambda: [i * i for i in range(count)]

    def ordered(count: int) -> Callable[[], object]:
        part = values[:count]
        return lambda: ",".join(f"{value:.3f}" for value in part)

    return {
        "squares": squares(2000),
        "squares +10 %": squares(2200),
        "squares +100 %": squares(4000),
        "format": ordered(400),
        "format +10 %": ordered(440),
        "format +100 %": ordered(800),
        "sort": lambda: sorted(values[:3000]),
        "sum of a long list": lambda: sum(numbers),
    }


def one_run() -> Records:
    """Measure every function once, in this process."""
    backend = CpuBackend()
    plans = {name: Plan(benchmark=BenchmarkId(node_id=name), settings=SETTINGS) for name in functions()}
    return {name: measure(call, plans[name], backend).record for name, call in functions().items()}


def fresh_runs(count: int) -> list[Records]:
    """Measure in `count` fresh processes, one after another; return what there is where a time limit ends it."""
    command = [sys.executable, __file__, "--one"]
    runs: list[Records] = []
    with EndedEarly():
        for _ in range(count):
            output = subprocess.run(command, capture_output=True, check=True).stdout
            runs.append(msgspec.json.decode(output, type=Records))
    return runs


def without_pace(record: RunRecord) -> RunRecord:
    """The same run as if its pace had not been metered."""
    return msgspec.structs.replace(record, clock_ghz=None, batches=(), locations=())


def spread_text(runs: Sequence[RunRecord]) -> str:
    """The spread of the runs after the baseline's, raw and adjusted, in percent."""
    model = clock_model([clock_points(run) for run in runs[:BASELINE_RUNS]])
    assert model is not None
    others = runs[BASELINE_RUNS:]
    before = 100 * statistics.stdev(raw(run) for run in others)
    after = 100 * statistics.stdev(adjusted(run, model) for run in others)
    return f"{before:6.2f} %  {after:6.2f} %   b = {model.sensitivity:.2f}"


def regressed_share(baseline: Sequence[RunRecord], runs: Sequence[RunRecord], seed: int) -> float:
    """How often runs drawn from the two are called regressed; drawn without overlap where they are the same."""
    chance = random.Random(seed)
    found = 0
    for _ in range(COMPARISONS):
        if baseline is runs:
            drawn = chance.sample(runs, BASELINE_RUNS + NEW_RUNS)
            arms = drawn[:BASELINE_RUNS], drawn[BASELINE_RUNS:]
        else:
            arms = chance.sample(baseline, BASELINE_RUNS), chance.sample(runs, NEW_RUNS)
        found += decide(*arms, Policy()).verdict == "regressed"
    return 100 * found / COMPARISONS


def main() -> None:
    """Print both tables, or be one of the fresh processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=RUNS, help=f"default: {RUNS}")
    parser.add_argument("--one", action="store_true", help="measure once and write the records: a fresh process")
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.buffer.write(msgspec.json.encode(one_run()))
    else:
        runs = fresh_runs(arguments.runs)
        if len(runs) < BASELINE_RUNS + NEW_RUNS:
            sys.exit(f"{len(runs)} runs are too few: a comparison takes {BASELINE_RUNS} + {NEW_RUNS}")
        tell(runs)


def tell(runs: Sequence[Records]) -> None:
    """Print both tables."""
    by_name = {name: [run[name] for run in runs] for name in runs[0]}
    print(f"{len(runs)} fresh processes; standard deviation between runs")
    print(f"{'function':20s}     raw  adjusted")
    for name, records in by_name.items():
        print(f"{name:20s} {spread_text(records)}")
    print(f"\ncalled regressed, {BASELINE_RUNS} + {NEW_RUNS} runs, {COMPARISONS} draws: raw, adjusted")
    for name, records in by_name.items():
        base = next((name.removesuffix(f" {s}") for s in SLOWDOWNS if name.endswith(s)), name)
        plain = [[without_pace(run) for run in by_name[n]] for n in (base, name)]
        pairs = (plain[0], plain[0] if base == name else plain[1]), (by_name[base], records)
        shares = [regressed_share(baseline, new, seed=1) for baseline, new in pairs]
        print(f"{name:20s} {shares[0]:5.1f} %  {shares[1]:5.1f} %")


if __name__ == "__main__":
    main()
