"""Forward-mode differentiation, which torch's custom operators do not have: they drop tangents without a word."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def refuse_forward_mode(*tensors: torch.Tensor) -> None:
    """Raise NotImplementedError where a tensor carries a tangent, as torch does for operations without a rule."""
    if any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise NotImplementedError(
            "these kernels are differentiated in reverse mode only (backward, torch.autograd.grad), "
            'not by forward mode (torch.func.jvp, jacfwd, dual numbers): use IMPLEMENTATIONS["unfused"]'
        )
