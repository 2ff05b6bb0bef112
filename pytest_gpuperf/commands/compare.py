"""`gpuperf compare A B`: the verdicts of `pytest --gpuperf`, from stored files."""

from __future__ import annotations

import argparse

import msgspec

from pytest_gpuperf.commands.answer import FINE, VERDICT_FAILS, Answer, CommandError, written_json
from pytest_gpuperf.commands.offline import Compared, accounting_of, compare_sources
from pytest_gpuperf.commands.places import add_pattern_option, add_storage_option, terminal_width
from pytest_gpuperf.commands.settings_options import add_levels, add_setting, given_levels
from pytest_gpuperf.commands.sources import HELP, Source, find_source
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.report.accounting import Accounting
from pytest_gpuperf.report.json import session_json
from pytest_gpuperf.report.paragraphs import verdict_paragraph
from pytest_gpuperf.report.summary import gpuperf_section, machine_changes
from pytest_gpuperf.settings import DEFAULT_BASELINE, PER_SESSION, STRICT_FAILURES
from pytest_gpuperf.store.schema import SessionRecord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("a", metavar="A", help=f"what to compare with: {HELP}")
    parser.add_argument("b", metavar="B", help="what to judge: likewise")
    add_pattern_option(parser)
    add_storage_option(parser)
    add_levels(parser, "the benchmark's own where B is a session that kept it, else {}")
    for name in ("fail_on", "sort", "group_by", "columns"):
        add_setting(parser, name)
    parser.add_argument("--strict", action="store_true", help=PER_SESSION["strict"].help)
    parser.add_argument("--json", metavar="PATH", help="write a session record; '-': print it instead of the table")


def run(arguments: argparse.Namespace) -> Answer:
    """Judge B against A; the exit code is 1 if a verdict is among those to fail on."""
    a = find_source(arguments.a, arguments.storage)
    b = find_source(arguments.b, arguments.storage)
    if not b.sessions:
        raise CommandError(f"{b.label} is empty")
    compared = compare_sources(a, b, given_levels(arguments), arguments.pattern)
    outcomes = compared.outcomes
    if not outcomes:
        which = f" that matches -k {arguments.pattern!r}" if arguments.pattern else ""
        raise CommandError(f"neither {a.label} nor {b.label} holds a benchmark{which}")
    failing = {*(arguments.fail_on or ("regressed",)), *(STRICT_FAILURES if arguments.strict else ())}
    failed = [outcome for outcome in outcomes if outcome.decision.verdict in failing]
    accounting = accounting_of(outcomes)
    text = "\n".join(_lines(a, b, compared, failed, accounting, arguments))
    if arguments.json is not None:
        record = _record(b, outcomes, accounting, f"gpuperf compare {a.label} {b.label}")
        text = written_json(session_json(record, arguments.json), arguments.json) or text
    return Answer(text, VERDICT_FAILS if failed else FINE)


def _lines(
    a: Source,
    b: Source,
    compared: Compared,
    failed: list[Outcome],
    accounting: Accounting,
    arguments: argparse.Namespace,
) -> list[str]:
    changes = machine_changes(a.machines, b.sessions[-1].machine) if a.model == b.model else []
    section = gpuperf_section(
        compared.outcomes,
        accounting,
        baseline_name=a.label.partition("@")[0] if "@" in a.label else DEFAULT_BASELINE,
        machine_changes=changes,
        notes=[f"Session shift: {compared.shift.sentence}."] if compared.shift else [],
        sort=arguments.sort or "order",
        group_by=arguments.group_by or "none",
        columns=arguments.columns or (),
        width=terminal_width(),
    )
    lines = [f"{b.label} against {a.label} ({a.model})", "", *section]
    for outcome in failed:
        lines += ["", outcome.benchmark.label, verdict_paragraph(outcome)]
    return lines


def _record(b: Source, outcomes: list[Outcome], accounting: Accounting, command: str) -> SessionRecord:
    info = msgspec.structs.replace(b.sessions[-1], command=command)
    return SessionRecord(info=info, outcomes=tuple(outcomes), accounting=accounting.counts())
