"""`gpuperf history`: how each benchmark did in the stored sessions, oldest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from pytest_gpuperf.commands.answer import FINE, UNUSABLE, Answer, CommandError
from pytest_gpuperf.commands.places import add_pattern_option, add_storage_option, chosen_storage, matches
from pytest_gpuperf.commands.settings_options import whole_number
from pytest_gpuperf.commands.usable import last_sessions
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.report.columns import COLUMNS
from pytest_gpuperf.report.layout import aligned
from pytest_gpuperf.report.names import natural_key
from pytest_gpuperf.store import sessions
from pytest_gpuperf.store.schema import SessionInfo, SessionRecord

_COLUMNS = tuple(COLUMNS[name] for name in ("mean", "error", "clock", "runs", "ratio", "verdict"))
_ALIGNS = ("left", *(column.align for column in _COLUMNS))
_HEADINGS = ("session", "commit", *(column.heading for column in _COLUMNS))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_pattern_option(parser)
    parser.add_argument(
        "--last", type=whole_number(0), default=20, metavar="N", help="the last N sessions (default: 20; 0: all)"
    )
    add_storage_option(parser)


def run(arguments: argparse.Namespace) -> Answer:
    """Show one table a benchmark and machine; files that cannot be used are named, and make the exit code 2."""
    storage = chosen_storage(arguments.storage)
    errors: list[str] = []
    lines: list[str] = []
    for machine in sessions.machines(storage):
        records = last_sessions(storage, machine, arguments.last, errors).values()
        for label, rows in _by_benchmark(records, arguments.pattern).items():
            lines += [*([""] if lines else []), f"{label} on {machine}", *_table(rows)]
    if not lines and not errors:
        which = f" of a benchmark that matches -k {arguments.pattern!r}" if arguments.pattern else ""
        raise CommandError(f"{storage.describe('sessions')} holds no session{which}")
    return Answer("\n".join(lines), UNUSABLE if errors else FINE, tuple(errors))


_Row = tuple[SessionInfo, Outcome]


def _by_benchmark(records: Iterable[SessionRecord], pattern: str) -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for record in records:
        for outcome in record.outcomes:
            if matches(outcome.benchmark, pattern):
                rows.setdefault(outcome.benchmark.label, []).append((record.info, outcome))
    return dict(sorted(rows.items(), key=lambda item: natural_key(item[0])))


def _table(rows: list[_Row]) -> list[str]:
    first = [info.second.replace("T", " ") for info, _ in rows]
    cells = [[info.commit[:12] or "-", *(column.cell(outcome) for column in _COLUMNS)] for info, outcome in rows]
    return aligned(first, cells, _HEADINGS, _ALIGNS)
