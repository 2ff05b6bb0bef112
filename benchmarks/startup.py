"""What the installed plugin adds to the start of pytest.

Collects one trivial test in fresh pytest processes, with and without a plugin, in alternating order: each pair is
measured back to back, so that drift of the machine hits both. Prints the medians and the median of the paired
differences with its 95 % interval (order statistics of the differences), for elapsed time and for processor time, which
a busy machine disturbs less. pytest-benchmark is measured where installed.

    python benchmarks/startup.py [--pairs 40]
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from early_end import EndedEarly

PLUGINS = {"pytest-gpuperf": "pytest_gpuperf.plugin", "pytest-benchmark": "pytest_benchmark.plugin"}
# Only the plugin under test is loaded: others would be the same on both sides, and only add noise.
ENVIRONMENT = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

Seconds = tuple[float, float]
"""Elapsed, and of the processor (user and system)."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every installed plugin and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40, help="pairs of processes for each plugin (default: 40)")
    pairs = parser.parse_args(argv).pairs
    print(f"{platform.machine()}, Python {platform.python_version()}, pytest {version('pytest')}, {pairs} pairs")
    print(f"{'plugin':<28}{'time':<11}{'without':>10}{'with':>10}{'added':>10}   95 % interval")
    with EndedEarly():
        for name, module in PLUGINS.items():
            found = _installed_version(name)
            if found is None:
                print(f"{name:<28}not installed")
                continue
            measured: list[tuple[Seconds, Seconds]] = []
            try:
                _measure(module, pairs, measured)
            finally:
                _tell(f"{name} {found.partition('+')[0]}", measured, pairs)


def _tell(label: str, measured: Sequence[tuple[Seconds, Seconds]], pairs: int) -> None:
    """Print the rows of a plugin, of as many pairs as there are."""
    if len(measured) < pairs:
        print(f"{label}: ended after {len(measured)} pairs")
    for index, clock in enumerate(("elapsed", "processor") if measured else ()):
        print(f"{label:<28}{clock:<11}" + _row([(a[index], b[index]) for a, b in measured]), flush=True)


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _measure(module: str, pairs: int, measured: list[tuple[Seconds, Seconds]]) -> None:
    """Add the times (without, with) of each pair; which goes first alternates."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
        _seconds(folder, ["-p", module])  # compiles what is not compiled yet
        for number in range(pairs):
            if number % 2:
                without, loaded = _seconds(folder, []), _seconds(folder, ["-p", module])
            else:
                loaded, without = _seconds(folder, ["-p", module]), _seconds(folder, [])
            measured.append((without, loaded))


def _seconds(folder: str, options: Sequence[str]) -> Seconds:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _row(pairs: Sequence[tuple[float, float]]) -> str:
    differences = sorted(loaded - without for without, loaded in pairs)
    low, high = _median_interval(differences)
    figures = (median(a for a, _ in pairs), median(b for _, b in pairs), median(differences))
    columns = "".join(f"{_ms(seconds):>10}" for seconds in figures)
    return f"{columns}   {_ms(low)} to {_ms(high)}"


def _median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The order statistics that hold the median with about 95 % (normal approximation of the sign test)."""
    n = len(ordered)
    reach = 1.96 * math.sqrt(n) / 2
    return ordered[max(0, math.floor(n / 2 - reach))], ordered[min(n - 1, math.ceil(n / 2 + reach) - 1)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    main()
