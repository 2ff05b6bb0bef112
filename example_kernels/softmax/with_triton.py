"""Softmax on Triton: which kernel for which shape, the launches, and the custom operators.

| rows | kernel | memory traffic |
|---|---|---|
| up to 32,768 columns | single tile, several rows a program where they are narrow | read once, written once |
| wider, on a GPU | shared between resident programs | read once, written once |
| wider still, many rows | online, tile after tile | read twice, written once |
| wider still, few rows | split over programs, two launches | read twice, written once |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
import triton

from example_kernels.softmax import kernels
from example_kernels.support.ahead_of_time import Shipped
from example_kernels.support.availability import KERNEL_DTYPES, check_triton_device, interpreting

TILE = 4096
SINGLE_TILE_COLUMNS = 32768
BACKWARD_TILE_COLUMNS = 16384
PROGRAM_ELEMENTS = 1024
SHARED_TILE = 8192
SHARED_TILE_OFF_GRID = 4096
"""Where 16 divides no distance between rows, every element needs an address: half as many of them fit the registers."""
SHARED_WARPS = 8
SHARED_PROGRAMS_PER_MULTIPROCESSOR = 4
SHARED_REGISTERS = 64
SPLIT_PROGRAMS_PER_MULTIPROCESSOR = 8
MAXIMUM_GRID_Y = 65535

Strategy = Literal["single_tile", "shared", "online", "split"]


def strategy_for(rows: int, columns: int, multiprocessors: int, cooperative: bool, tile: int = SHARED_TILE) -> Strategy:
    """Choose the kernel for (rows, columns) on a device of so many multiprocessors.

    `tile` is what a program of a shared row holds, where the launch can be `cooperative`.
    """
    if columns <= SINGLE_TILE_COLUMNS:
        return "single_tile"
    if cooperative and columns <= tile * SHARED_PROGRAMS_PER_MULTIPROCESSOR * multiprocessors:
        return "shared"
    return "online" if rows >= multiprocessors else "split"


def tile_shape(columns: int) -> tuple[int, int, int]:
    """Return rows and columns of a single tile, and its warps: narrow rows share a program, wide ones get it whole."""
    width = max(triton.next_power_of_2(columns), 16)
    rows = max(1, PROGRAM_ELEMENTS // width)
    warps = max(4 if rows > 1 else 2, min(32, width // 1024))
    return rows, width, warps


def _multiprocessors(x: torch.Tensor) -> int:
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4


def _single_tile(x: torch.Tensor, y: torch.Tensor) -> None:
    rows, columns = x.shape
    rows_a_program, width, warps = tile_shape(columns)
    grid = (triton.cdiv(rows, rows_a_program),)
    kernels.single_tile_kernel[grid](x, y, rows, columns, x.stride(0), rows_a_program, width, num_warps=warps)


def _online(x: torch.Tensor, y: torch.Tensor) -> None:
    rows, columns = x.shape
    kernels.online_kernel[(rows,)](x, y, columns, x.stride(0), TILE, num_warps=8)


def _split(x: torch.Tensor, y: torch.Tensor) -> None:
    rows, columns = x.shape
    wanted = triton.cdiv(_multiprocessors(x) * SPLIT_PROGRAMS_PER_MULTIPROCESSOR, rows)
    parts = min(wanted, triton.cdiv(columns, TILE), 1024)
    span = triton.cdiv(triton.cdiv(columns, parts), TILE) * TILE
    parts = triton.cdiv(columns, span)
    maxima = torch.empty((rows, parts), device=x.device, dtype=torch.float32)
    totals = torch.empty_like(maxima)
    shared = (maxima, totals, columns, x.stride(0), span)
    kernels.split_normaliser_kernel[(parts, rows)](x, *shared, TILE, num_warps=8)
    kernels.split_write_kernel[(parts, rows)](x, y, *shared, triton.next_power_of_2(parts), TILE, num_warps=8)


def shared_tile(x: torch.Tensor) -> int:
    """Return how many columns of the rows of `x` a program of a shared row holds."""
    on_grid = x.data_ptr() % 16 == 0 and x.stride(0) % 16 == 0 and x.shape[1] % 16 == 0
    return SHARED_TILE if on_grid else SHARED_TILE_OFF_GRID


def _shared(x: torch.Tensor, y: torch.Tensor) -> None:
    rows, columns = x.shape
    tile = shared_tile(x)
    parts = triton.cdiv(columns, tile)
    span = triton.cdiv(triton.cdiv(columns, parts), 16) * 16
    groups = min(rows, _multiprocessors(x) * SHARED_PROGRAMS_PER_MULTIPROCESSOR // parts)
    maxima = torch.empty((rows, parts), device=x.device, dtype=torch.float32)
    totals = torch.empty_like(maxima)
    arrived = torch.zeros(rows, device=x.device, dtype=torch.int32)
    kernels.shared_row_kernel[(groups * parts,)](
        x,
        y,
        maxima,
        totals,
        arrived,
        rows,
        columns,
        x.stride(0),
        span,
        parts,
        triton.next_power_of_2(parts),
        tile,
        num_warps=SHARED_WARPS,
        maxnreg=SHARED_REGISTERS,
        launch_cooperative_grid=True,
    )


LAUNCHES: dict[Strategy, Callable[[torch.Tensor, torch.Tensor], None]] = {
    "single_tile": _single_tile,
    "shared": _shared,
    "online": _online,
    "split": _split,
}


def softmax_rows(x: torch.Tensor, y: torch.Tensor, strategy: Strategy | None = None) -> None:
    """Write softmax of every row of `x` into the contiguous `y`; both (rows, columns), unit stride along rows."""
    rows, columns = x.shape
    chosen = strategy or strategy_for(rows, columns, _multiprocessors(x), not interpreting(), shared_tile(x))
    with torch.cuda.device_of(x):
        LAUNCHES[chosen](x, y)


def softmax_columns(x: torch.Tensor, y: torch.Tensor) -> None:
    """Write softmax along the middle dimension of the contiguous (outer, length, inner) `x` into `y`."""
    outer, length, inner = x.shape
    tile, neighbours = 64, min(64, max(16, triton.next_power_of_2(inner)))
    with torch.cuda.device_of(x):
        for first in range(0, outer, MAXIMUM_GRID_Y):
            count = min(outer - first, MAXIMUM_GRID_Y)
            grid = (triton.cdiv(inner, neighbours), count)
            kernels.columns_kernel[grid](x[first:], y[first:], length, inner, tile, neighbours, num_warps=4)


def _check(x: torch.Tensor, dim: int) -> None:
    check_triton_device(x)
    if x.dtype not in KERNEL_DTYPES:
        raise TypeError(f"softmax kernels take float32, float16 and bfloat16, not {x.dtype}")
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        raise IndexError(f"dimension {dim} is out of range for a tensor of {x.dim()} dimensions")


def _as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return `x` as (rows, columns) with unit stride along rows, copied only where its strides leave no other way."""
    if x.dim() == 2 and (x.stride(1) == 1 or x.shape[1] == 1):
        return x
    return x.contiguous().view(-1, x.shape[-1])


