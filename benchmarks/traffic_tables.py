"""What is made of counted and measured bytes: the bytes that attention moves by count, rows, and a table as text.

Nothing here needs a GPU, or torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tabulate import tabulate

Row = dict[str, object]
MB = 1e6
NOTE = (
    "NVML: the share of the memory's bandwidth in use, turned into bytes by a copy of known bytes. "
    "ncu: Nsight Compute. Calls follow one another, and the L2 cache is not flushed: "
    "what a call finds there of the one before, it need not read."
)


def attention_bytes(shape: tuple[int, int, int, int], *, causal: bool, backward: bool) -> dict[str, float]:
    """Return the bytes that attention in 16 bits moves by count, where what a launch reads is read once.

    Backward: D reads O and dO; dK and dV read Q, K, V and dO; dQ reads them again; three gradients are written.
    Naive: the score matrix is written, scaled, masked, turned by softmax, and read.
    """
    batch, heads, length, width = shape
    tensor, row_sums = 2 * batch * heads * length * width, 4 * batch * heads * length
    if backward:
        ours = 13 * tensor + 7 * row_sums
        return {"flash": 8 * tensor + row_sums, "cudnn": 8 * tensor + row_sums, "triton": ours}
    once = 4 * tensor + row_sums
    naive = 4 * tensor + (8 if causal else 6) * 2 * batch * heads * length**2
    return {"unfused": naive, "flash": once, "cudnn": once, "triton": once}


def row_of(problem: str, name: str, counted_bytes: float, measured: Row) -> Row:
    """Return a row: counted and measured megabytes, and what every counter's are of the counted."""
    row: Row = {"problem": problem, "implementation": name, "counted MB": counted_bytes / MB, **measured}
    total = {"NVML": measured.get("NVML MB"), "ncu": _sum(measured.get("ncu read MB"), measured.get("ncu written MB"))}
    shares = {f"{k} / counted": v * MB / counted_bytes for k, v in total.items() if isinstance(v, float)}
    return {**row, **shares}


def _sum(read_mb: object, written_mb: object) -> float | None:
    both = isinstance(read_mb, float) and isinstance(written_mb, float)
    return read_mb + written_mb if both else None


def markdown(facts: Mapping[str, str], rows: Sequence[Row]) -> str:
    """Return the table as text."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_cell(column, row.get(column, "")) for column in columns] for row in rows]
    table = tabulate(cells, headers=columns, tablefmt="github", disable_numparse=True)
    head = ", ".join(f"{key} {value}" for key, value in facts.items())
    return f"# Memory traffic of the example kernels\n\n{head}\n\n{NOTE}\n\n{table}\n"


def _cell(column: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if column.endswith("counted") else f"{value:.1f}"
