"""What is made of the example kernels' times: ratios, rates, the targets they are held to, and tables as text.

Nothing here needs a GPU, or torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate

Row = dict[str, object]
Results = Mapping[str, Sequence[Row]]

TITLES = {
    "gelu": "GeLU, 64 M elements, microseconds",
    "softmax": "Softmax, float32, microseconds",
    "softmax-kinds": "Softmax of other types, dimensions and backward, microseconds",
    "attention": "Attention, bfloat16, microseconds",
    "general": "Attention, general shapes and layouts, bfloat16, microseconds",
    "float32": "Attention, float32, microseconds; errors are relative to float64",
    "lengths": "Attention forward by length, 1×32×length×64 in bfloat16: microseconds, and MiB beyond the inputs",
    "memory": "Attention forward and backward, 1×8×length×64 in bfloat16: MiB beyond the inputs",
    "launched": "Kernels launched, by the profiler",
    "taken": "What the rivals do with a layout as it is",
    "targets": "Targets",
}


def duration_us(row: Row, name: str) -> float:
    """Return a time of a row; nan where there is none."""
    value = row.get(name, math.nan)
    return float(value) if isinstance(value, (int, float)) else math.nan


def with_ratios(row: Row, ours: Sequence[str], rivals: Sequence[str]) -> Row:
    """Add to a row of times how many times as fast as each rival each of `ours` is; "of copy" where it has a copy."""
    ratios: Row = {}
    for name in ours:
        prefix = f"{name} " if len(ours) > 1 else ""
        if "copy" in row:
            ratios[f"{prefix}of copy"] = duration_us(row, "copy") / duration_us(row, name)
        for rival in rivals:
            if rival in row:
                ratios[f"{prefix}× {rival}"] = duration_us(row, rival) / duration_us(row, name)
    return {**row, **ratios}


def attention_flops(problem: str) -> float:
    """Return the operations of a problem named "batch×heads×length×width [causal] forward|backward".

    Half of them under a causal mask; backward counts 2.5 × forward.
    """
    batch, heads, length, width = map(int, problem.split()[0].split("×"))
    flops = 4.0 * batch * heads * length**2 * width
    return flops * (0.5 if "causal" in problem else 1.0) * (2.5 if "backward" in problem else 1.0)


def with_rates(row: Row, names: Iterable[str]) -> Row:
    """Add TFLOP/s to a row of attention times."""
    flops = attention_flops(str(row["problem"]))
    return {**row, **{f"{name} TFLOP/s": flops / duration_us(row, name) / 1e6 for name in names}}


@dataclass(frozen=True)
class Target:
    """A figure that the kernels are held to; without `at_least` it is only told."""

    what: str
    measured: float
    at_least: float | None = None
    where: str = ""

    @property
    def verdict(self) -> str:
        """Whether it is met, by the figure as measured, not as rounded."""
        if math.isnan(self.measured):
            return "not measured"
        if self.at_least is None:
            return ""
        return "met" if self.measured >= self.at_least else "missed"


def targets(results: Results) -> list[Target]:
    """Return every target with what `results` say of it."""
    return [*_gelu(results), *_softmax(results), *_attention(results), *_general(results)]


def _gelu(results: Results) -> Iterable[Target]:
    for dtype, least in (("bfloat16", 1.12), ("float32", 0.99)):
        row = _row(results, "gelu", f"tanh {dtype}")
        for name in ("triton", "cuda"):
            subject = f"GeLU tanh {dtype}, {name}"
            yield Target(f"{subject}: of a copy", duration_us(row, f"{name} of copy"), 0.98)
            yield Target(f"{subject}: × torch", duration_us(row, f"{name} × torch"), least)


SOFTMAX_OF_COPY = {"65536×256": 0.96, "4096×4096": 0.96, "4096×8192": 0.96, "4096×32768": 0.96, "512×131072": 0.75}
WIDEST_SOFTMAX, WIDEST_FASTER = "64×1048576", 1.5
FORWARD_BOUNDS = {
    "4×32×4096×128": (1.45, 0.85),
    "4×32×4096×128 causal": (1.4, 0.78),
    "4×16×8192×64": (1.4, 0.93),
    "4×16×8192×64 causal": (1.4, 0.9),
}
"""How many times as fast as flash and as cuDNN."""


def _softmax(results: Results) -> Iterable[Target]:
    rows = results.get("softmax", [])
    for shape, least in SOFTMAX_OF_COPY.items():
        measured = duration_us(_row(results, "softmax", shape), "of copy")
        yield Target(f"softmax float32 {shape}: of a copy", measured, least)
    widest = _row(results, "softmax", WIDEST_SOFTMAX)
    faster = min(duration_us(widest, f"× {rival}") for rival in ("torch", "compiled"))
    yield Target(f"softmax float32 {WIDEST_SOFTMAX}: × the faster of torch and compiled", faster, WIDEST_FASTER)
    for rival in ("torch", "compiled"):
        yield _least(rows, f"softmax float32, everywhere: × {rival}", f"× {rival}", 1.0)


def _attention(results: Results) -> Iterable[Target]:
    for problem, (flash, cudnn) in FORWARD_BOUNDS.items():
        row = _row(results, "attention", f"{problem} forward")
        yield Target(f"attention forward {problem}: × flash", duration_us(row, "× flash"), flash)
        yield Target(f"attention forward {problem}: × cuDNN", duration_us(row, "× cudnn"), cudnn)
    backward = [row for row in results.get("attention", []) if str(row["problem"]).endswith("backward")]
    yield _least(backward, "attention backward, everywhere: × flash", "× flash", 1.15)


def _general(results: Results) -> Iterable[Target]:
    rows = results.get("general", [])
    for direction in ("forward", "backward"):
        some = [row for row in rows if str(row["problem"]).endswith(direction)]
        yield _least(some, f"attention {direction}, general shapes and layouts: × flash", "× flash", 1.0)


def _least(rows: Sequence[Row], what: str, column: str, at_least: float) -> Target:
    """Return the target of a column's smallest figure; a row without a figure fails it."""
    if not rows:
        return Target(what, math.nan, at_least)
    worst = min(rows, key=lambda row: _or_nothing(duration_us(row, column)))
    return Target(what, _or_nothing(duration_us(worst, column)), at_least, f"least at {worst['problem']}")


