"""The Triton kernels of softmax: one tile a row, tile after tile, rows shared between programs, columns, and backward.

All compute in float32, in powers of two: e^x = 2^(x·log₂e). A row is read from memory once and written once wherever
it fits in the registers of the programs that share it; the loops that read it twice are for what does not.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _finite_shift(maximum):
    """Where all is −∞ there is no maximum to subtract; 0 gives weights of 0 instead of ∞ − ∞."""
    return tl.where(maximum == float("-inf"), 0.0, maximum)


@triton.jit
def _absorb(maximum, total, x):
    """Return the running maximum and sum after another tile `x` of the row."""
    grown = tl.maximum(maximum, tl.max(x, axis=0))
    shift = _finite_shift(grown)
    total = total * tl.exp2((maximum - shift) * LOG2E) + tl.sum(tl.exp2((x - shift) * LOG2E), axis=0)
    return grown, total


@triton.jit
def single_tile_kernel(x_ptr, y_ptr, rows, columns, x_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each program turns ROWS whole rows, held in registers."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=float("-inf")).to(tl.float32)
    weights = tl.exp2((x - tl.max(x, axis=1)[:, None]) * LOG2E)
    y = weights * (1.0 / tl.sum(weights, axis=1))[:, None]
    tl.store(y_ptr + row * columns + column, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def online_kernel(x_ptr, y_ptr, columns, x_stride, TILE: tl.constexpr):
    """Each program turns one row, read twice: once for maximum and sum, once to write."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * columns
    maximum, total = _normaliser(x_ptr, 0, columns, TILE)
    _write(x_ptr, y_ptr, 0, columns, maximum, 1.0 / total, TILE)


@triton.jit
def _normaliser(x_ptr, start, end, TILE: tl.constexpr):
    """Return maximum and Σ 2^((x − maximum)·log₂e) of the row's columns from `start` to `end`."""
    maximum = float("-inf")
    total = 0.0
    for first in range(start, end, TILE):
        column = first + tl.arange(0, TILE)
        x = tl.load(x_ptr + column, mask=column < end, other=float("-inf")).to(tl.float32)
        maximum, total = _absorb(maximum, total, x)
    return maximum, total


@triton.jit
def _write(x_ptr, y_ptr, start, end, maximum, scale, TILE: tl.constexpr):
    for first in range(start, end, TILE):
        column = first + tl.arange(0, TILE)
        x = tl.load(x_ptr + column, mask=column < end, other=0.0).to(tl.float32)
        y = tl.exp2((x - maximum) * LOG2E) * scale
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=column < end)


@triton.jit
def _combined(maxima_ptr, totals_ptr, parts, PARTS: tl.constexpr):
    """Return a row's maximum and reciprocal sum from those of its parts, always added in the same order."""
    part = tl.arange(0, PARTS)
    # Not through L1: other programs wrote these.
    maxima = tl.load(maxima_ptr + part, mask=part < parts, other=float("-inf"), cache_modifier=".cg")
    totals = tl.load(totals_ptr + part, mask=part < parts, other=0.0, cache_modifier=".cg")
    maximum = tl.max(maxima, axis=0)
    total = tl.sum(totals * tl.exp2((maxima - _finite_shift(maximum)) * LOG2E), axis=0)
    return maximum, 1.0 / total


@triton.jit
def split_normaliser_kernel(x_ptr, maxima_ptr, totals_ptr, columns, x_stride, span, TILE: tl.constexpr):
    """First of two launches for few, very wide rows: program (part, row) finds its part's maximum and sum."""
    part, parts = tl.program_id(0), tl.num_programs(0)
    row = tl.program_id(1).to(tl.int64)
    start = part.to(tl.int64) * span
    end = tl.minimum(start + span, columns)
    maximum, total = _normaliser(x_ptr + row * x_stride, start, end, TILE)
    tl.store(maxima_ptr + row * parts + part, maximum)
    tl.store(totals_ptr + row * parts + part, total)


@triton.jit
def split_write_kernel(
    x_ptr, y_ptr, maxima_ptr, totals_ptr, columns, x_stride, span, PARTS: tl.constexpr, TILE: tl.constexpr
):
    """Second launch: from the last part to the first, since the last ones read are still in the L2 cache."""
    parts = tl.num_programs(0)
    part = parts - 1 - tl.program_id(0)
    row = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    start = part.to(tl.int64) * span
    end = tl.minimum(start + span, columns)
    maximum, scale = _combined(maxima_ptr + row * parts, totals_ptr + row * parts, parts, PARTS)
    _write(x_ptr + row * x_stride, y_ptr + row * columns, start, end, maximum, scale, TILE)


