"""Tables of what was measured in turn: implementations beside each other, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from tabulate import tabulate

from pytest_gpuperf.compare.pairs import PairedRatio
from pytest_gpuperf.compare.scaling import ScalingFit
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report import units

NOT_MEASURED = "not measured (without --gpuperf, each was called once): "


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One implementation; `record` is None where nothing was measured."""

    name: str
    record: RunRecord | None
    ratio: PairedRatio | None
    error: float | None
    starred: bool


def comparison_table(rows: Sequence[ComparisonRow], base: str) -> str:
    """Return one row an implementation, with times relative to `base` and a star at what no other beats."""
    if any(row.record is None for row in rows):
        return NOT_MEASURED + ", ".join(_one_line(row.name) for row in rows)
    headings = ["", "mean", "±", f"vs {_one_line(base)}", "memory", "error", ""]
    return _table([_comparison_cells(row) for row in rows], headings)


def sweep_table(
    rows: Sequence[tuple[str, RunRecord, bool]],
    time_fit: ScalingFit | None,
    memory_fit: ScalingFit | None,
    sizes: Sequence[str],
) -> str:
    """Return one row a size (its name, its record, whether it was fitted), with the exponents under them."""
    if not rows:
        return NOT_MEASURED + ", ".join(sizes)
    steps = ["", *(_step(one, other) for one, other in pairwise(rows))]
    cells = [
        [name, *_figures(record), units.size(record.peak_memory_bytes), step, "" if fitted else "not fitted"]
        for (name, record, fitted), step in zip(rows, steps, strict=True)
    ]
    lines = [_table(cells, ["size", "mean", "±", "memory", "exponent", ""])]
    fits = (("time", time_fit), ("peak memory", memory_fit))
    lines += [f"{figure} ~ size^{_exponent(fit)}" for figure, fit in fits if fit is not None]
    return "\n".join(lines)


def _comparison_cells(row: ComparisonRow) -> list[str]:
    assert row.record is not None
    ratio = "" if row.ratio is None else units.change(row.ratio.ratio, row.ratio.low, row.ratio.high)
    error = units.UNKNOWN if row.error is None else f"{row.error:.2g}"
    star = "*" if row.starred else ""
    return [_one_line(row.name), *_figures(row.record), ratio, units.size(row.record.peak_memory_bytes), error, star]


def _one_line(name: str) -> str:
    """Return a name as the session's table has it: one line of what can be printed, of bearable length."""
    return BenchmarkId.of("", name).name


def _figures(record: RunRecord) -> list[str]:
    return [units.time(record.mean_us), units.half_width(record.half_width_us, record.mean_us)]


def _step(one: tuple[str, RunRecord, bool], other: tuple[str, RunRecord, bool]) -> str:
    """Return the exponent between two neighbouring sizes."""
    between_sizes = log(float(other[0])) - log(float(one[0]))
    return f"{(other[1].log_median - one[1].log_median) / between_sizes:.2f}"


def _exponent(fit: ScalingFit) -> str:
    return f"{fit.exponent:.3f} [{fit.low:.3f}, {fit.high:.3f}], {units.count(fit.sizes, 'size')}"


def _table(cells: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Render without the columns that say nothing."""
    kept = [
        place
        for place in range(len(headings))
        if place == 0 or any(row[place] not in ("", units.UNKNOWN) for row in cells)
    ]
    align = ["left", *["right"] * (len(kept) - 1)]
    body = [[row[place] for place in kept] for row in cells]
    return tabulate(body, [headings[place] for place in kept], tablefmt="simple", colalign=align, disable_numparse=True)
