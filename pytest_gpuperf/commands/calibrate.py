"""`gpuperf calibrate`: what this gate is worth, replayed on runs of this machine, or recorded ones, as it decides."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from pytest_gpuperf.commands.answer import Answer, CommandError, written_json
from pytest_gpuperf.commands.calibrate_live import DEFAULT_CONFIRM_RUNS, audit_live
from pytest_gpuperf.commands.settings_options import add_levels, given_levels, whole_number
from pytest_gpuperf.compare.audit import DEFAULT_COMPARISONS, AuditRow
from pytest_gpuperf.compare.recording_audit import audit_recording
from pytest_gpuperf.compare.recordings import RecordingError
from pytest_gpuperf.compare.verdict import VERDICTS, Policy
from pytest_gpuperf.report import units
from pytest_gpuperf.report.layout import aligned

HEADINGS = ("benchmark", "true change", "regressed", "other verdicts", "advanced", "between runs", "visible")
_ALIGNS = ("right", "right", "left", "right", "right", "right")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--from",
        dest="recording",
        metavar="FILE.npz",
        help="replay a recording instead of measuring: arrays named operation__method, runs x trials in microseconds; "
        "operation__method_ghz, the clock of each trial; operation_pN__method is a known slowdown of operation",
    )
    parser.add_argument(
        "--method", metavar="M", help="of a recording, replay this method only (default: every one in the file)"
    )
    add = parser.add_argument
    add("--runs", type=whole_number(3), metavar="N", help="measure in N fresh processes (default: two to spare)")
    add("--baseline-runs", type=whole_number(2), default=10, metavar="N", help="runs of the baseline (default: 10)")
    add("--confirm-runs", type=whole_number(0), metavar="N", help="fresh runs of a suspect (default: as set, else 7)")
    add(
        "--comparisons",
        type=whole_number(1),
        default=DEFAULT_COMPARISONS,
        metavar="N",
        help=f"how often the runs are dealt anew (default: {DEFAULT_COMPARISONS})",
    )
    add("--seed", type=whole_number(0), default=0, metavar="N", help="of the dealing (default: 0)")
    add_levels(parser, "as the tests and the ini file set it, else {}")
    add("--json", metavar="PATH", help="write the figures as JSON; '-': print that instead of the table")
    add(
        "pytest_arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="which benchmarks to measure, and how: pytest's own arguments, after all others; put -- before an option",
    )


def run(arguments: argparse.Namespace) -> Answer:
    """Audit the verdicts on this machine, or on a recording."""
    if arguments.recording is None:
        return audit_live(arguments)
    if arguments.pytest_arguments or arguments.runs is not None:
        raise CommandError("--from replays a recording and measures nothing: leave out --runs and pytest's arguments")
    return _audit_recording(arguments)


def _audit_recording(arguments: argparse.Namespace) -> Answer:
    """Replay, and print one table a method with its suite's false-alarm rate."""
    try:
        audit = audit_recording(
            arguments.recording,
            method=arguments.method,
            baseline_runs=arguments.baseline_runs,
            confirm_runs=DEFAULT_CONFIRM_RUNS if arguments.confirm_runs is None else arguments.confirm_runs,
            comparisons=arguments.comparisons,
            seed=arguments.seed,
            policy=msgspec.structs.replace(Policy(), **given_levels(arguments)),
        )
    except RecordingError as error:
        raise CommandError(str(error)) from error
    methods = dict.fromkeys(row.method for row in audit.rows)
    text = "\n\n".join(_method_text(method, audit.rows) for method in methods)
    if arguments.json is not None:
        content = msgspec.json.format(msgspec.json.encode(audit.rows), indent=2).decode()
        text = written_json(content + "\n", arguments.json) or text
    warnings = tuple(f"{skipped}; it is not replayed" for skipped in audit.skipped)
    return Answer(text, warnings=warnings)


def _method_text(method: str, rows: Sequence[AuditRow]) -> str:
    chosen = [row for row in rows if row.method == method]
    first = chosen[0]
    title = (
        f"{method}: {first.baseline_runs} baseline runs, up to {1 + first.confirm_runs} new ones, "
        f"{first.comparisons} comparisons each"
    )
    table = aligned([row.op for row in chosen], [_cells(row) for row in chosen], HEADINGS, _ALIGNS)
    return "\n".join((title, *table, *_suite_lines(chosen)))


def _cells(row: AuditRow) -> list[str]:
    rate = row.detection_rate if row.false_alarm_rate is None else row.false_alarm_rate
    return [
        units.UNKNOWN if row.detection_rate is None else units.change(row.true_ratio),
        units.rate(rate),
        _other_verdicts(row),
        units.rate(row.advanced_rate),
        units.fine_percent(row.spread),
        units.change(row.visible_ratio),
    ]


def _other_verdicts(row: AuditRow) -> str:
    others = [verdict for verdict in VERDICTS if verdict != "regressed" and row.verdict_counts.get(verdict)]
    return ", ".join(f"{units.rate(row.verdict_counts[verdict] / row.comparisons)} {verdict}" for verdict in others)


def _suite_lines(rows: Sequence[AuditRow]) -> list[str]:
    unchanged = [row for row in rows if row.false_alarm_rate is not None]
    slower = [row for row in rows if row.detection_rate is not None]
    lines = [_suite_line("false alarms", "unchanged", unchanged)] if unchanged else []
    return [*lines, _suite_line("detected", "slower", slower)] if slower else lines


def _suite_line(what: str, kind: str, rows: Sequence[AuditRow]) -> str:
    comparisons = sum(row.comparisons for row in rows)
    regressed = sum(row.verdict_counts.get("regressed", 0) for row in rows)
    return f"{what}: {regressed} in {comparisons} comparisons of {kind} code ({units.rate(regressed / comparisons)})"