def _or_nothing(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _row(results: Results, table: str, problem: str) -> Row:
    return next((row for row in results.get(table, []) if row["problem"] == problem), {})


def target_rows(results: Results) -> list[Row]:
    """Return the table of targets; empty where none of them was measured."""
    if all(math.isnan(target.measured) for target in targets(results)):
        return []
    return [
        {
            "target": target.what,
            "at least": "" if target.at_least is None else f"{target.at_least:g}",
            "measured": _cell("measured ratio", target.measured),
            "": target.verdict,
            "where": target.where,
        }
        for target in targets(results)
    ]


def _cell(column: str, value: object) -> str:
    """Return a figure as its column wants it: ratios, errors, rates and times have different digits."""
    if isinstance(value, Mapping):
        return ", ".join(str(fact) if key == "date" else f"{key} {fact}" for key, fact in value.items())
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "–"
    if column.endswith("of copy"):
        return f"{100 * value:.1f} %"
    if "×" in column or column.endswith("ratio"):
        return f"{value:.3f}"
    if column.endswith("error"):
        return f"{value:.1e}"
    return f"{value:.0f}" if column.endswith("TFLOP/s") else f"{value:.1f}"


def _table(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_cell(column, row.get(column, "")) for column in columns] for row in rows]
    return tabulate(cells, headers=columns, tablefmt="github", disable_numparse=True)


def markdown(results: Results, facts: Mapping[str, str], notes: Sequence[str]) -> str:
    """Return all tables as text, the targets last, if one was measured."""
    parts = ["# Example kernels, measured\n", ", ".join(f"{k} {v}" for k, v in facts.items()) + "\n", *notes]
    for key, rows in {**results, "targets": target_rows(results)}.items():
        if not rows:
            continue
        parts.append(f"## {TITLES[key]}\n\n{_table(rows)}\n")
    return "\n".join(parts)
