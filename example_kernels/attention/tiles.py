"""How the attention kernels find their work and read their tiles."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def load_tile(
    source, batch, head, row, strides, length, head_dim,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, DESCRIPTOR: tl.constexpr = False,
):  # fmt: skip
    """Return ROWS rows of one head from `row` on, zeros beyond its length and width.

    `source` is a tensor descriptor over (batch, head, length, head_dim), which the copy engine reads by itself,
    or else a pointer, with the strides of the first three dimensions; the last one's is 1.
    """
    if DESCRIPTOR:
        tile = source.load([batch, head, row, 0]).reshape([ROWS, WIDTH])
    else:
        rows, columns = row + tl.arange(0, ROWS), tl.arange(0, WIDTH)
        pointers = tile_pointers(source, batch, head, row, strides, ROWS, WIDTH)
        tile = tl.load(pointers, mask=(rows < length)[:, None] & (columns < head_dim)[None, :], other=0.0)
    return tile


@triton.jit
def store_tile(target, tile, batch, head, row, strides, length, head_dim, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Write the rows of `tile` that lie inside the tensor."""
    rows, columns = row + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    pointers = tile_pointers(target, batch, head, row, strides, ROWS, WIDTH)
    inside = (rows < length)[:, None] & (columns < head_dim)[None, :]
    tl.store(pointers, tile.to(target.dtype.element_ty), mask=inside)


@triton.jit
def tile_pointers(base, batch, head, row, strides, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Only the tile's corner needs 64 bits; within the tile 32 do."""
    corner = tl.cast(batch, tl.int64) * strides[0] + tl.cast(head, tl.int64) * strides[1]
    corner += tl.cast(row, tl.int64) * strides[2]
    return base + corner + (tl.arange(0, ROWS) * strides[2])[:, None] + tl.arange(0, WIDTH)[None, :]


@triton.jit
def find_work(tiles, instances, cohort):
    """Return which tile of which instance (batch and head) this program works on.

    Instances go in cohorts whose keys and values fit in the L2 cache together. Within a cohort all last tiles come
    first: with a causal mask they are the longest, and short ones at the end leave no multiprocessor waiting.
    """
    program = tl.program_id(0)
    first = program // (tiles * cohort) * cohort
    size = tl.minimum(cohort, instances - first)
    place = program - first * tiles
    return tiles - 1 - place // size, first + place % size
