"""What a thousand trivial CPU benchmarks cost: under plain pytest, measured, and stored.

- Plain: a thousand tests that call a function through gpubench, against a thousand that call it themselves, in
  alternating processes; the ratio of the medians should stay under 1.3.
- Measured: one session of 20 trials a benchmark that stores one run each; should stay under 60 s, and its peak memory
  should hardly depend on the number of benchmarks (a session of 100 is printed beside it).
- Stored: the size of the baseline file with ten runs of each, should stay under 4 MB.

    python benchmarks/thousand.py [--pairs 5]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

BARE = """
import pytest
@pytest.mark.parametrize("n", range({count}))
def test_trivial(n):
    assert abs(-n) == n
"""
BENCHED = """
import pytest
@pytest.mark.parametrize("n", range({count}))
def test_trivial(gpubench, n):
    assert gpubench(abs, -n) == n
"""
MEASURED = ("--gpuperf-trials=20", "--gpuperf-device=cpu")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of plain sessions (default: 5)")
    pairs = parser.parse_args(argv).pairs
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _plain(folder, pairs)
        for count in (100, 1000):
            _measured(folder, count)
        _stored(folder)


def _plain(folder: Path, pairs: int) -> None:
    times: dict[str, list[float]] = {"bare": [], "gpubench": []}
    for number in range(pairs + 1):
        for name, source in (("bare", BARE), ("gpubench", BENCHED)):
            seconds, _ = _session(folder, source, 1000)
            if number:  # the first pair compiles what is not compiled yet
                times[name].append(seconds)
    bare, benched = median(times["bare"]), median(times["gpubench"])
    print(f"plain pytest: {benched:.2f} s against {bare:.2f} s for bare tests: {benched / bare:.2f} x ({pairs} pairs)")


def _measured(folder: Path, count: int) -> None:
    seconds, peak_mib = _session(folder, BENCHED, count, "--gpuperf-save-baseline=one", "--gpuperf-runs=1", *MEASURED)
    print(f"{count} measured, 20 trials, one run: {seconds:.1f} s, peak memory {peak_mib:.0f} MiB")


def _stored(folder: Path) -> None:
    seconds, _ = _session(folder, BENCHED, 1000, "--gpuperf-save-baseline=ten", "--gpuperf-runs=10", *MEASURED)
    (file,) = folder.glob(".gpuperf/baselines/*/ten.json")
    print(f"1000 stored with ten runs: {file.stat().st_size / 1e6:.2f} MB ({seconds:.0f} s)")


def _session(folder: Path, source: str, count: int, *options: str) -> tuple[float, float]:
    """Run one pytest session to its end; its seconds, and the peak memory of its own process in MiB."""
    (folder / "test_many.py").write_text(source.format(count=count), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(command)} failed with exit code {os.waitstatus_to_exitcode(status)}")
    return seconds, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
