"""Launch the Hopper kernels: which arguments they take, and their descriptors."""

from __future__ import annotations

import functools

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from example_kernels.attention.hopper_kernel import hopper_forward_kernel

HOPPER_MAJOR = 9
WIDTHS = (64, 128)
QUERIES_A_PROGRAM = 128
QUERIES_A_CONSUMER = 64
FORWARD_KEYS = 128
FORWARD_STAGES = {64: 3, 128: 2}


def fits(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether a Hopper kernel takes these, given that descriptors can be made of them."""
    if not q.is_cuda or q.element_size() != 2 or q.shape[3] > WIDTHS[-1] or k.shape[2] == 0:
        return False
    return torch.cuda.get_device_capability(q.device)[0] == HOPPER_MAJOR


def width_of(head_dim: int) -> int:
    """Return the tile's width: the copy engine fills what the head does not."""
    return next(width for width in WIDTHS if head_dim <= width)


@functools.cache
def _layout(rows: int, width: int, dtype: torch.dtype) -> gl.NVMMASharedLayout:
    element = gl.bfloat16 if dtype == torch.bfloat16 else gl.float16
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, width], element)


def _describe(x: torch.Tensor, rows: int, width: int) -> TensorDescriptor:
    strides = [stride if size > 1 else x.shape[3] for size, stride in zip(x.shape, x.stride(), strict=True)]
    return TensorDescriptor(x, list(x.shape), [*strides[:3], 1], [1, 1, rows, width], _layout(rows, width, x.dtype))


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
    works = triton.cdiv(queries, QUERIES_A_PROGRAM) * instances
    hopper_forward_kernel[(min(works, _multiprocessors(q.device)),)](
        _describe(q, QUERIES_A_CONSUMER, width),
        _describe(k, FORWARD_KEYS, width),
        _describe(v, FORWARD_KEYS, width),
        _describe(o, QUERIES_A_CONSUMER, width),
        lse, scale, instances, heads, heads // k.shape[1], queries, k.shape[2], cohort,
        CAUSAL=causal, KEYS=FORWARD_KEYS, STAGES=FORWARD_STAGES[width], WIDTH=width, num_warps=4,
    )  # fmt: skip
