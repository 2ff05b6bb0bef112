"""Softmax as the formula, and as the one-pass recurrence that the kernels and FlashAttention are built on.

    softmax(x)_i = e^(x_i − m) / Σ_j e^(x_j − m),   m = max_j x_j

Online: keep the running maximum m and sum s. A tile with maximum t changes them to

    m' = max(m, t),   s' = s · e^(m − m') + Σ_tile e^(x − m')

so old contributions are rescaled whenever the maximum grows.
Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867.
"""

from __future__ import annotations

import torch


def softmax_unfused(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return softmax as separate torch operations: maximum, difference, exponential, sum, quotient."""
    shifted = x - x.amax(dim, keepdim=True)
    exponentials = torch.exp(shifted)
    return exponentials / exponentials.sum(dim, keepdim=True)


def online_softmax(x: torch.Tensor, tile: int = 128) -> torch.Tensor:
    """Return softmax over the last dimension, having seen it `tile` columns at a time.

    A row of −∞ alone has no softmax: NaN, as torch gives.
    """
    maximum, total = online_normaliser(x, tile)
    return torch.exp(x - maximum) / total


def online_normaliser(x: torch.Tensor, tile: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum m and Σ e^(x − m) of every row, shaped like `x` with a last dimension of 1."""
    maximum = x.new_full((*x.shape[:-1], 1), -torch.inf)
    total = torch.zeros_like(maximum)
    for start in range(0, x.shape[-1], tile):
        maximum, rescale, weights = _absorb(maximum, x[..., start : start + tile])
        total = total * rescale + weights.sum(-1, keepdim=True)
    return maximum, total


def online_softmax_weighted_sum(scores: torch.Tensor, values: torch.Tensor, tile: int = 128) -> torch.Tensor:
    """Return softmax(scores) @ values without ever holding a whole row of weights: attention's inner loop.

    `scores` is (..., rows, n), `values` (..., n, width). Rows whose every score is −∞ attend to nothing: zeros.
    """
    maximum = scores.new_full((*scores.shape[:-1], 1), -torch.inf)
    total = torch.zeros_like(maximum)
    weighted = scores.new_zeros((*scores.shape[:-1], values.shape[-1]))
    for start in range(0, scores.shape[-1], tile):
        maximum, rescale, weights = _absorb(maximum, scores[..., start : start + tile])
        total = total * rescale + weights.sum(-1, keepdim=True)
        weighted = weighted * rescale + weights @ values[..., start : start + tile, :]
    return torch.where(total == 0, 0.0, weighted / total)


def _absorb(maximum: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the new maximum, the factor for everything summed so far, and the tile's own weights."""
    grown = torch.maximum(maximum, columns.amax(-1, keepdim=True))
    # Where all seen so far is −∞, subtracting the maximum would be ∞ − ∞; any finite shift gives the wanted zeros.
    shift = torch.where(grown == -torch.inf, 0.0, grown)
    return grown, torch.exp(maximum - shift), torch.exp(columns - shift)