@triton.jit
def shared_row_kernel(
    x_ptr,
    y_ptr,
    maxima_ptr,
    totals_ptr,
    arrived_ptr,
    rows,
    columns,
    x_stride,
    span,
    parts,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Groups of `parts` programs share rows, each holding its part in registers: wide rows, read once.

    The programs of a group wait for each other, so all must be resident: a cooperative launch.
    `arrived` counts them, a row each, from 0.
    """
    group, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    start = part.to(tl.int64) * span
    lane = tl.arange(0, TILE)
    inside = lane < tl.minimum(span, columns - start)
    x_ptr += start
    y_ptr += start
    for row_index in range(group, rows, tl.num_programs(0) // parts):
        row = row_index.to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + lane, mask=inside, other=float("-inf")).to(tl.float32)
        own_maximum = tl.max(x, axis=0)
        weights = tl.exp2((x - _finite_shift(own_maximum)) * LOG2E)
        tl.store(maxima_ptr + row * parts + part, own_maximum)
        tl.store(totals_ptr + row * parts + part, tl.sum(weights, axis=0))
        tl.atomic_add(arrived_ptr + row, 1, sem="release")
        while tl.atomic_add(arrived_ptr + row, 0, sem="acquire") < parts:
            pass
        maximum, scale = _combined(maxima_ptr + row * parts, totals_ptr + row * parts, parts, PARTS)
        y = weights * (tl.exp2((own_maximum - _finite_shift(maximum)) * LOG2E) * scale)
        tl.store(y_ptr + row * columns + lane, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def columns_kernel(x_ptr, y_ptr, length, inner, TILE: tl.constexpr, INNER: tl.constexpr):
    """Softmax down the middle of a contiguous (outer, length, inner): INNER neighbouring columns a program."""
    base = tl.program_id(1).to(tl.int64) * length * inner
    column = tl.program_id(0).to(tl.int64) * INNER + tl.arange(0, INNER)[None, :]
    maximum = tl.full([INNER], float("-inf"), tl.float32)
    total = tl.zeros([INNER], tl.float32)
    for first in range(0, length, TILE):
        step = first + tl.arange(0, TILE)[:, None]
        inside = (step < length) & (column < inner)
        x = tl.load(x_ptr + base + step.to(tl.int64) * inner + column, mask=inside, other=float("-inf")).to(tl.float32)
        grown = tl.maximum(maximum, tl.max(x, axis=0))
        shift = _finite_shift(grown)
        total = total * tl.exp2((maximum - shift) * LOG2E) + tl.sum(tl.exp2((x - shift[None, :]) * LOG2E), axis=0)
        maximum = grown
    scale = 1.0 / total
    for first in range(0, length, TILE):
        step = first + tl.arange(0, TILE)[:, None]
        inside = (step < length) & (column < inner)
        offset = base + step.to(tl.int64) * inner + column
        x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
        y = tl.exp2((x - maximum[None, :]) * LOG2E) * scale[None, :]
        tl.store(y_ptr + offset, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward_kernel(dy_ptr, y_ptr, dx_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """dx = y · (dy − Σ dy·y), ROWS whole rows a program."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    y = tl.load(y_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(dy * y, axis=1)[:, None])
    tl.store(dx_ptr + row * columns + column, dx.to(dx_ptr.dtype.element_ty), mask=inside)


@triton.jit
def online_backward_kernel(dy_ptr, y_ptr, dx_ptr, columns, TILE: tl.constexpr):
    """The same for one row of any width, read twice."""
    row = tl.program_id(0).to(tl.int64) * columns
    partial = tl.zeros([TILE], tl.float32)
    for first in range(0, columns, TILE):
        column = first + tl.arange(0, TILE)
        y = tl.load(y_ptr + row + column, mask=column < columns, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row + column, mask=column < columns, other=0.0).to(tl.float32)
        partial += dy * y
    dot = tl.sum(partial, axis=0)
    for first in range(0, columns, TILE):
        column = first + tl.arange(0, TILE)
        y = tl.load(y_ptr + row + column, mask=column < columns, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row + column, mask=column < columns, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row + column, (y * (dy - dot)).to(dx_ptr.dtype.element_ty), mask=column < columns)
