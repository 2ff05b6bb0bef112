"""`gpuperf list`: what is stored, machine by machine."""

from __future__ import annotations

import argparse

from pytest_gpuperf.commands.answer import FINE, UNUSABLE, Answer
from pytest_gpuperf.commands.places import add_storage_option, chosen_storage
from pytest_gpuperf.commands.settings_options import whole_number
from pytest_gpuperf.commands.usable import last_sessions, usable_baselines
from pytest_gpuperf.report.accounting import verdict_line
from pytest_gpuperf.report.layout import aligned
from pytest_gpuperf.report.units import span
from pytest_gpuperf.store import baselines, sessions
from pytest_gpuperf.store.schema import Baseline, SessionRecord
from pytest_gpuperf.store.storage import Storage

_BASELINE_HEADINGS = ("baseline", "benchmarks", "runs", "sessions", "first", "last")
_SESSION_HEADINGS = ("session", "benchmarks", "verdicts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_storage_option(parser)
    parser.add_argument(
        "--last",
        type=whole_number(0),
        default=10,
        metavar="N",
        help="list the last N sessions a machine (default: 10; 0: all)",
    )


def run(arguments: argparse.Namespace) -> Answer:
    """List what is stored; files that cannot be used are named, and make the exit code 2."""
    storage = chosen_storage(arguments.storage)
    machines = sorted({*baselines.machines(storage), *sessions.machines(storage)})
    errors: list[str] = []
    lines: list[str] = []
    for machine in machines:
        lines += ["", machine] if lines else [machine]
        lines += _baseline_table(storage, machine, errors)
        lines += _session_table(storage, machine, arguments.last, errors)
    text = "\n".join(lines) or f"nothing is stored in {storage.describe('')}"
    return Answer(text, UNUSABLE if errors else FINE, tuple(errors))


def _baseline_table(storage: Storage, machine: str, errors: list[str]) -> list[str]:
    loaded = usable_baselines(storage, machine, errors)
    cells = [_baseline_cells(baseline) for baseline in loaded.values()]
    return _indented(aligned(list(loaded), cells, _BASELINE_HEADINGS, _aligns(5))) if loaded else []


def _baseline_cells(baseline: Baseline) -> list[str]:
    runs = [len(entry.runs) for entry in baseline.entries.values()]
    dates = sorted(info.started[:10] for info in baseline.sessions.values()) or ["-"]
    return [str(len(runs)), span(runs), str(len(baseline.sessions)), dates[0], dates[-1]]


def _session_table(storage: Storage, machine: str, last: int, errors: list[str]) -> list[str]:
    loaded = last_sessions(storage, machine, last, errors)
    cells = [_session_cells(record) for record in loaded.values()]
    lines = _indented(aligned(list(loaded), cells, _SESSION_HEADINGS, ("right", "left"))) if loaded else []
    earlier = len(sessions.names(storage, machine)) - last
    return [*lines, f"  ({earlier} earlier; --last 0 lists all)"] if last > 0 and earlier > 0 else lines


def _session_cells(record: SessionRecord) -> list[str]:
    return [str(len(record.outcomes)), verdict_line(outcome.decision.verdict for outcome in record.outcomes)]


def _aligns(columns: int) -> tuple[str, ...]:
    return ("right",) * columns


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
