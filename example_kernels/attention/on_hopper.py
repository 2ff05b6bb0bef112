"""Launch the Hopper kernels: which arguments they take, and their descriptors."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from example_kernels.attention.hopper_backward import hopper_keys_kernel, hopper_queries_kernel
from example_kernels.attention.hopper_forward import hopper_forward_kernel
from example_kernels.attention.layout import descriptor_strides
from example_kernels.support.ahead_of_time import Shipped

HOPPER_MAJOR = 9
WIDTHS = (64, 128)
ROWS_A_PROGRAM = 128
ROWS_A_CONSUMER = 64
FORWARD_KEYS = 128
FORWARD_STAGES = {64: 3, 128: 2}
BACKWARD_QUERIES = 64
BACKWARD_QUERIES_STAGES = {64: 3, 128: 2}
BACKWARD_KEYS = 128
BACKWARD_KEYS_STAGES = {64: 2, 128: 2}


def _fits(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether a Hopper kernel takes these, given that descriptors can be made of them."""
    if not q.is_cuda or q.element_size() != 2 or q.shape[3] > WIDTHS[-1] or k.shape[2] == 0:
        return False
    return torch.cuda.get_device_capability(q.device)[0] == HOPPER_MAJOR


def takes_forward(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether the Hopper forward kernel is the one to use: at 64 columns the general one is as fast, or faster."""
    return q.shape[3] > WIDTHS[0] and _fits(q, k)


def takes_keys(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether the Hopper kernel for dK and dV is the one to use."""
    return _fits(q, k)


def takes_queries(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether the Hopper kernel for dQ is the one to use: at 64 columns the general one is faster."""
    return q.shape[3] > WIDTHS[0] and _fits(q, k)


def width_of(head_dim: int) -> int:
    """Return the tile's width: the copy engine fills what the head does not."""
    return next(width for width in WIDTHS if head_dim <= width)


@functools.cache
def _layout(block: tuple[int, ...], dtype: torch.dtype) -> gl.NVMMASharedLayout:
    elements = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16, torch.float32: gl.float32}
    return gl.NVMMASharedLayout.get_default_for(list(block), elements[dtype])


def _describe(x: torch.Tensor, rows: int, width: int) -> TensorDescriptor:
    block = (1, 1, rows, width)
    return TensorDescriptor(x, list(x.shape), descriptor_strides(x), list(block), _layout(block, x.dtype))


def _describe_rows(x: torch.Tensor, count: int) -> TensorDescriptor:
    """Describe values of rows, (batch · heads, padded length), in pieces of `count`."""
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, count], _layout((1, count), x.dtype))


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def launch_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
    cohort: int,
) -> None:
    """Write attention into `o` and the row log-sum-exp into `lse`."""
    batch, heads, queries, head_dim = q.shape
    width = width_of(head_dim)
    instances = batch * heads
    works = triton.cdiv(queries, ROWS_A_PROGRAM) * instances
    hopper_forward_kernel[(min(works, _multiprocessors(q.device)),)](
        _describe(q, ROWS_A_CONSUMER, width),
        _describe(k, FORWARD_KEYS, width),
        _describe(v, FORWARD_KEYS, width),
        _describe(o, ROWS_A_CONSUMER, width),
        lse, scale, instances, heads, heads // k.shape[1], queries, k.shape[2], cohort,
        CAUSAL=causal, KEYS=FORWARD_KEYS, STAGES=FORWARD_STAGES[width], WIDTH=width, num_warps=4,
    )  # fmt: skip


def launch_keys(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor],
    dk: torch.Tensor,
    dv: torch.Tensor,
    causal: bool,
    scale: float,
    cohort: int,
) -> None:
    """Write dK and dV; `rows` are D and L to base 2."""
    batch, heads, queries, head_dim = q.shape
    kv_heads, keys, width = k.shape[1], k.shape[2], width_of(head_dim)
    delta, lse_log2 = rows
    instances = batch * kv_heads
    works = triton.cdiv(keys, ROWS_A_PROGRAM) * instances
    hopper_keys_kernel[(min(works, _multiprocessors(q.device)),)](
        _describe(q, BACKWARD_QUERIES, width),
        _describe(k, ROWS_A_CONSUMER, width),
        _describe(v, ROWS_A_CONSUMER, width),
        _describe(do, BACKWARD_QUERIES, width),
        _describe(dk, ROWS_A_CONSUMER, width),
        _describe(dv, ROWS_A_CONSUMER, width),
        _describe_rows(lse_log2, BACKWARD_QUERIES),
        _describe_rows(delta, BACKWARD_QUERIES),
        scale, instances, kv_heads, heads // kv_heads, queries, keys, cohort,
        CAUSAL=causal, QUERIES=BACKWARD_QUERIES, STAGES=BACKWARD_QUERIES_STAGES[width], WIDTH=width, num_warps=4,
    )  # fmt: skip


