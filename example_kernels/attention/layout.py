"""How q, k, v and their gradients may lie in memory for the kernels to work on them: by strides and addresses alone."""

from __future__ import annotations

import torch

ALIGNMENT_BYTES = 16
GRID_ELEMENTS = 16
"""Triton specialises kernels on what 16 divides."""
WIDEST_OFF_THE_GRID = 128
"""At wider heads addresses of results that are off the grid would not fit the registers."""
TALLEST_TILE = 128
"""Rows of the tallest tile of any configuration: offsets within a tile are counted in 32 bits."""


def row_strides(x: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of batch, head and length; that of a dimension of one counts for nothing."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True))


def descriptor_strides(x: torch.Tensor) -> list[int]:
    """Return strides for a descriptor: those of dimensions of one must be aligned too, the last one's is 1."""
    strides = [stride if size > 1 else x.shape[3] for size, stride in zip(x.shape, x.stride(), strict=True)]
    return [*strides[:3], 1]


def readable(x: torch.Tensor) -> torch.Tensor:
    """Return `x` so that kernels can address it, copied only where its strides leave no other way.

    Neighbouring elements of a row lie next to each other, and a tile spans less than 2³¹ elements.
    """
    return x if (x.stride(-1) == 1 or x.shape[-1] == 1) and _is_near(x) else x.contiguous()


def _is_near(x: torch.Tensor) -> bool:
    """Whether 32 bits hold every offset within a tile of (batch, heads, length, head_dim)."""
    return x.shape[2] == 1 or TALLEST_TILE * x.stride(2) < 2**31


def result_like(x: torch.Tensor) -> torch.Tensor:
    """Return an empty tensor in the layout of `x` if kernels can address that, else contiguous."""
    result = torch.empty_like(x)
    if result.stride(-1) == 1 and _is_near(result):
        return result
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def can_describe(*tensors: torch.Tensor) -> bool:
    """Whether the copy engine is to read these: 16 bits, aligned rows, heads and batches, none repeated by stride 0.

    In float32 small tiles are all that fits the registers, and descriptors gain nothing.
    """
    return all(x.element_size() == 2 and _aligned(x) for x in tensors)


def _aligned(x: torch.Tensor) -> bool:
    steps = [stride for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True) if size > 1]
    whole = all(step > 0 and step * x.element_size() % ALIGNMENT_BYTES == 0 for step in steps)
    row_bytes = x.shape[3] * x.element_size()
    return x.numel() > 0 and whole and x.data_ptr() % ALIGNMENT_BYTES == 0 and row_bytes % ALIGNMENT_BYTES == 0


def lie_well(*tensors: torch.Tensor) -> bool:
    """Whether the kernels work on these where they lie, with every address in registers: what the compile gate asserts.

    Either the copy engine reads and writes them, or Triton knows that their rows begin on a grid of 16 elements.
    """
    described = can_describe(*tensors) and tensors[0].shape[3] <= WIDEST_OFF_THE_GRID
    return described or all(_on_grid(x) for x in tensors)


def _on_grid(x: torch.Tensor) -> bool:
    sizes = (*row_strides(x), x.shape[3])
    return x.data_ptr() % ALIGNMENT_BYTES == 0 and all(size % GRID_ELEMENTS == 0 for size in sizes)


def on_grid(x: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy whose rows are rounded up to 16 elements by zeros, which no product or sum sees."""
    head_dim = x.shape[3]
    copy = x.new_empty((*x.shape[:3], -(-head_dim // GRID_ELEMENTS) * GRID_ELEMENTS))
    copy[..., :head_dim] = x
    copy[..., head_dim:] = 0
    return copy
