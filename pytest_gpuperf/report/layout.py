"""Aligned tables whose first column holds benchmarks' names, cut to what the terminal leaves for them."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.report.names import display_width, short_names

NARROWEST_NAME = 16
_GAP = 2


def name_table(
    benchmarks: Sequence[BenchmarkId],
    cells: Sequence[Sequence[str]],
    headings: Sequence[str],
    aligns: Sequence[str],
    width: int,
) -> list[str]:
    """Lay out one row a benchmark after a line of headings and a rule; lines are at most `width` columns wide.

    A row of `cells` has the texts that follow the name, under `headings`, aligned "left" or "right". The limit holds
    as long as it leaves `NARROWEST_NAME` columns for names.
    """
    room = max(room_for_names(headings, cells, width), NARROWEST_NAME)
    names = short_names(benchmarks, room)
    return aligned([names[benchmark] for benchmark in benchmarks], cells, ("name", *headings), aligns)


def room_for_names(headings: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> int:
    """Return how many of `width` columns such rows leave for names; less than none where they are too wide."""
    return width - sum(_GAP + max(map(display_width, column)) for column in zip(headings, *cells, strict=True))


def aligned(
    first: Sequence[str], cells: Sequence[Sequence[str]], headings: Sequence[str], aligns: Sequence[str]
) -> list[str]:
    """Lay out rows, of which `first` holds the first column's texts (left-aligned), after headings and a rule."""
    from tabulate import tabulate

    widest = max(map(display_width, (headings[0], *first)))
    # tabulate counts characters, not columns of the terminal: it lays out a stand-in of the first column's width.
    lines = tabulate(
        [["x" * widest, *row] for row in (headings[1:], *cells)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=("left", *aligns),
    ).split("\n")
    shown = [text + " " * (widest - display_width(text)) for text in (headings[0], *first)]
    head, *body = [(text + line[widest:]).rstrip() for text, line in zip(shown, lines, strict=True)]
    return [head, "-" * max(map(display_width, (head, *body))), *body]
