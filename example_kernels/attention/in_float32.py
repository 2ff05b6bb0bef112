"""Attention in float32 on a GPU: torch's memory-efficient kernel, given what it takes.

Exact products cannot use tensor cores as 16-bit ones do, and torch's own kernel is several times as fast at them as
the Triton ones. Left to itself torch turns to a formula that writes the score matrix down where rows do not fill
16-byte steps or begin off them, where elements do not lie side by side, and in some versions where heads are shared.
So heads are repeated and rows padded or copied first: that costs length · head_dim, not length².
"""

from __future__ import annotations

import torch

from example_kernels.attention.reference import default_scale, share_heads

STEP_ELEMENTS = 4
"""16 bytes of float32, which the kernel loads at a time."""


def attention_float32(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float | None
) -> torch.Tensor:
    """Return attention of float32 tensors without ever holding the score matrix."""
    head_dim, factor = q.shape[-1], default_scale(q, scale)
    k, v = share_heads(k, q.shape[1]), share_heads(v, q.shape[1])
    q, k, v = (_in_whole_steps(x) for x in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=factor)
    return o[..., :head_dim]


def _in_whole_steps(x: torch.Tensor) -> torch.Tensor:
    """Return `x` with rows of whole steps, that begin on them: padded by zeros, copied only where it has to be."""
    missing = -x.shape[-1] % STEP_ELEMENTS
    if missing:
        return torch.nn.functional.pad(x, (0, missing))
    return x if _steps_fit(x) else x.clone(memory_format=torch.contiguous_format)


def _steps_fit(x: torch.Tensor) -> bool:
    steps = [stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1]
    # Compiled code moves its inputs onto the grid by itself, and cannot ask where they begin.
    begins = 0 if torch.compiler.is_compiling() else x.storage_offset()
    return x.stride(-1) == 1 and all(step % STEP_ELEMENTS == 0 for step in (begins, *steps))
