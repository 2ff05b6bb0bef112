"""The section that ends a session: the table, what is to be said of verdicts that failed nothing, and the account."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Verdict
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.report.accounting import Accounting, accounting_lines, verdict_line
from pytest_gpuperf.report.checks import check_lines
from pytest_gpuperf.report.launch_bound import launch_bound_lines
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.report.table import results_table
from pytest_gpuperf.settings import storing_option

_NAMED_PER_REASON = 3
_EXPLAINED = 8
_VERDICTS_TO_EXPLAIN = ("inconclusive", "incomparable", "missing")
_MACHINE_FIELDS = ("driver", "cuda", "torch", "triton", "python", "threads", "host")


def section_title(machine: Machine, compared_with: str) -> str:
    """Say what was measured and against what: `gpuperf: NVIDIA H200, baseline main`."""
    return f"gpuperf: {machine.model}, {compared_with}"


def gpuperf_section(
    outcomes: Sequence[Outcome],
    accounting: Accounting,
    *,
    baseline_name: str,
    machine_changes: Sequence[str] = (),
    notes: Sequence[str] = (),
    storing: bool = False,
    sort: str = "order",
    group_by: str = "none",
    columns: Sequence[str] = (),
    width: int = 80,
    color: bool = False,
) -> list[str]:
    """Assemble the lines of the closing section.

    `machine_changes` come from `machine_changes()`, `notes` are the caller's own (the session's shift, what was stored
    and where); a session that is `storing` needs no hint to store. Raises ValueError as `results_table` does.
    """
    table = results_table(outcomes, sort=sort, group_by=group_by, columns=columns, width=width, color=color)
    sentences = [
        *explanations(outcomes, _EXPLAINED),
        *check_lines(outcomes),
        *launch_bound_lines(outcomes),
        *(f"Since the baseline: {change}." for change in machine_changes),
        *([] if storing else hints(outcomes, accounting, baseline_name)),
        *notes,
        verdict_line(outcome.decision.verdict for outcome in outcomes),
        *accounting_lines(accounting),
    ]
    return [*table.splitlines(), *([""] if table else []), *wrapped(sentences, width)]


def wrapped(sentences: Iterable[str], width: int) -> list[str]:
    """Break each sentence into lines of at most `width`, the later ones indented; words such as paths stay whole."""
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(sentence, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines


def explanations(outcomes: Sequence[Outcome], most: int | None = None) -> list[str]:
    """Say why benchmarks have a verdict that is neither good nor bad; those of one reason share a sentence.

    `most` limits the number of sentences; one more then counts the benchmarks that are left out.
    """
    names = short_names(outcome.benchmark for outcome in outcomes)
    by_reason: dict[tuple[Verdict, str], list[str]] = {}
    for outcome in outcomes:
        decision = outcome.decision
        if decision.verdict in _VERDICTS_TO_EXPLAIN:
            by_reason.setdefault((decision.verdict, decision.reason), []).append(names[outcome.benchmark])
    told = [f"{verdict}: {_listed(listed)}: {reason}" for (verdict, reason), listed in by_reason.items()]
    if most is None or len(told) <= most:
        return told
    left = sum(len(listed) for listed in list(by_reason.values())[most:])
    return [
        *told[:most],
        f"and {left} more without a clear verdict: 'gpuperf show latest' tells why",
    ]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_PER_REASON
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMED_PER_REASON])} and {more} more"


def hints(outcomes: Sequence[Outcome], accounting: Accounting, baseline_name: str) -> list[str]:
    """What the user may want to do next."""
    save, extend = storing_option("save", baseline_name), storing_option("extend", baseline_name)
    if not accounting.baseline and accounting.measured:
        return [f"There is no baseline {baseline_name} for these benchmarks yet: pytest {save} saves one."]
    lines = []
    if any(outcome.decision.provisional for outcome in outcomes):
        lines.append(f"Provisional: the baseline is of one session only ({extend} adds others).")
    if any(outcome.decision.verdict == "new" for outcome in outcomes):
        lines.append(f"New benchmarks gate nothing until {save} stores them.")
    return lines


def machine_changes(baseline: Iterable[Machine], now: Machine) -> list[str]:
    """Say what differs between the machines of a baseline's sessions and this one: `driver 580.65, now 580.82`."""
    stored = list(baseline)
    changes = []
    for field in _MACHINE_FIELDS:
        before = sorted({getattr(machine, field) for machine in stored} - {""})
        current = getattr(now, field)
        if before and current and current not in before:
            changes.append(f"{field} was {' and '.join(before)}, now {current}")
    return changes
