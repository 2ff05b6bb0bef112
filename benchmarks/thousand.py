"""What a thousand trivial CPU benchmarks cost: under plain pytest, measured, and stored.

- Plain: a thousand tests that call a function through gpubench, against a thousand that call it themselves, in
  alternating processes; the ratio of the medians should stay under 1.3. Also in processor time, which a busy machine
  disturbs less.
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
from typing import NamedTuple

from early_end import EndedEarly

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


class Session(NamedTuple):
    """What a pytest session cost; processor time and peak memory are those of its own process."""

    elapsed_s: float
    processor_s: float
    peak_mib: float


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of plain sessions (default: 5)")
    pairs = parser.parse_args(argv).pairs
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with EndedEarly(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _plain(folder, pairs)
        for count in (100, 1000):
            _measured(folder, count)
        _stored(folder)


def _plain(folder: Path, pairs: int) -> None:
    sessions: dict[str, list[Session]] = {"bare": [], "gpubench": []}
    for number in range(pairs + 1):
        for name, source in (("bare", BARE), ("gpubench", BENCHED)):
            session = _session(folder, source, 1000)
            if number:  # the first pair compiles what is not compiled yet
                sessions[name].append(session)
    for clock in ("elapsed", "processor"):
        bare, benched = (median(getattr(s, f"{clock}_s") for s in sessions[name]) for name in ("bare", "gpubench"))
        print(
            f"plain pytest, {clock}: {benched:.2f} s, bare tests {bare:.2f} s: {benched / bare:.2f} x ({pairs} pairs)",
            flush=True,
        )


def _measured(folder: Path, count: int) -> None:
    session = _session(folder, BENCHED, count, "--gpuperf-save-baseline=one", "--gpuperf-runs=1", *MEASURED)
    print(
        f"{count} measured, 20 trials, one run: {session.elapsed_s:.1f} s (processor {session.processor_s:.1f} s), "
        f"peak memory {session.peak_mib:.0f} MiB",
        flush=True,
    )


def _stored(folder: Path) -> None:
    session = _session(folder, BENCHED, 1000, "--gpuperf-save-baseline=ten", "--gpuperf-runs=10", *MEASURED)
    (file,) = folder.glob(".gpuperf/baselines/*/ten.json")
    print(f"1000 stored with ten runs: {file.stat().st_size / 1e6:.2f} MB ({session.elapsed_s:.0f} s)")


def _session(folder: Path, source: str, count: int, *options: str) -> Session:
    """Run one pytest session to its end."""
    (folder / "test_many.py").write_text(source.format(count=count), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(command)} failed with exit code {os.waitstatus_to_exitcode(status)}")
    return Session(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
