"""Attention: O = softmax(scale · Q Kᵀ) V, for (batch, heads, length, head_dim).

`attention` runs the fastest there is for its tensors; `IMPLEMENTATIONS` holds all implementations by name.
`k` and `v` may have fewer heads than `q` (grouped-query and multi-query attention).
The causal mask is aligned top-left, as torch's `is_causal`; a query that sees no key gets zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from example_kernels.attention.configurations import MAXIMUM_HEAD_DIM
from example_kernels.attention.in_float32 import attention_float32
from example_kernels.attention.reference import attention_naive, attention_tiled
from example_kernels.support.autocast import narrowed_by_autocast
from example_kernels.support.availability import runs_triton

__all__ = ["IMPLEMENTATIONS", "attention"]


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return attention of `q` over `k` and `v`, in the shape and dtype of `q`; differentiable once.

    Runs the Triton kernels on CUDA tensors of 16 bits with a head_dim up to 256, torch's own elsewhere. In float32 the
    Triton kernels are the slower ones, but repeat every bit: there they run only where torch is told to be
    deterministic (`torch.use_deterministic_algorithms`).
    """
    q, k, v = (narrowed_by_autocast(x) for x in (q, k, v))
    if not runs_triton(q) or q.shape[-1] > MAXIMUM_HEAD_DIM:
        return attention_torch(q, k, v, causal=causal, scale=scale)
    if q.dtype == torch.float32 and not torch.are_deterministic_algorithms_enabled():
        return attention_float32(q, k, v, causal=causal, scale=scale)
    return attention_triton(q, k, v, causal=causal, scale=scale)


def attention_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return torch's scaled dot product attention, by whichever back end it chooses."""
    grouped = q.shape[1] != k.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)


def _with_backend(name: str) -> Callable[..., torch.Tensor]:
    def attend(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
    ) -> torch.Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, name)):
            return attention_torch(q, k, v, causal=causal, scale=scale)

    attend.__name__ = f"attention_{name.lower()}"
    attend.__doc__ = f"Return torch's attention by its {name} back end alone."
    return attend


def attention_compiled(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return the naive formula's result after torch.compile has fused what it can."""
    return _compiled()(q, k, v, causal=causal, scale=scale)


def attention_triton(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return the Triton kernels' attention."""
    from example_kernels.attention import with_triton

    return with_triton.attention(q, k, v, causal=causal, scale=scale)


@functools.cache
def _compiled() -> Callable[..., torch.Tensor]:
    return torch.compile(attention_naive, dynamic=False)


IMPLEMENTATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "torch": attention_torch,
    "unfused": attention_naive,
    "tiled": attention_tiled,
    "compiled": attention_compiled,
    "flash": _with_backend("FLASH_ATTENTION"),
    "cudnn": _with_backend("CUDNN_ATTENTION"),
    "triton": attention_triton,
}
