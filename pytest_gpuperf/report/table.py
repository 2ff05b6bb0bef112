"""The table of results: one row a benchmark, in groups and in order as asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import VERDICTS
from pytest_gpuperf.report import units
from pytest_gpuperf.report.columns import COLUMN_NAMES, COLUMNS, DEFAULT_COLUMNS, Column, mean_us
from pytest_gpuperf.report.layout import name_table, room_for_names
from pytest_gpuperf.report.names import display_width, natural_key, short_names, shorten, split_node_id

COMFORTABLE_NAME = 24
LEFT_OUT_FIRST = (COLUMNS["share"], COLUMNS["error"])
"""Of the usual columns, those that make room, in this order, where names would get less than is comfortable."""

_ANSI = {
    "regressed": "31;1",
    "improved": "32",
    "new": "36",
    "inconclusive": "33",
    "missing": "33",
    "incomparable": "33",
}


def _number_last(value: float | None) -> float:
    return math.inf if value is None else value


SORTS: dict[str, Callable[[Outcome], Any]] = {
    "order": lambda _: 0,
    "name": lambda outcome: natural_key(outcome.benchmark.label),
    "mean": lambda outcome: _number_last(mean_us(outcome)),
    "ratio": lambda outcome: -(outcome.decision.ratio or 0.0),
    "verdict": lambda outcome: VERDICTS.index(outcome.decision.verdict),
}


def _params(outcome: Outcome) -> str:
    params = split_node_id(outcome.benchmark.node_id)[2]
    return f"[{params}]" if params else "no parameters"


GROUPS: dict[str, Callable[[Outcome], str]] = {
    "none": lambda _: "",
    "group": lambda outcome: outcome.group,
    "file": lambda outcome: split_node_id(outcome.benchmark.node_id)[0],
    "function": lambda outcome: "::".join(split_node_id(outcome.benchmark.node_id)[:2]).removeprefix("::"),
    "param": _params,
}


def check_choice(what: str, value: str, allowed: Sequence[str]) -> None:
    """Raise ValueError, naming what is allowed, unless `value` is among `allowed`."""
    if value not in allowed:
        raise ValueError(f"unknown {what} {value!r}: choose from {', '.join(allowed)}")


def results_table(
    outcomes: Sequence[Outcome],
    *,
    sort: str = "order",
    group_by: str = "none",
    columns: Sequence[str] = (),
    width: int = 80,
    color: bool = False,
) -> str:
    """Render outcomes as a table of at most `width` columns, by shortening names; "" for no outcomes.

    `sort`: one of `SORTS`. `group_by`: one of `GROUPS`; a group's rows stand under its heading line.
    `columns`: from `COLUMN_NAMES`, in order (the name always comes first); none given are the default ones, without
    those that would be empty, and without `LEFT_OUT_FIRST` as far as names need their room.
    Raises ValueError for an unknown one.
    """
    check_choice("sort", sort, tuple(SORTS))
    check_choice("group-by", group_by, tuple(GROUPS))
    for column in columns:
        check_choice("column", column, COLUMN_NAMES)
    if not outcomes:
        return ""
    groups = _grouped(sorted(outcomes, key=SORTS[sort]), GROUPS[group_by])
    rows = [outcome for members in groups.values() for outcome in members]
    chosen = [COLUMNS[name] for name in columns if name != "name"] if columns else _usual(rows, width)
    return _render(rows, groups, chosen, width, color)


def _grouped(outcomes: Sequence[Outcome], group: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group(outcome), []).append(outcome)
    return groups


def _usual(rows: Sequence[Outcome], width: int) -> list[Column]:
    """Return the default columns that are not empty, as many as leave names their room."""
    wanted = [COLUMNS[name] for name in DEFAULT_COLUMNS if name != "name"]
    chosen = [column for column in wanted if any(column.cell(row) != units.UNKNOWN for row in rows)]
    longest = max(map(display_width, short_names(row.benchmark for row in rows).values()))
    for column in LEFT_OUT_FIRST:
        headings, cells = [c.heading for c in chosen], [[c.cell(row) for c in chosen] for row in rows]
        if room_for_names(headings, cells, width) >= min(longest, COMFORTABLE_NAME):
            break
        chosen = [other for other in chosen if other is not column]
    return chosen


def _render(
    rows: Sequence[Outcome], groups: dict[str, list[Outcome]], columns: Sequence[Column], width: int, color: bool
) -> str:
    head, rule, *body = name_table(
        [row.benchmark for row in rows],
        [[column.cell(row) for column in columns] for row in rows],
        [column.heading for column in columns],
        [column.align for column in columns],
        width,
    )
    body = [_colored(line, row) if color else line for line, row in zip(body, rows, strict=True)]
    return "\n".join((head, rule, *_with_headings(body, groups, width)))


def _with_headings(body: Sequence[str], groups: dict[str, list[Outcome]], width: int) -> list[str]:
    if len(groups) == 1 and "" in groups:
        return list(body)
    remaining = iter(body)
    lines: list[str] = []
    for heading, members in groups.items():
        lines.append(shorten(f"{heading or 'no group'}:", width))
        lines += [next(remaining) for _ in members]
    return lines


def _colored(line: str, row: Outcome) -> str:
    verdict = row.decision.verdict
    code = _ANSI.get(verdict)
    head, found, tail = line.rpartition(verdict)
    return f"{head}\x1b[{code}m{found}\x1b[0m{tail}" if code and found else line