@torch.library.custom_op("example_kernels::softmax_triton", mutates_args=())
def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return softmax along `dim` (any shape and strides; float32, float16 or bfloat16); contiguous."""
    _check(x, dim)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    if x.numel() == 0:
        return y
    shape = x.shape or torch.Size([1])
    dim %= len(shape)
    inner = shape[dim + 1 :].numel()
    if inner == 1:
        rows = _as_rows(x.reshape(*shape[: dim + 1]))
        softmax_rows(rows, y.view(rows.shape))
    else:
        x = x.contiguous().view(-1, shape[dim], inner)
        softmax_columns(x, y.view(x.shape))
    return y


@torch.library.custom_op("example_kernels::softmax_triton_backward", mutates_args=())
def softmax_backward(dy: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the gradient of softmax's input from that of its output `y`: y · (dy − Σ dy·y); contiguous."""
    _check(y, dim)
    if y.numel() == 0:
        return torch.empty_like(y, memory_format=torch.contiguous_format)
    shape = y.shape or torch.Size([1])
    y_rows = y.reshape(shape).movedim(dim, -1).contiguous()
    dy_rows = dy.reshape(shape).movedim(dim, -1).contiguous()
    dx = torch.empty_like(y_rows)
    _backward_rows(dy_rows, y_rows, dx)
    moved = dx.movedim(-1, dim).reshape(y.shape)
    return moved.contiguous()


def _backward_rows(dy: torch.Tensor, y: torch.Tensor, dx: torch.Tensor) -> None:
    columns = y.shape[-1]
    rows = y.numel() // columns
    with torch.cuda.device_of(y):
        if columns <= BACKWARD_TILE_COLUMNS:
            rows_a_program, width, warps = tile_shape(columns)
            grid = (triton.cdiv(rows, rows_a_program),)
            kernels.backward_kernel[grid](dy, y, dx, rows, columns, rows_a_program, width, num_warps=2 * warps)
        else:
            kernels.online_backward_kernel[(rows,)](dy, y, dx, columns, TILE, num_warps=8)


