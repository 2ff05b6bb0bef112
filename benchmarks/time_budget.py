"""Where the time of one benchmark goes under default settings: preparing, warming up, timing, checking.

    python benchmarks/time_budget.py [--repeats 3] [--out benchmarks/results/time_budget.json]

Measures an addition, copies of several sizes (on an H200 up to a millisecond) and a matrix product in one session of
`pytest --gpuperf`, as a user does, and reads

- test: the whole test, by pytest's own durations (call phase), inputs and checks included;
- prepare, warm-up, trials: these phases of the measurement;
- rest: everything else in the test, the checks above all;
- timed: the sum of the trials' times, as a share of the phase `trials` and of the whole test. Where a trial holds many
  calls (in a CUDA graph, in loops on a CPU) one of them is counted, and the share says nothing.

The first test of a process also starts the profiler and loads kernels; it is run once ahead and left out.

The record is written after every test; the table is of what there is where a time limit ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from early_end import UNDECIDED, EndedEarly
from records import machine, write_record
from suite_runs import pytest_arguments
from tabulate import tabulate

SUITE = """
import pytest, torch

SIZES = {{"add of 4k": 2**12, "copy of 16M": 2**24, "copy of 64M": 2**26, "copy of 512M": 2**29}} if {on_gpu} else {{
    "add of 4k": 2**12, "copy of 64k": 2**16, "copy of 1M": 2**20}}

def copy(x):
    return x.clone()

def add(x):
    return x + x

def product(a, b):
    return a @ b

@pytest.mark.parametrize("what", [*SIZES, "product"])
@pytest.mark.parametrize("turn", range({repeats} + 1))
def test_budget(gpubench, record_property, what, turn):
    if what == "product":
        size = 4096 if {on_gpu} else 256
        x = torch.randn(size, size, device=gpubench.device, dtype=torch.bfloat16 if {on_gpu} else torch.float32)
        gpubench(product, x, x)
    else:
        x = torch.randn(SIZES[what], device=gpubench.device)
        gpubench(add if what.startswith("add") else copy, x)
    result = gpubench.result
    record_property("told", dict(what=what, turn=turn, mean_us=result.mean_us, trial_count=result.trials))
"""
PIPE = "TIME_BUDGET_PIPE"
CONFTEST = """
import dataclasses, json, os, time
from contextlib import contextmanager
from pytest_gpuperf.session.bench import ItemMeasurer

PHASES = {}

def pytest_configure(config):
    # Measurements mark their phases for a timeline; here they are timed.
    plan = ItemMeasurer._plan
    def timed(self, call, settings):
        phases = PHASES.setdefault(self._node_id, {})
        @contextmanager
        def annotate(name):
            begun = time.perf_counter()
            yield
            phases[name] = phases.get(name, 0.0) + time.perf_counter() - begun
        return dataclasses.replace(plan(self, call, settings), annotate=annotate)
    ItemMeasurer._plan = timed

def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        line = {**dict(report.user_properties)["told"], **PHASES[report.nodeid], "test": report.duration}
        os.write(int(os.environ["TIME_BUDGET_PIPE"]), (json.dumps(line) + "\\n").encode())
"""


def tests(repeats: int, *, on_gpu: bool) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each test's phases, with its benchmark, turn, mean and trials, as soon as it has passed."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as output:
        folder = Path(name)
        (folder / "test_budget.py").write_text(SUITE.format(repeats=repeats, on_gpu=on_gpu))
        (folder / "conftest.py").write_text(textwrap.dedent(CONFTEST))
        command = [sys.executable, "-m", "pytest", "-q", *pytest_arguments(), "--gpuperf"]
        reading, writing = os.pipe()
        environment = {**os.environ, PIPE: str(writing)}
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, pass_fds=[writing], env=environment
        )
        os.close(writing)
        try:
            with os.fdopen(reading, encoding="utf-8") as lines:
                yield from map(json.loads, lines)
            if process.wait():
                output.seek(0)
                raise SystemExit(output.read())
        finally:
            process.kill()
            process.wait()


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Return the medians over the repeats."""
    rows = []
    for what, repeats in found.items():
        seconds = {key: median(repeat[key] for repeat in repeats) for key in repeats[0]}
        parts = [seconds[key] for key in ("prepare", "warm-up", "trials")]
        shares = (
            seconds["timed"] / seconds["trials"],
            seconds["timed"] / seconds["test"],
        )
        rows.append([what, seconds["mean_us"], seconds["test"], *parts, seconds["test"] - sum(parts), *shares])
    headings = ["benchmark", "mean us", "test s", "prepare", "warm-up", "trials", "rest", "timed/trials", "timed/test"]
    return tabulate(rows, headings, floatfmt=("", ".2f", ".2f", ".2f", ".2f", ".2f", ".2f", ".0%", ".0%"))


def main() -> int:
    """Measure, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each benchmark (default: 3)")
    parser.add_argument("--out", type=Path, help="where to write the record as JSON")
    arguments = parser.parse_args()
    about = machine()
    print(about, flush=True)
    found: dict[str, list[dict[str, float]]] = {}
    with EndedEarly() as ended_early:
        for test in tests(arguments.repeats, on_gpu="gpu" in about):
            what, turn = str(test.pop("what")), test.pop("turn")
            if turn:
                timed = {"timed": test["mean_us"] * test.pop("trial_count") / 1e6}
                found.setdefault(what, []).append({**test, **timed})
                write_record({"machine": about, "seconds": found}, arguments.out)
            print(f"{what}, turn {turn}: {test['test']:.1f} s", flush=True)
    print(table(found))
    return UNDECIDED if ended_early else 0


if __name__ == "__main__":
    sys.exit(main())