def launch_queries(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor],
    dq: torch.Tensor,
    causal: bool,
    scale: float,
    cohort: int,
) -> None:
    """Write dQ; `rows` are D and L to base 2."""
    batch, heads, queries, head_dim = q.shape
    width = width_of(head_dim)
    delta, lse_log2 = rows
    instances = batch * heads
    works = triton.cdiv(queries, ROWS_A_PROGRAM) * instances
    hopper_queries_kernel[(min(works, _multiprocessors(q.device)),)](
        _describe(q, ROWS_A_CONSUMER, width),
        _describe(k, BACKWARD_KEYS, width),
        _describe(v, BACKWARD_KEYS, width),
        _describe(do, ROWS_A_CONSUMER, width),
        _describe(dq, ROWS_A_CONSUMER, width),
        lse_log2, delta,
        scale, instances, heads, heads // k.shape[1], queries, k.shape[2], delta.shape[1], cohort,
        CAUSAL=causal, KEYS=BACKWARD_KEYS, STAGES=BACKWARD_KEYS_STAGES[width], WIDTH=width, num_warps=4,
    )  # fmt: skip


def shipped() -> Iterator[Shipped]:
    """Yield the configurations the launches above choose."""
    for width in WIDTHS:
        for causal in (False, True):
            name = f"attention hopper {width}{' causal' if causal else ''}"
            if width > WIDTHS[0]:
                yield _shipped(f"{name} forward", hopper_forward_kernel, _forward_types(width), width, causal)
                yield _shipped(f"{name} dQ", hopper_queries_kernel, _queries_types(width), width, causal)
            yield _shipped(f"{name} dK dV", hopper_keys_kernel, _keys_types(width), width, causal)


def _tile_type(rows: int, width: int) -> str:
    return f"tensordesc<bf16[1,1,{rows},{width}],{_layout((1, 1, rows, width), torch.bfloat16)!r}>"


def _forward_types(width: int) -> dict[str, str]:
    own, keys = _tile_type(ROWS_A_CONSUMER, width), _tile_type(FORWARD_KEYS, width)
    return {"q": own, "k": keys, "v": keys, "o": own, "lse_ptr": "*fp32"}


def _keys_types(width: int) -> dict[str, str]:
    own, queries = _tile_type(ROWS_A_CONSUMER, width), _tile_type(BACKWARD_QUERIES, width)
    row = f"tensordesc<fp32[1,{BACKWARD_QUERIES}],{_layout((1, BACKWARD_QUERIES), torch.float32)!r}>"
    own_names = dict.fromkeys(("k", "v", "dk", "dv"), own)
    return {"q": queries, "do": queries, **own_names, "lse_log2": row, "delta": row}


def _queries_types(width: int) -> dict[str, str]:
    own, keys = _tile_type(ROWS_A_CONSUMER, width), _tile_type(BACKWARD_KEYS, width)
    return {"q": own, "do": own, "dq": own, "k": keys, "v": keys, "lse_log2_ptr": "*fp32", "delta_ptr": "*fp32"}


def _shipped(name: str, kernel: Any, types: dict[str, str], width: int, causal: bool) -> Shipped:
    stages = {
        hopper_forward_kernel: FORWARD_STAGES,
        hopper_keys_kernel: BACKWARD_QUERIES_STAGES,
        hopper_queries_kernel: BACKWARD_KEYS_STAGES,
    }
    sizes = {"KEYS": FORWARD_KEYS, "QUERIES": BACKWARD_QUERIES, "STAGES": stages[kernel][width], "WIDTH": width}
    constants = {n: v for n, v in {**sizes, "CAUSAL": causal}.items() if n in kernel.arg_names}
    integers = [n for n in kernel.arg_names if n not in {*types, *constants, "scale"}]
    return Shipped(
        name=name,
        kernel=kernel,
        signature={**types, "scale": "fp32", **dict.fromkeys(integers, "i32")},
        constants=constants,
        options={"num_warps": 4},
        unaligned=frozenset(integers) - {"padded"},
    )
