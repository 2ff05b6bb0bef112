"""Softmax: softmax(x)_i = e^(x_i − m) / Σ_j e^(x_j − m) along one dimension, m its maximum.

`softmax` runs the Triton kernels where it can, else torch's own; `IMPLEMENTATIONS` holds them all by name.
`online_softmax` and `online_softmax_weighted_sum` are the one-pass recurrence, written to be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from example_kernels.softmax.reference import online_softmax, online_softmax_weighted_sum, softmax_unfused
from example_kernels.support.autocast import widened_by_autocast
from example_kernels.support.availability import runs_triton
from example_kernels.support.forward_mode import refuse_forward_mode

__all__ = ["IMPLEMENTATIONS", "online_softmax", "online_softmax_weighted_sum", "softmax"]


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return softmax of `x` along `dim`, in its shape and dtype; differentiable once.

    Runs the Triton kernels on CUDA tensors of 32 and 16 bits, torch's own elsewhere.
    Raises IndexError for a dimension that `x` does not have.
    """
    if runs_triton(x):
        return softmax_triton(x, dim)
    return softmax_torch(x, dim)


def softmax_torch(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return torch's own softmax."""
    return torch.softmax(x, dim)


def softmax_compiled(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return the unfused formula's result after torch.compile has fused it."""
    return _compiled()(x, dim)


def softmax_triton(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return the Triton kernels' softmax; in float32 under CUDA's autocast, as torch's own."""
    from example_kernels.softmax import with_triton

    refuse_forward_mode(x)
    return with_triton.softmax(widened_by_autocast(x), dim)


@functools.cache
def _compiled() -> Callable[[torch.Tensor, int], torch.Tensor]:
    return torch.compile(softmax_unfused, dynamic=False)


IMPLEMENTATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "torch": softmax_torch,
    "unfused": softmax_unfused,
    "compiled": softmax_compiled,
    "triton": softmax_triton,
}
