"""Runs of the benchmarks under suites/: pytest sessions and single fresh processes, with what they measured."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import msgspec

from pytest_gpuperf.compare.launchers import FreshCommand
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.store.codec import decode_baseline, decode_session

SUITES = Path(__file__).resolve().parent / "suites"
KERNELS = "test_kernels.py"

Runs = dict[str, list[RunRecord]]
"""Run records by the benchmark's short name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """How one pytest session ended, and what it measured."""

    exit_code: int
    seconds: float
    outcomes: list[Outcome]
    output: str

    def labels(self, verdict: str) -> list[str]:
        """Return the benchmarks with this verdict."""
        return [short_name(o.benchmark.node_id) for o in self.outcomes if o.decision.verdict == verdict]

    def own_runs(self) -> dict[str, RunRecord]:
        """Return what the session's own process measured."""
        return {short_name(o.benchmark.node_id): o.runs[0] for o in self.outcomes if o.runs}


def short_name(node_id: str) -> str:
    """Return `matmul_4k` for `test_kernels.py::test_kernel[matmul_4k]`."""
    return node_id.rpartition("[")[2].rstrip("]")


def node_id_of(name: str) -> str:
    """Return the node id of one benchmark."""
    return f"{KERNELS}::test_kernel[{name}]"


def pytest_arguments() -> list[str]:
    """Return what every pytest of these scripts is told: the plugin where it is not installed, and nothing to keep."""
    installed = any(point.name == "gpuperf" for point in entry_points(group="pytest11"))
    return [*([] if installed else ["-p", "pytest_gpuperf.plugin"]), "-p", "no:cacheprovider", "-p", "no:randomly"]


def fresh_command(options: Sequence[str], environment: Mapping[str, str]) -> FreshCommand:
    """Return the command of fresh processes for the whole suite."""
    return FreshCommand(
        head=(sys.executable, "-m", "pytest"),
        arguments=(*pytest_arguments(), *options, KERNELS),
        cwd=str(SUITES),
        environment=environment,
    )


def session(options: Sequence[str], selected: Sequence[str] = (), **environment: str) -> Session:
    """Run pytest on the suite, or on some of its benchmarks, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        where = [node_id_of(name) for name in selected] or [KERNELS]
        command = [sys.executable, "-m", "pytest", "-q", *pytest_arguments(), f"--gpuperf-json={results}", *options]
        begun = time.perf_counter()
        done = subprocess.run(
            [*command, *where],
            cwd=SUITES,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        outcomes = decode_session(results.read_bytes(), str(results)).outcomes if results.exists() else ()
        return Session(
            exit_code=done.returncode,
            seconds=time.perf_counter() - begun,
            outcomes=[msgspec.structs.replace(outcome, trials=()) for outcome in outcomes],
            output=done.stdout + done.stderr,
        )


def stored_runs(storage: Path, name: str) -> Runs:
    """Return the runs of a stored baseline."""
    [path] = storage.glob(f"baselines/*/{name}.json")
    baseline = decode_baseline(path.read_bytes(), str(path))
    return {short_name(entry.benchmark.node_id): list(entry.runs) for entry in baseline.entries.values()}


def names() -> list[str]:
    """Return the names of all benchmarks of the suite, as pytest collects them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *pytest_arguments(), KERNELS]
    done = subprocess.run(command, cwd=SUITES, capture_output=True, text=True, check=True)
    return [short_name(line) for line in done.stdout.splitlines() if "::" in line]


def plain(runs: Mapping[str, Sequence[RunRecord]]) -> dict[str, object]:
    """Return run records as plain values, for a JSON file."""
    return {name: msgspec.to_builtins(tuple(records)) for name, records in runs.items()}
