"""What autocast does to the arguments of torch's own operations, for operations that torch does not know.

Torch sorts its operations: some run in autocast's 16 bits, some always in float32, the others in what they are given.
Custom operators are among the others, so those that stand in for one of the first two kinds convert by these.
"""

from __future__ import annotations

import torch

NARROW = (torch.float16, torch.bfloat16)


def narrowed_by_autocast(x: torch.Tensor) -> torch.Tensor:
    """Return `x` in autocast's dtype where it is active, as an argument of a product of matrices would be."""
    kind = x.device.type
    if x.dtype not in (*NARROW, torch.float32) or not _autocasts(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind))


def widened_by_autocast(x: torch.Tensor) -> torch.Tensor:
    """Return `x` in float32 where CUDA's autocast is active, as an argument of an exponential would be.

    The CPU's autocast leaves softmax in the dtype it is given.
    """
    return x.float() if x.is_cuda and x.dtype in NARROW and _autocasts("cuda") else x


def _autocasts(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
