"""Softmax of rows that fit one program, with choices that the shipped kernel does not make: candidates to be timed.

- WHOLE: no mask, where tiles divide the tensor, as torch.compile leaves it out.
- LOAD and STORE: what the caches are to do with data that nobody comes back for.
- Programs that stay and take row after row, loading the next ones while they compute (STAGES).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def candidate_kernel(
    x_ptr, y_ptr, rows, columns, x_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Turn ROWS rows at a time, as many times as there are fewer programs than tiles."""
    column = tl.arange(0, COLUMNS)[None, :]
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        row = (tile * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
        if WHOLE:
            x = tl.load(x_ptr + row * x_stride + column, eviction_policy=LOAD).to(tl.float32)
        else:
            inside = (row < rows) & (column < columns)
            source = x_ptr + row * x_stride + column
            x = tl.load(source, mask=inside, other=float("-inf"), eviction_policy=LOAD).to(tl.float32)
        weights = tl.exp2((x - tl.max(x, axis=1)[:, None]) * LOG2E)
        y = (weights * (1.0 / tl.sum(weights, axis=1))[:, None]).to(y_ptr.dtype.element_ty)
        if WHOLE:
            tl.store(y_ptr + row * columns + column, y, cache_modifier=STORE)
        else:
            tl.store(y_ptr + row * columns + column, y, mask=inside, cache_modifier=STORE)


@dataclass(frozen=True)
class Candidate:
    """One way to launch the kernel; `resident` programs a multiprocessor stay, 0: a program for every tile."""

    rows: int
    warps: int
    whole: bool = True
    load: str = ""
    store: str = ""
    resident: int = 0
    stages: int = 1

    @property
    def name(self) -> str:
        """What is chosen, in words."""
        parts = [
            f"{self.rows} rows {self.warps} warps",
            "" if self.whole else "masked",
            f"load {self.load}" if self.load else "",
            f"store {self.store}" if self.store else "",
            f"{self.resident} resident, {self.stages} stages" if self.resident else "",
        ]
        return " ".join(filter(None, parts))

    def launch(self, x: torch.Tensor, y: torch.Tensor, multiprocessors: int) -> None:
        """Write softmax of the rows of `x` into the contiguous `y`."""
        rows, columns = x.shape
        width = triton.next_power_of_2(columns)
        if self.whole and (width != columns or rows % self.rows != 0):
            raise ValueError(f"tiles of {self.rows}×{width} do not divide {rows}×{columns}: use whole=False")
        tiles = triton.cdiv(rows, self.rows)
        programs = min(tiles, self.resident * multiprocessors) if self.resident else tiles
        candidate_kernel[(programs,)](
            x, y, rows, columns, x.stride(0), self.rows, width, self.whole, self.load, self.store, self.stages,
            num_warps=self.warps,
        )  # fmt: skip


def candidates(columns: int) -> Iterator[Candidate]:
    """Yield what is plausible for rows of so many columns: eight to thirty-two elements a thread."""
    for rows in (1, 2, 4):
        for warps in (1, 2, 4, 8):
            if 8 <= rows * columns // (32 * warps) <= 32:
                yield Candidate(rows, warps)
                yield Candidate(rows, warps, resident=32 // warps, stages=2)
    favourite = Candidate(max(1, 1024 // columns), 4 if columns < 1024 else max(2, columns // 1024))
    yield replace(favourite, load="evict_first", store=".cs")
    yield replace(favourite, whole=False)
    yield replace(favourite, load="evict_first")
    yield replace(favourite, store=".cs")
    yield replace(favourite, store=".wt")
    yield replace(favourite, resident=16, stages=3)
    yield replace(favourite, resident=16, stages=2, load="evict_first", store=".cs")