@softmax.register_fake
def _(x: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@softmax_backward.register_fake
def _(_dy: torch.Tensor, y: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    _, ctx.dim = inputs
    ctx.save_for_backward(output)


def _differentiate(ctx, dy: torch.Tensor):  # type: ignore[no-untyped-def]
    (y,) = ctx.saved_tensors
    return softmax_backward(dy, y, ctx.dim), None


softmax.register_autograd(_differentiate, setup_context=_keep)


WIDTHS = tuple(2**power for power in range(4, 16))
"""Every width of a single tile, to SINGLE_TILE_COLUMNS."""
OFF_GRID = frozenset({"x_ptr", "dy_ptr", "rows", "columns", "x_stride", "length", "inner"})
"""What 16 need not divide, of addresses in bytes and of numbers."""
PARTIALS = {"maxima_ptr": "*fp32", "totals_ptr": "*fp32"}


def shipped() -> Iterator[Shipped]:
    """Yield every configuration that the launches above choose, on the grid of 16 elements and off it.

    float16 takes the registers that bfloat16 takes, so it is left out.
    """
    for dtype in ("fp32", "bf16"):
        for on_grid in ("", " off the grid"):
            for described in _shipped_of(dtype):
                unaligned = frozenset(OFF_GRID & set(described.signature)) if on_grid else frozenset[str]()
                name, unaligned = f"{described.name}{on_grid}", described.unaligned | unaligned
                yield dataclasses.replace(described, name=name, unaligned=unaligned)
            yield from _shipped_shared(f"softmax shared {dtype}{on_grid}", dtype, bool(on_grid))


def _shipped_of(dtype: str) -> Iterator[Shipped]:
    """Yield the kernels of rows that no programs share, as they are on the grid."""
    for columns in WIDTHS:
        yield _shipped_tile(f"softmax single tile {columns} {dtype}", dtype, columns)
        if columns <= BACKWARD_TILE_COLUMNS:
            yield _shipped_backward(f"softmax backward {columns} {dtype}", dtype, columns)
    for inner in (16, 32, 64):
        integers, constants = {"length": "i32", "inner": "i32"}, {"TILE": 64, "INNER": inner}
        kernel, signature = kernels.columns_kernel, {**_pointers(dtype), **integers}
        name = f"softmax columns {inner} {dtype}"
        yield Shipped(name=name, kernel=kernel, signature=signature, constants=constants, options={"num_warps": 4})
    yield from _shipped_loops(dtype)


def _shipped_loops(dtype: str) -> Iterator[Shipped]:
    row, part = {"columns": "i32", "x_stride": "i32"}, {"columns": "i32", "x_stride": "i32", "span": "i32"}
    gradients = {"dy_ptr": f"*{dtype}", "y_ptr": f"*{dtype}", "dx_ptr": f"*{dtype}", "columns": "i32"}
    loops: tuple[tuple[str, Any, dict[str, str]], ...] = (
        ("online", kernels.online_kernel, {**_pointers(dtype), **row}),
        ("split normaliser", kernels.split_normaliser_kernel, {"x_ptr": f"*{dtype}", **PARTIALS, **part}),
        ("online backward", kernels.online_backward_kernel, gradients),
    )
    options = {"num_warps": 8}
    for name, kernel, signature in loops:
        name, constants = f"softmax {name} {dtype}", {"TILE": TILE}
        yield Shipped(name=name, kernel=kernel, signature=signature, constants=constants, options=options)
    for parts in (2, 1024):
        name, constants = f"softmax split write {parts} {dtype}", {"PARTS": parts, "TILE": TILE}
        signature = {**_pointers(dtype), **PARTIALS, **part}
        kernel = kernels.split_write_kernel
        yield Shipped(name=name, kernel=kernel, signature=signature, constants=constants, options=options)


def _pointers(dtype: str) -> dict[str, str]:
    return {"x_ptr": f"*{dtype}", "y_ptr": f"*{dtype}"}


def _shipped_tile(name: str, dtype: str, columns: int) -> Shipped:
    rows, width, warps = tile_shape(columns)
    return Shipped(
        name=name,
        kernel=kernels.single_tile_kernel,
        signature={**_pointers(dtype), "rows": "i32", "columns": "i32", "x_stride": "i32"},
        constants={"ROWS": rows, "COLUMNS": width},
        options={"num_warps": warps},
    )


def _shipped_backward(name: str, dtype: str, columns: int) -> Shipped:
    rows, width, warps = tile_shape(columns)
    return Shipped(
        name=name,
        kernel=kernels.backward_kernel,
        signature={"dy_ptr": f"*{dtype}", "y_ptr": f"*{dtype}", "dx_ptr": f"*{dtype}", "rows": "i32", "columns": "i32"},
        constants={"ROWS": rows, "COLUMNS": width},
        options={"num_warps": 2 * warps},
    )


def _shipped_shared(name: str, dtype: str, off_grid: bool) -> Iterator[Shipped]:
    integers = dict.fromkeys(("rows", "columns", "x_stride", "span", "parts"), "i32")
    for parts in (2, 64, 1024):
        yield Shipped(
            name=f"{name} {parts}",
            kernel=kernels.shared_row_kernel,
            signature={**_pointers(dtype), **PARTIALS, "arrived_ptr": "*i32", **integers},
            constants={"PARTS": parts, "TILE": SHARED_TILE_OFF_GRID if off_grid else SHARED_TILE},
            options={"num_warps": SHARED_WARPS, "maxnreg": SHARED_REGISTERS},
            unaligned=frozenset({"rows", "parts"} | ({"x_ptr", "x_stride", "columns"} if off_grid else set())),
        )
