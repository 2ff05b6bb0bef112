"""What is said of one benchmark's verdict: the text of a failed test, plain and without a traceback."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision, Policy, Verdict
from pytest_gpuperf.report import units
from pytest_gpuperf.report.columns import mean_us

WIDTH = 100
_INDENT = 4


def verdict_paragraph(outcome: Outcome, *, repeat_command: str = "", policy: Policy | None = None) -> str:
    """Tell a verdict in full; the first line alone is fit for a list of failures.

    `repeat_command` is the shell command that measures this benchmark again ("" leaves the line out). `policy` holds
    the levels that the decision was made with (None: the defaults).
    """
    tell = _TELLERS.get(outcome.decision.verdict, _plain)
    lines = tell(outcome, policy or Policy())
    if outcome.benchmark.name:
        lines[0] = f"{outcome.benchmark.name}: {lines[0]}"
    if repeat_command:
        lines.append(f"To repeat: {repeat_command}")
    return "\n".join(lines)


def regression_paragraph(outcome: Outcome, repeat_command: str = "", *, policy: Policy | None = None) -> str:
    """Tell a regression: how much, how sure, over how many runs, what else changed, and how to repeat it."""
    return verdict_paragraph(outcome, repeat_command=repeat_command, policy=policy)


def repeat_command(node_id: str, *options: str) -> str:
    """The shell command that measures one test again: `pytest --gpuperf 'tests/test_a.py::test_b[1]'`."""
    return shlex.join(["pytest", "--gpuperf", *options, node_id])


def headline(decision: Decision, policy: Policy | None = None) -> str:
    """The verdict in one line: `slower by 4.8 % [3.1, 6.6] over 10 + 8 runs, p = 2e-7`."""
    if decision.verdict == "regressed" and not _is_slower(decision, policy or Policy()):
        return _first_sentence(decision.reason)
    if decision.verdict in ("regressed", "improved") and decision.ratio is not None:
        return f"{units.faster_or_slower(decision)} over {_run_counts(decision)}, {units.p_equals(decision.p_welch)}"
    return f"{decision.verdict}: {_first_sentence(decision.reason)}"


def _is_slower(decision: Decision, policy: Policy) -> bool:
    """Whether the time itself regressed, and not only an exact figure (peak memory, kernels)."""
    if decision.ratio is None or decision.p_welch is None or decision.p_rank is None:
        return False
    level = min(policy.alpha, 0.05 / max(policy.gated, 1))
    return decision.ratio > 1 and decision.p_welch <= level and decision.p_rank <= policy.alpha


def _run_counts(decision: Decision) -> str:
    return f"{decision.baseline_runs} + {decision.new_runs} runs"


def _first_sentence(reason: str) -> str:
    sentence, stop, _ = reason.partition(". ")
    sentence = sentence if stop else reason.rstrip(".")
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _wrapped(text: str) -> list[str]:
    # A number stays with its unit or sign: wrap with no-break spaces there, then put plain ones back.
    glued = re.sub(r"(?<=\d) (?=[%a-zA-Z]+\b|%)|(?<=\bp) (?=[=<])|(?<=[=<]) (?=\d)", "\u00a0", text)
    lines = textwrap.wrap(glued, WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _regressed(outcome: Outcome, policy: Policy) -> list[str]:
    decision = outcome.decision
    lines = [headline(decision, policy)]
    lines += _wrapped(" ".join(filter(None, (_means(decision), _how_sure(decision, policy)))))
    lines += _wrapped(_clocks(decision))
    return lines + _changes(outcome, nothing="Nothing else that is recorded has changed.")


def _means(decision: Decision) -> str:
    if decision.baseline_mean_us is None or decision.new_mean_us is None:
        return ""
    before, now = units.time(decision.baseline_mean_us), units.time(decision.new_mean_us)
    return (
        f"The mean went from {before} ({units.count(decision.baseline_runs, 'baseline run')}) "
        f"to {now} ({units.count(decision.new_runs, 'new run')})."
    )


def _how_sure(decision: Decision, policy: Policy) -> str:
    if not _is_slower(decision, policy):
        return f"The time alone is no reason to fail: {units.faster_or_slower(decision)}." if decision.ratio else ""
    level = min(policy.alpha, 0.05 / max(policy.gated, 1))
    levels = " and ".join(dict.fromkeys((units.probability(level), units.probability(policy.alpha))))
    return (
        f"Were the code slower by no more than {units.limit(policy.min_effect)} (min_effect), as much would show with "
        f"{units.p_equals(decision.p_welch)} (Welch's t-test) and {units.p_equals(decision.p_rank)} (rank test); "
        f"the gate fails at {levels}."
    )


def _clocks(decision: Decision) -> str:
    before, now = decision.baseline_clock_ghz, decision.new_clock_ghz
    if before is None and now is None:
        return ""
    text = f"SM clock: {_clock_or_unmetered(before)} in the baseline, {_clock_or_unmetered(now)} now"
    if decision.clock_sensitivity and decision.raw_ratio is not None:
        text += f"; the change is adjusted for it (unadjusted: {units.change(decision.raw_ratio)})"
    return text + "."


def _clock_or_unmetered(clock_ghz: float | None) -> str:
    return "not metered" if clock_ghz is None else units.clock(clock_ghz)


def _changes(outcome: Outcome, nothing: str = "") -> list[str]:
    findings = outcome.decision.findings
    lines = ["What else changed:"] if findings else _wrapped(nothing)
    for finding in findings:
        lines += [f"  - {line}" if not i else f"    {line}" for i, line in enumerate(_wrapped(finding))]
    notes = dict.fromkeys(note for run in outcome.runs for note in run.notes)
    for note in notes:
        lines += _wrapped(f"Note: {note}")
    return lines


def _plain(outcome: Outcome, policy: Policy) -> list[str]:
    decision = outcome.decision
    lines = [headline(decision, policy)]
    rest = decision.reason.partition(". ")[2]
    figures = " ".join(filter(None, (rest, _figures(decision))))
    return lines + _wrapped(figures) + _wrapped(_clocks(decision)) + _changes(outcome)


def _figures(decision: Decision) -> str:
    if decision.ratio is None:
        return ""
    change = units.change(decision.ratio, decision.ratio_low, decision.ratio_high)
    text = f"Seen: {change} over {_run_counts(decision)}."
    if decision.smallest_visible_ratio is not None:
        text += f" The smallest slowdown it could have found: {units.percent(decision.smallest_visible_ratio - 1)}."
    return text


def _missing(outcome: Outcome, policy: Policy) -> list[str]:
    lines = _plain(outcome, policy)
    return lines + _wrapped(
        "Was it renamed or removed? Save the baseline again, or `gpuperf rename` or `gpuperf prune` the stored entry."
    )


def _new(outcome: Outcome, policy: Policy) -> list[str]:
    lines = _plain(outcome, policy)
    mean = mean_us(outcome)
    measured = (
        f"Measured: {units.time(mean)} over {units.count(len(outcome.runs), 'run')}. " if mean is not None else ""
    )
    return lines + _wrapped(
        f"{measured}Store it with --gpuperf-save-baseline; only under --gpuperf-strict is it a failure."
    )


_TELLERS: dict[Verdict, Callable[[Outcome, Policy], list[str]]] = {
    "regressed": _regressed,
    "missing": _missing,
    "new": _new,
}
