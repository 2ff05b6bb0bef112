"""What the doctor finds by measuring: ceilings, the spread between fresh processes, the smallest visible slowdown."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_gpuperf.commands import reference_suite
from pytest_gpuperf.commands.answer import CommandError
from pytest_gpuperf.commands.doctor_finding import DoctorFinding, fine, matters, note
from pytest_gpuperf.commands.live_runs import take_runs
from pytest_gpuperf.compare.difference import Difference
from pytest_gpuperf.compare.numbers import ratio_of, variance
from pytest_gpuperf.compare.power import smallest_visible
from pytest_gpuperf.compare.values import run_values
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.ceilings import Ceilings, measure_ceilings
from pytest_gpuperf.measure.device_lock import exclusive
from pytest_gpuperf.measure.errors import first_line
from pytest_gpuperf.measure.physics import speed
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report import units
from pytest_gpuperf.store import ceilings as kept
from pytest_gpuperf.store.schema import Entry

BASELINE_RUNS = 10
"""Of the gate whose sight is told, with a session's own run and its usual fresh ones."""
LEAST_RUNS = 3


def ceiling_findings(backend: Backend) -> Iterator[DoctorFinding]:
    """Measure the ceilings anew and keep them for the results' shares of the speed of light."""
    try:
        with exclusive(backend.lock_name):
            place = kept.place_of(backend.machine(), backend.probing().by)
            found = kept.load_or_measure(place, lambda: measure_ceilings(backend), anew=True)
    except Exception as error:
        remedy = "free memory on the device and look again; until then results have no share of the speed of light"
        yield note("ceilings", f"could not be measured: {first_line(error)}", remedy)
        return
    if kept.load(place) == found:
        yield fine("ceilings", _told(found))
    else:
        seen = f"{_told(found)}; they cannot be kept in {place.parent}"
        yield note(
            "ceilings", seen, "make that folder writable, or set XDG_CACHE_HOME: each session measures them anew"
        )


def _told(ceilings: Ceilings) -> str:
    rates = [f"multiplies {kind} at {speed(ceiling.per_s, 'FLOP/s')}" for kind, ceiling in ceilings.matmul.items()]
    told = ", ".join([f"copies {speed(ceilings.bandwidth.per_s, 'B/s')}", *rates])
    return f"{told} ({ceilings.by}; took {ceilings.seconds:.0f} s)"


def spread_findings(runs: int, device: str) -> Iterator[DoctorFinding]:
    """Run the reference suite in fresh processes; say each benchmark's spread, and what a gate could see by it."""
    try:
        entries = _reference_entries(runs, device)
    except CommandError as error:
        yield matters("spread", f"the reference suite did not run: {error}", "run `pytest` on a test of your own")
        return
    for entry in entries:
        yield spread_finding(entry.benchmark.node_id.rpartition("::test_")[2], entry.runs)


def _reference_entries(runs: int, device: str) -> Sequence[Entry]:
    with tempfile.TemporaryDirectory(prefix="gpuperf-doctor-") as folder:
        # An ini file and a root of its own: whatever project this is called in has no part in it.
        ini = Path(folder) / "pytest.ini"
        ini.write_text("[pytest]\n", encoding="utf-8")
        options = ["-c", str(ini), "--rootdir", folder, "--noconftest", "-p", "no:cacheprovider"]
        options += ["--import-mode=importlib", f"--gpuperf-device={device}"]
        return take_runs(runs, [*options, reference_suite.__file__]).entries


def spread_finding(name: str, runs: Sequence[RunRecord]) -> DoctorFinding:
    """Say how far unchanged code differs between processes, and the smallest slowdown that a default gate sees."""
    policy, values = Policy(), run_values(runs)
    of_run = variance(values)
    seen = Difference(
        estimate=0.0,
        fixed=of_run / BASELINE_RUNS,
        new_run=of_run,
        new_count=1 + policy.confirm_runs,
        dof=float(len(values) - 1),
    )
    visible = smallest_visible(seen, BASELINE_RUNS, policy)
    text = f"{units.fine_percent(math.sqrt(of_run))} between {units.count(len(runs), 'process', 'processes')}"
    if visible is None:
        return matters(f"spread of {name}", f"{text}; no slowdown would be seen", "take more --runs")
    text += f"; a gate sees slowdowns from {units.percent(ratio_of(visible) - 1)}"
    if ratio_of(visible) - 1 > policy.detectable:
        return matters(
            f"spread of {name}",
            f"{text}, which is more than {units.limit(policy.detectable)}",
            "see to what else matters here; then extend the baseline, or compare with --gpuperf-against",
        )
    return fine(f"spread of {name}", text)
