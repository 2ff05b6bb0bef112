"""GeLU, the Gaussian error linear unit: gelu(x) = x · Φ(x), Φ the standard normal distribution function.

    approximate="none":  Φ(x) = ½ (1 + erf(x / √2))
    approximate="tanh":  Φ(x) ≈ ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))

`gelu` runs the Triton kernel where it can, else torch's own; `IMPLEMENTATIONS` holds them all by name.
Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from example_kernels.gelu.reference import gelu_reference, gelu_unfused
from example_kernels.support.availability import runs_triton
from example_kernels.support.forward_mode import refuse_forward_mode

__all__ = ["IMPLEMENTATIONS", "gelu", "gelu_reference"]


def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return GeLU of every element of `x`, in its shape and dtype; differentiable once.

    Runs the Triton kernel on CUDA tensors of 32 and 16 bits, torch's own elsewhere.
    Raises ValueError for an `approximate` other than "none" and "tanh".
    """
    if runs_triton(x):
        return gelu_triton(x, approximate)
    return gelu_torch(x, approximate)


def gelu_torch(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return torch's own GeLU."""
    if approximate not in {"none", "tanh"}:
        raise ValueError(f'approximate is "none" or "tanh", not {approximate!r}')
    return torch.nn.functional.gelu(x, approximate=approximate)


def gelu_compiled(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return the unfused formula's result after torch.compile has fused it."""
    return _compiled()(x, approximate)


def gelu_triton(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return the Triton kernel's GeLU."""
    from example_kernels.gelu import with_triton

    refuse_forward_mode(x)
    return with_triton.gelu(x, approximate)


def gelu_cuda(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return the CUDA C++ kernel's GeLU, in 128-bit accesses where the data are aligned."""
    from example_kernels.gelu import with_cuda

    refuse_forward_mode(x)
    return with_cuda.gelu(x, approximate)


def gelu_cuda_scalar(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return the CUDA C++ kernel's GeLU, one thread an element."""
    from example_kernels.gelu import with_cuda

    refuse_forward_mode(x)
    return with_cuda.gelu_scalar(x, approximate)


@functools.cache
def _compiled() -> Callable[[torch.Tensor, str], torch.Tensor]:
    return torch.compile(gelu_unfused, dynamic=False)


IMPLEMENTATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "torch": gelu_torch,
    "unfused": gelu_unfused,
    "compiled": gelu_compiled,
    "triton": gelu_triton,
    "cuda": gelu_cuda,
    "cuda_scalar": gelu_cuda_scalar,
}
