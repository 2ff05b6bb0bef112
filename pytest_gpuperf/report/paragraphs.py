"""What is said of one benchmark's verdict: the text of a failed test, plain and without a traceback."""

from __future__ import annotations

import math
import re
import shlex
import textwrap

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.power import welch_level
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.notes import AUTO_NOTE
from pytest_gpuperf.measure.pace import PACED
from pytest_gpuperf.report import units

WIDTH = 100
_INDENT = 4
_APART = 0.05
"""How far (in logarithms) means may lie from the values that are compared before that is worth a word."""
_MISSING_REMEDY = (
    "Was it renamed or removed? 'gpuperf rename' gives the stored entry the new id, 'gpuperf prune' removes it."
)


def verdict_paragraph(outcome: Outcome, *, repeat_command: str = "", policy: Policy | None = None) -> str:
    """Tell a verdict in full; the first line alone is fit for a list of failures.

    For a regression: how much, how sure, over how many runs, what else changed, and how to repeat it. `repeat_command`
    is the shell command that measures this benchmark again ("" leaves the line out). `policy` holds the levels of the
    decision (None: those kept in the outcome, else the defaults).
    """
    levels = policy or outcome.policy or Policy()
    lines = _regressed(outcome, levels) if outcome.decision.verdict == "regressed" else _other(outcome)
    if outcome.benchmark.name:
        lines[0] = f"{outcome.benchmark.name}: {lines[0]}"
    if repeat_command:
        lines.append(f"To repeat: {repeat_command}")
    return "\n".join(lines)


def repeat_command(node_id: str, *options: str) -> str:
    """The shell command that measures one test again: `pytest --gpuperf 'tests/test_a.py::test_b[1]'`."""
    return shlex.join(["pytest", "--gpuperf", *options, node_id])


def headline(decision: Decision, policy: Policy | None = None) -> str:
    """The verdict in one line: `slower by 4.8 % [3.1, 6.6] over 10 + 8 runs, p = 2e-7`."""
    if decision.verdict == "regressed" and not _time_regressed(decision, policy or Policy()):
        return f"{decision.reason.rstrip('.')} ({_run_counts(decision)})"
    if decision.verdict in ("regressed", "improved") and decision.ratio is not None:
        return f"{units.faster_or_slower(decision)} over {_run_counts(decision)}, {units.p_equals(decision.p_welch)}"
    return f"{decision.verdict}: {decision.reason.rstrip('.')}"


def _time_regressed(decision: Decision, policy: Policy) -> bool:
    """Whether the (clock-adjusted) time regressed, rather than an exact figure or, in A/B, the raw time alone."""
    certain = decision.p_welch is not None and decision.p_welch <= policy.alpha
    return decision.metric == "time" and decision.ratio is not None and certain


def _run_counts(decision: Decision) -> str:
    return f"{decision.baseline_runs} + {decision.new_runs} runs"


def _wrapped(text: str) -> list[str]:
    # A number stays with its unit or sign: wrap with no-break spaces there, then put plain ones back.
    glued = re.sub(r"(?<=\d) (?=[%a-zA-Z]+\b|%)|(?<=\bp) (?=[=<])|(?<=[=<]) (?=\d)", "\u00a0", text)
    lines = textwrap.wrap(glued, WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _regressed(outcome: Outcome, policy: Policy) -> list[str]:
    decision = outcome.decision
    return [
        headline(decision, policy),
        *_wrapped(_sentences(_means(decision), _how_sure(decision, policy), _provisional(decision))),
        *_wrapped(_clocks(outcome)),
        *_changes(outcome, nothing="Nothing else that is recorded of it has changed."),
    ]


def _other(outcome: Outcome) -> list[str]:
    decision = outcome.decision
    return [
        *_wrapped(headline(decision)),
        *_wrapped(_sentences(_means(decision), _seen(decision))),
        *_wrapped(_clocks(outcome)),
        *_changes(outcome),
        *_wrapped(_MISSING_REMEDY if decision.verdict == "missing" else ""),
    ]


def _sentences(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _means(decision: Decision) -> str:
    now = f"{units.time(decision.new_mean_us)} ({units.count(decision.new_runs, 'new run')})"
    if decision.new_mean_us is None:
        return ""
    if decision.baseline_mean_us is None:
        return f"The mean is {now}."
    before = units.count(decision.baseline_runs, "baseline run")
    means = f"The mean went from {units.time(decision.baseline_mean_us)} ({before}) to {now}."
    if not _means_mislead(decision):
        return means
    return f"{means} Single slow calls carry these means away; compared is the middle half of each run's calls."


def _means_mislead(decision: Decision) -> bool:
    """Whether the means, which hold every hiccup, tell of another change than the values that are compared."""
    before, now, ratio = decision.baseline_mean_us, decision.new_mean_us, decision.raw_ratio or decision.ratio
    if not (before and now and ratio and decision.ratio_low and decision.ratio_high):
        return False
    change, half_width = math.log(ratio), math.log(decision.ratio_high / decision.ratio_low) / 2
    return abs(math.log(now / before) - change) > max(_APART, half_width, abs(change) / 2)


def _how_sure(decision: Decision, policy: Policy) -> str:
    if not _time_regressed(decision, policy):
        return _seen(decision)
    levels = " and ".join(dict.fromkeys(map(units.level, (welch_level(policy), policy.alpha))))
    return (
        f"Were the code slower by no more than {units.limit(policy.min_effect)} (min_effect), as much would show with "
        f"{units.p_equals(decision.p_welch)} (Welch's t-test) and {units.p_equals(decision.p_rank)} (rank test); "
        f"the gate fails at {levels}."
    )


def _seen(decision: Decision) -> str:
    if decision.ratio is None:
        return ""
    return f"The time: {units.change(decision.ratio, decision.ratio_low, decision.ratio_high)}."


def _provisional(decision: Decision) -> str:
    return "The baseline's runs are all of one session, so this is provisional." if decision.provisional else ""


def _clocks(outcome: Outcome) -> str:
    decision = outcome.decision
    before, now = decision.baseline_clock_ghz, decision.new_clock_ghz
    if before is None and now is None:
        return ""
    clock = "Pace of the CPU" if PACED in outcome.identity.timer else "SM clock"
    text = f"{clock}: {_clock_or_unmetered(before)} in the baseline, {_clock_or_unmetered(now)} now"
    if decision.clock_sensitivity and units.change(decision.raw_ratio) != units.change(decision.ratio):
        text += f"; the change is adjusted for it (unadjusted: {units.change(decision.raw_ratio)})"
    return text + "."


def _clock_or_unmetered(clock_ghz: float | None) -> str:
    return "not metered" if clock_ghz is None else units.clock(clock_ghz)


def _changes(outcome: Outcome, nothing: str = "") -> list[str]:
    findings = outcome.decision.findings
    lines = ["What else changed:"] if findings else _wrapped(nothing)
    for finding in findings:
        lines += [f"  - {line}" if not i else f"    {line}" for i, line in enumerate(_wrapped(finding))]
    for note in _notes(outcome):
        lines += _wrapped(f"Note: {note}")
    return lines


def _notes(outcome: Outcome) -> list[str]:
    """Return the runs' notes, each once; of those on the choice of the timer, whose figures differ, the first."""
    notes: dict[str, str] = {}
    for note in (note for run in outcome.runs for note in run.notes):
        notes.setdefault(AUTO_NOTE if note.startswith(AUTO_NOTE) else note, note)
    return list(notes.values())
