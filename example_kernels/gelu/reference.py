"""GeLU and its derivative, written as the formula: what the kernels are checked against."""

from __future__ import annotations

import math

import torch

CUBIC = 0.044715
TANH_SCALE = math.sqrt(2 / math.pi)
SQRT_HALF = math.sqrt(0.5)


def gelu_reference(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return x · Φ(x); exact to rounding when `x` is float64."""
    return x * _distribution(x, approximate)


def gelu_slope_reference(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return the derivative: Φ(x) + x · Φ'(x)."""
    return _distribution(x, approximate) + x * _density(x, approximate)


def _distribution(x: torch.Tensor, approximate: str) -> torch.Tensor:
    if approximate == "tanh":
        # ½ (1 + tanh u) is sigmoid(2u), which keeps its relative precision where tanh is near −1.
        return torch.sigmoid(2 * TANH_SCALE * (x + CUBIC * x**3))
    return 0.5 * torch.special.erfc(-x * SQRT_HALF)


def _density(x: torch.Tensor, approximate: str) -> torch.Tensor:
    if approximate == "tanh":
        sigmoid = _distribution(x, approximate)
        return sigmoid * (1 - sigmoid) * 2 * TANH_SCALE * (1 + 3 * CUBIC * x**2)
    return torch.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)


def gelu_unfused(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return GeLU as separate torch operations, each a kernel that reads and writes the whole tensor.

    Six for "tanh" (power, sum, scale, tanh, half, multiply-add), four for "none".
    """
    if approximate == "tanh":
        inner = torch.add(x, x**3, alpha=CUBIC)
        squashed = torch.tanh(inner * TANH_SCALE)
    else:
        squashed = torch.erf(x * SQRT_HALF)
    half = 0.5 * x
    return torch.addcmul(half, half, squashed)
