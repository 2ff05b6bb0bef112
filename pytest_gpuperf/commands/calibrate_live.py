"""`gpuperf calibrate` without a recording: fresh runs of this machine's own benchmarks, dealt and judged."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from pytest_gpuperf.commands.answer import UNUSABLE, VERDICT_FAILS, Answer, CommandError, written_json
from pytest_gpuperf.commands.live_runs import LiveRuns, take_runs
from pytest_gpuperf.commands.places import terminal_width
from pytest_gpuperf.commands.settings_options import given_levels
from pytest_gpuperf.compare.audit import AuditRow, Deal
from pytest_gpuperf.compare.calibration import Calibration, calibrate
from pytest_gpuperf.compare.recordings import RecordingError
from pytest_gpuperf.compare.verdict import VERDICTS, Policy
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.report import units
from pytest_gpuperf.report.layout import name_table
from pytest_gpuperf.report.names import short_names

DEFAULT_CONFIRM_RUNS = 7
SPARE_RUNS = 2
"""With runs to spare, deals differ in which runs they take, not only in how they split them."""
HEADINGS = ("between runs", "regressed", "other verdicts", "advanced", "visible")
_ALIGNS = ("right", "right", "left", "right", "right")


def audit_live(arguments: argparse.Namespace) -> Answer:
    """Measure the selected benchmarks in fresh processes, audit the verdicts on them, and print what was found."""
    runs = _runs(arguments)
    taken = take_runs(runs, _without_separator(arguments.pytest_arguments))
    calibration = _calibrated(taken, arguments)
    text = _text(taken, calibration)
    if arguments.json is not None:
        content = {"machine": taken.machine.model, **msgspec.to_builtins(calibration)}
        text = written_json(msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n", arguments.json)
        text = text or _text(taken, calibration)
    if taken.failures:
        return Answer(text, UNUSABLE, (f"tests that failed are not in the table:\n{taken.failures}",))
    cries_wolf = calibration.failed_share > Policy().session_alpha
    return Answer(text, VERDICT_FAILS if cries_wolf else 0)


def _runs(arguments: argparse.Namespace) -> int:
    confirm_runs = DEFAULT_CONFIRM_RUNS if arguments.confirm_runs is None else arguments.confirm_runs
    needed: int = arguments.baseline_runs + 1 + confirm_runs
    if arguments.runs is None:
        return needed + SPARE_RUNS
    if arguments.runs < needed:
        raise CommandError(
            f"--runs {arguments.runs}: {arguments.baseline_runs} baseline runs, one and {confirm_runs} confirming runs "
            f"take {needed}; lower --baseline-runs or --confirm-runs"
        )
    return int(arguments.runs)


def _without_separator(arguments: Sequence[str]) -> list[str]:
    return list(arguments[1:] if arguments[:1] == ["--"] else arguments)


def _calibrated(taken: LiveRuns, arguments: argparse.Namespace) -> Calibration:
    levels = given_levels(arguments)
    policies = {name: msgspec.structs.replace(policy, **levels) for name, policy in taken.policies.items()}
    confirm_runs = taken.confirm_runs if arguments.confirm_runs is None else arguments.confirm_runs
    deal = Deal(
        baseline_runs=arguments.baseline_runs,
        confirm_runs=confirm_runs,
        comparisons=arguments.comparisons,
        seed=arguments.seed,
    )
    try:
        return calibrate({entry.benchmark.label: entry.runs for entry in taken.entries}, deal, policies)
    except RecordingError as error:
        raise CommandError(str(error)) from error


def _text(taken: LiveRuns, calibration: Calibration) -> str:
    benchmarks = [entry.benchmark for entry in taken.entries]
    title = (
        f"{taken.machine.model}: {calibration.runs} runs of {units.count(len(benchmarks), 'benchmark')}, dealt "
        f"{calibration.sessions} times into {calibration.baseline_runs} baseline runs and up to "
        f"{1 + calibration.confirm_runs} new ones"
    )
    cells = [_cells(row) for row in calibration.benchmarks]
    table = name_table(benchmarks, cells, HEADINGS, _ALIGNS, terminal_width())
    return "\n".join((title, *table, *_suite_lines(benchmarks, calibration)))


def _cells(row: AuditRow) -> list[str]:
    others = [verdict for verdict in VERDICTS if verdict != "regressed" and row.verdict_counts.get(verdict)]
    return [
        units.fine_percent(row.spread),
        units.rate(row.false_alarm_rate),
        ", ".join(f"{units.rate(row.verdict_counts[verdict] / row.comparisons)} {verdict}" for verdict in others),
        units.rate(row.advanced_rate),
        units.change(row.visible_ratio),
    ]


def _suite_lines(benchmarks: Sequence[BenchmarkId], calibration: Calibration) -> list[str]:
    share = units.rate(calibration.failed_share)
    lines = [
        f"suite: {calibration.failed_sessions} of {calibration.sessions} sessions of unchanged code would have failed "
        f"({share}; at most {units.rate(Policy().session_alpha)} is meant)"
    ]
    names = short_names(benchmarks)
    seen = {
        benchmark: row.visible_ratio
        for benchmark, row in zip(benchmarks, calibration.benchmarks, strict=True)
        if row.visible_ratio is not None
    }
    if seen:
        ordered = sorted(seen.items(), key=lambda pair: pair[1])
        hardest, largest = ordered[-1]
        median = ordered[(len(ordered) - 1) // 2][1]
        lines.append(
            f"smallest slowdown found in 95 % of them: {units.change(median)} for the median benchmark, "
            f"{units.change(largest)} for {names[hardest]}"
        )
    blind = [names[benchmark] for benchmark in benchmarks if benchmark not in seen]
    if blind:
        lines.append(f"no slowdown would be found in: {', '.join(blind)}")
    return lines
