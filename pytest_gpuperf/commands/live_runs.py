"""Runs of the selected benchmarks, each in a fresh process: a pytest session that stores them where nobody looks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gpuperf.commands.answer import CommandError
from pytest_gpuperf.compare.launchers import described
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.codec import decode_session
from pytest_gpuperf.store.schema import Entry
from pytest_gpuperf.store.storage import open_storage

BASELINE = "calibration"
TESTS_FAILED = 1
_OUTPUT_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRuns:
    """What the session measured."""

    machine: Machine
    entries: list[Entry]
    policies: dict[str, Policy]
    """The levels that each benchmark is held to, by its label."""
    confirm_runs: int
    """How many fresh runs a suspect gets under the session's settings."""
    failures: str = ""
    """What pytest said, where tests failed; they have no entry."""


def take_runs(runs: int, pytest_arguments: Sequence[str]) -> LiveRuns:
    """Measure the benchmarks that the arguments select in `runs` processes. Raises CommandError where none can be."""
    with tempfile.TemporaryDirectory(prefix="gpuperf-calibrate-") as name:
        folder = Path(name)
        done = _pytest(folder, runs, pytest_arguments)
        if done.returncode not in (0, TESTS_FAILED):
            raise CommandError(f"pytest {described(done.returncode)}:\n{_end_of(done.stdout)}")
        found = _stored(folder)
    if found is None or not found.entries:
        raise CommandError(f"pytest measured no benchmark:\n{_end_of(done.stdout)}")
    return found if done.returncode == 0 else replace(found, failures=_end_of(done.stdout))


def _pytest(folder: Path, runs: int, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = [
        f"--gpuperf-save-baseline={BASELINE}",
        f"--gpuperf-runs={runs}",
        f"--gpuperf-storage={folder / 'storage'}",
        f"--gpuperf-json={folder / 'results.json'}",
    ]
    command = [sys.executable, "-m", "pytest", "-q", *arguments[:at], *options, *arguments[at:]]
    # On a terminal its progress is shown, beside the command's own output; elsewhere it is told only where it failed.
    shown = sys.stderr if sys.stderr.isatty() else subprocess.PIPE
    return subprocess.run(command, stdout=shown, stderr=subprocess.STDOUT, text=True, check=False)


def _stored(folder: Path) -> LiveRuns | None:
    results = folder / "results.json"
    if not results.exists():
        return None
    session = decode_session(results.read_bytes(), str(results))
    baseline = baselines.load(open_storage(folder / "storage"), session.info.machine.key, BASELINE)
    return LiveRuns(
        machine=session.info.machine,
        entries=[] if baseline is None else list(baseline.entries.values()),
        confirm_runs=int(session.settings["confirm_runs"] or 0),
        policies={outcome.benchmark.label: outcome.policy or Policy() for outcome in session.outcomes},
    )


def _end_of(output: str | None) -> str:
    return "\n".join((output or "").splitlines()[-_OUTPUT_LINES:])
