"""`gpuperf show`: what one baseline or session holds."""

from __future__ import annotations

import argparse
import math

from pytest_gpuperf.commands.answer import Answer, CommandError
from pytest_gpuperf.commands.places import add_pattern_option, add_storage_option, matches, terminal_width
from pytest_gpuperf.commands.sources import HELP, find_source
from pytest_gpuperf.measure.plan import timer_kind
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report import units
from pytest_gpuperf.report.accounting import Accounting, accounting_lines, verdict_line
from pytest_gpuperf.report.layout import aligned, name_table
from pytest_gpuperf.report.names import natural_key
from pytest_gpuperf.report.paragraphs import verdict_paragraph
from pytest_gpuperf.report.summary import explanations, wrapped
from pytest_gpuperf.report.table import results_table
from pytest_gpuperf.store.schema import Entry, SessionInfo, SessionRecord

_HEADINGS = ("mean", "between runs", "runs", "clock", "memory", "timer")
_ALIGNS = ("right", "right", "right", "right", "right", "left")
_RUN_HEADINGS = ("session", "run", "mean", "±", "median", "trials", "clock", "host", "memory")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("source", metavar="NAME|SESSION|FILE", help=HELP)
    parser.add_argument("--runs", action="store_true", help="show every run of every benchmark")
    add_pattern_option(parser)
    add_storage_option(parser)


def run(arguments: argparse.Namespace) -> Answer:
    """Show a baseline's entries, or a session's outcomes with what was said of them."""
    source = find_source(arguments.source, arguments.storage)
    lines = [f"{source.label} ({source.model})", *map(_session_line, source.sessions), ""]
    if isinstance(source.content, SessionRecord):
        lines += _outcome_lines(source.content, arguments.pattern)
    found = [entry for entry in source.entries.values() if matches(entry.benchmark, arguments.pattern)]
    entries = sorted(found, key=lambda entry: natural_key(entry.benchmark.label))
    if not entries and arguments.pattern:
        raise CommandError(f"{source.label} has no benchmark that matches -k {arguments.pattern!r}")
    if not isinstance(source.content, SessionRecord):
        lines += _entry_table(entries)
    if arguments.runs:
        lines += _run_tables(entries)
    return Answer("\n".join(lines))


def _session_line(info: SessionInfo) -> str:
    machine = info.machine
    facts = [f"commit {info.commit[:12]}" if info.commit else "", machine.host]
    facts += [f"driver {machine.driver}" if machine.driver else "", f"torch {machine.torch}" if machine.torch else ""]
    return ", ".join(filter(None, (f"session {info.id} of {info.second}Z", *facts)))


def _entry_table(entries: list[Entry]) -> list[str]:
    if not entries:
        return ["no benchmarks"]
    cells = [_entry_cells(entry) for entry in entries]
    table = name_table([entry.benchmark for entry in entries], cells, _HEADINGS, _ALIGNS, terminal_width())
    # Whatever there is to say of a timer beyond its kind makes long lines, and is mostly the same.
    told = [entry.identity for entry in entries if entry.identity.timer != timer_kind(entry.identity)]
    timers = dict.fromkeys(f"timer: {identity.timer}, {identity.cache}" for identity in told)
    return [*table, *([""] if timers else []), *wrapped(timers, terminal_width())]


def _entry_cells(entry: Entry) -> list[str]:
    runs = entry.runs
    clocks = [run.clock_ghz for run in runs if run.clock_ghz is not None]
    peaks = [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]
    return [
        units.time(math.fsum(run.mean_us for run in runs) / len(runs)),
        _between_runs(runs),
        str(len(runs)),
        units.clock(math.fsum(clocks) / len(clocks) if clocks else None),
        units.size(max(peaks, default=None)),
        f"{timer_kind(entry.identity)}, {entry.identity.cache}",
    ]


def _between_runs(runs: tuple[RunRecord, ...]) -> str:
    """The standard deviation of the runs' log medians, which is the spread as a share of the time."""
    if len(runs) < 2:
        return units.UNKNOWN
    mean = math.fsum(run.log_median for run in runs) / len(runs)
    return units.percent(math.sqrt(math.fsum((run.log_median - mean) ** 2 for run in runs) / (len(runs) - 1)))


def _outcome_lines(record: SessionRecord, pattern: str) -> list[str]:
    outcomes = [outcome for outcome in record.outcomes if matches(outcome.benchmark, pattern)]
    lines = results_table(outcomes, width=terminal_width()).splitlines()
    lines += ["", *wrapped(explanations(outcomes), terminal_width())]
    lines += [verdict_line(outcome.decision.verdict for outcome in outcomes)]
    lines += accounting_lines(Accounting.from_counts(record.accounting)) if record.accounting and not pattern else []
    for outcome in outcomes:
        if outcome.decision.verdict == "regressed":
            lines += ["", outcome.benchmark.label, verdict_paragraph(outcome)]
    return lines


def _run_tables(entries: list[Entry]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        cells = [_run_cells(number, run) for number, run in enumerate(entry.runs, 1)]
        first = [run.session or units.UNKNOWN for run in entry.runs]
        lines += ["", entry.benchmark.label, *aligned(first, cells, _RUN_HEADINGS, ("right",) * 8)]
    return lines


def _run_cells(number: int, run: RunRecord) -> list[str]:
    return [
        str(number),
        units.time(run.mean_us),
        units.half_width(run.half_width_us, run.mean_us),
        units.time(math.exp(run.log_median)),
        str(run.trials),
        units.clock(run.clock_ghz),
        units.time(run.host_us),
        units.size(run.peak_memory_bytes),
    ]
