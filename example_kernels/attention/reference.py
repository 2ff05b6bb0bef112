"""Attention as the formula, and tile by tile as FlashAttention computes it.

    O = softmax(scale · Q Kᵀ) V,   L = log Σ e^(scale · Q Kᵀ)

Shapes are (batch, heads, length, head_dim); `k` and `v` may have fewer heads, each shared by a group of query heads.
The causal mask is aligned top-left, as torch's `is_causal`: query i sees keys 0…i, whatever the two lengths.
A query that sees no key gets zeros, and L = −∞.
"""

from __future__ import annotations

import math

import torch


def default_scale(q: torch.Tensor, scale: float | None) -> float:
    """Return `scale`, by default 1/√head_dim."""
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)


def share_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Repeat every key or value head for its group of query heads; raise ValueError where the groups are uneven."""
    if heads == x.shape[1]:
        return x
    if x.shape[1] == 0 or heads % x.shape[1] != 0:
        raise ValueError(f"{heads} query heads cannot share {x.shape[1]} key heads evenly")
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _scores(q: torch.Tensor, k: torch.Tensor, causal: bool, scale: float, query: int, key: int) -> torch.Tensor:
    """Return scaled and masked scores of queries and keys that start at rows `query` and `key`."""
    scores = (q @ k.transpose(-2, -1)) * scale
    if causal:
        rows = torch.arange(query, query + q.shape[-2], device=q.device)
        columns = torch.arange(key, key + k.shape[-2], device=q.device)
        scores = scores.masked_fill(rows[:, None] < columns[None, :], -torch.inf)
    return scores


def attention_naive(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return attention with the whole score matrix in memory: O(N²) of it."""
    k, v = share_heads(k, q.shape[1]), share_heads(v, q.shape[1])
    scores = _scores(q, k, causal, default_scale(q, scale), 0, 0)
    return torch.softmax(scores, -1) @ v


def attention_tiled(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    tile: int = 64,
) -> torch.Tensor:
    """Return attention computed tile by tile; no more than one tile of scores a head exists at a time."""
    return attention_tiled_with_lse(q, k, v, causal=causal, scale=scale, tile=tile)[0]


def attention_tiled_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    tile: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention and the row log-sum-exp L, (batch, heads, length)."""
    k, v = share_heads(k, q.shape[1]), share_heads(v, q.shape[1])
    outputs, logs = [q[..., :0, :]], [q[..., :0, 0]]
    for row in range(0, q.shape[2], tile):
        o, lse = _attend_rows(q[:, :, row : row + tile], k, v, causal, default_scale(q, scale), row, tile)
        outputs.append(o)
        logs.append(lse)
    return torch.cat(outputs, 2), torch.cat(logs, 2)


def _attend_rows(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, row: int, tile: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Walk one tile of queries over all keys that any of its rows sees."""
    maximum = q.new_full((*q.shape[:-1], 1), -torch.inf)
    total, acc = torch.zeros_like(maximum), torch.zeros_like(q)
    end = min(k.shape[2], row + q.shape[2]) if causal else k.shape[2]
    for key in range(0, end, tile):
        columns = slice(key, min(key + tile, end))
        scores = _scores(q, k[:, :, columns], causal, scale, row, key)
        grown = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        shift = torch.where(grown == -torch.inf, 0.0, grown)
        weights, rescale = torch.exp(scores - shift), torch.exp(maximum - shift)
        total = total * rescale + weights.sum(-1, keepdim=True)
        acc = acc * rescale + weights @ v[:, :, columns]
        maximum = grown
    return torch.where(total == 0, 0.0, acc / total), (maximum + torch.log(total)).squeeze(-1)


def attention_backward_reference(
    do: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK, dV by the formulas the kernels use, with whole matrices; as many key heads as query heads."""
    scores = _scores(q, k, causal, scale, 0, 0)
    lse = torch.logsumexp(scores, -1, keepdim=True)
    weights = torch.exp(scores - lse)
    delta = (do * (weights @ v)).sum(-1, keepdim=True)
    d_scores = weights * (do @ v.transpose(-2, -1) - delta)
    dq, dk = scale * d_scores @ k, scale * d_scores.transpose(-2, -1) @ q
    return dq, dk, weights.transpose(-2, -1) @ do
